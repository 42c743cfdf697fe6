"""Probe how a reward can be gamed: by harm, by length, and by one text for every sentence.

A reward is a function of B lists of N hypotheses, B references and B sources: (B, N) numbers,
higher is better (`reward_scores` makes one of a --reward). It is asked about the same sentences
before and after each kind of change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from simile_plugin.encoder import split_parts, split_words
from simile_plugin.evaluation.harm import HARMS, Material, harmed_sentences
from simile_plugin.evaluation.meteor import Meteor
from simile_plugin.evaluation.sentence_metrics import without_rounding
from simile_plugin.evaluation.text_search import (
    LOWER,
    SEARCH_REFS,
    SEARCH_STEPS,
    FixedText,
    Lists,
    Scores,
    climb,
    find_text,
    scores_in_parts,
)
from simile_plugin.files import InputError
from simile_plugin.reward import Scorer, make_lexicon
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    SEED,
    Floats,
    bootstrap,
    interval,
    mean_statistics,
    pearson,
)


def reward_scores(scorer: Scorer) -> Scores:
    """Return a scorer's reward as a function of lists; it raises InputError for NaN, infinity."""

    def scores(lists: Lists, refs: Sequence[str], srcs: Sequence[str]) -> Floats:
        values = scorer.values(lists, refs, srcs)
        if not torch.isfinite(values).all():
            spec = scorer.reward.spec
            raise InputError(f"--reward {spec}: expected finite numbers for all texts")
        return values.double().cpu().numpy()

    return scores


def meteor_lists(meteor: Meteor) -> Scores:
    """Return METEOR as a function of lists."""

    def scores(lists: Lists, refs: Sequence[str], srcs: Sequence[str]) -> Floats:
        pairs = [(hyp, ref) for hyps, ref in zip(lists, refs, strict=True) for hyp in hyps]
        values = meteor.scores([hyp for hyp, _ in pairs], [ref for _, ref in pairs])
        return values.reshape(len(lists), -1)

    return scores


@dataclass(frozen=True)
class Texts:
    """Line-parallel sentences; all but the references may be missing.

    Attributes:
        refs: references.
        hyps: what is changed; the references themselves where there are none.
        others: other references, a harmless change.
        lists: n-best lists with their references and sources ("": unknown), of any sentences.
        foreign: the same in a language that is neither the source's nor the target's.
    """

    refs: Sequence[str]
    hyps: Sequence[str] = ()
    srcs: Sequence[str] = ()
    others: Sequence[str] = ()
    lists: Sequence[tuple[Sequence[str], str, str]] = ()
    foreign: Sequence[str] = ()


@dataclass(frozen=True)
class Changed:
    """Sentences after one kind of change.

    Attributes:
        harmless: the change leaves the meaning as it was.
        rows: places of the changed sentences among all sentences.
    """

    kind: str
    harmless: bool
    rows: Sequence[int]
    texts: Sequence[str]


@dataclass(frozen=True)
class Change:
    """Effect of one kind of change on a reward.

    Attributes:
        count: changed sentences.
        mean: reward after it minus before it, with its 95% bootstrap interval.
        not_lower: share of the sentences whose reward does not fall, in percent.
        spreads: the mean in standard deviations within n-best lists, if there are lists.
    """

    harmless: bool
    count: int
    mean: float
    low: float
    high: float
    not_lower: float
    spreads: float | None


@dataclass(frozen=True)
class Probed:
    """Answers of a reward to a probe.

    Attributes:
        changes: by kind; a kind that no sentence gave occasion for is not there.
        spread: standard deviation within n-best lists, the mean over lists; None without lists.
        length: Pearson correlation with the length in words within n-best lists, the mean over
            those where both differ; None where there is none.
        length_lists: how many those are.
        fixed: the best single text for all references; None without a search.
        means: mean reward of other texts against the references, to compare it with.
    """

    changes: dict[str, Change]
    spread: float | None
    length: float | None
    length_lists: int
    fixed: FixedText | None
    means: dict[str, float]


def probe_reward(
    scores: Scores,
    texts: Texts,
    search_words: int = 200,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    progress: Callable[[int], object] = lambda done: None,
) -> Probed:
    """Ask one reward about changed sentences, n-best lists and a fixed text.

    Args:
        search_words: words tried in the fixed text, the commonest of the references; 0: no search.
        seed: of the changes and the resamples.
        progress: called with 1 after each of `probe_steps(search_words)` steps.

    Raises:
        InputError: where no line has a text and a reference.
    """
    texts = _without_blank(texts)
    base = texts.hyps or texts.refs
    srcs = texts.srcs or [""] * len(base)
    before = scores_in_parts(scores, [[text] for text in base], texts.refs, srcs)[:, 0]
    spread, length, length_lists = within_lists(scores, texts.lists)
    changes = {}
    for changed in change_texts(texts, seed):
        rows = list(changed.rows)
        if not rows:
            continue
        refs, of = [texts.refs[row] for row in rows], [srcs[row] for row in rows]
        after = scores_in_parts(scores, [[text] for text in changed.texts], refs, of)[:, 0]
        changes[changed.kind] = summarise(
            after - before[rows], changed.harmless, spread, resamples, seed
        )
    means = {"the hypotheses" if texts.hyps else "the references": float(before.mean())}
    unrelated = [*texts.refs[1:], texts.refs[0]] if len(texts.refs) > 1 else ()
    peers = {"the other references": texts.others, "the next line's reference": unrelated}
    for name, lines in peers.items():
        if lines:
            values = scores_in_parts(scores, [[line] for line in lines], texts.refs, srcs)
            means[name] = float(values.mean())
    progress(1)
    fixed = None
    if search_words:
        fixed = find_text(scores, texts.refs, srcs, search_words, progress)
        after = scores_in_parts(scores, [[fixed.text]] * len(base), texts.refs, srcs)[:, 0]
        changes["one-text"] = summarise(after - before, False, spread, resamples, seed)
        rows = [*range(0, len(base), -(-len(base) // SEARCH_REFS))]
        hyps, refs, of = ([lines[row] for row in rows] for lines in (base, texts.refs, srcs))
        gains = climb(scores, hyps, refs, of, search_words) - before[rows]
        gains = gains[np.isfinite(gains)]
        if len(gains):
            changes["four-words"] = summarise(gains, False, spread, resamples, seed)
    return Probed(changes, spread, length, length_lists, fixed, means)


def probe_steps(search_words: int) -> int:
    """Count the calls of progress by `probe_reward`."""
    return 1 + (SEARCH_STEPS if search_words else 0)


def _without_blank(texts: Texts) -> Texts:
    """Return the lines whose reference and hypothesis have words."""
    base = texts.hyps or texts.refs
    kept = [i for i, ref in enumerate(texts.refs) if ref.strip() and base[i].strip()]
    if not kept:
        raise InputError(
            "--ref: no line can be harmed: expected some with words in it, and in --hyp if given"
        )
    filled = {
        name: [lines[i] for i in kept] if (lines := getattr(texts, name)) else ()
        for name in ("refs", "hyps", "srcs", "others", "foreign")
    }
    return replace(texts, **filled)


def change_texts(texts: Texts, seed: int) -> list[Changed]:
    """Make every kind of change to the hypotheses or, without them, to the references."""
    base = texts.hyps or texts.refs
    material = Material([texts.refs], make_lexicon([texts.refs]))
    harmed = harmed_sentences(base, texts.refs, material, seed)
    changes = []
    for number, (kind, _) in enumerate(HARMS):
        some = [sentence for sentence in harmed if sentence.kind == number]
        rows, sentences = [changed.row for changed in some], [changed.text for changed in some]
        changes.append(Changed(kind, False, rows, sentences))
    parts = map(split_parts, base)
    halves = [space.join(words[: len(words) // 2]) for words, space in parts]
    whole: list[tuple[str, bool, Sequence[str]]] = [
        ("half", False, halves),  # the second half gone
        ("source", False, texts.srcs),
        ("other-language", False, texts.foreign),
        ("other-reference", True, texts.others),
    ]
    for kind, harmless, lines in whole:
        rows = [row for row, line in enumerate(lines) if line.strip() and line != base[row]]
        changes.append(Changed(kind, harmless, rows, [lines[row] for row in rows]))
    empty = Changed("empty", False, range(len(base)), [""] * len(base))
    return sorted([*changes, empty], key=lambda changed: changed.harmless)


def summarise(
    differences: Floats, harmless: bool, spread: float | None, resamples: int, seed: int
) -> Change:
    """Summarise the differences of the reward (n,) by a kind of change."""
    mean = float(differences.mean())
    around = interval(bootstrap([mean_statistics(differences[None])], resamples, seed)[0])
    not_lower = 100 * float((differences > -LOWER).mean())
    spreads = mean / spread if spread else None
    return Change(harmless, len(differences), mean, around.low, around.high, not_lower, spreads)


def within_lists(
    scores: Scores, lists: Sequence[tuple[Sequence[str], str, str]]
) -> tuple[float | None, float | None, int]:
    """Return spread, length and length_lists of `Probed`: a reward within n-best lists."""
    if not lists:
        return None, None, 0
    all_hyps, refs, srcs = zip(*lists, strict=True)
    most = max(map(len, all_hyps))
    padded = [[*hyps, *[""] * (most - len(hyps))] for hyps in all_hyps]
    spreads, correlations = [], []
    for row, hyps in zip(scores_in_parts(scores, padded, refs, srcs), all_hyps, strict=True):
        if len(hyps) > 1:
            values = without_rounding(row[: len(hyps)])
            spreads.append(values.std())
            words = np.array([len(split_words(hyp)) for hyp in hyps], float)
            correlations.append(pearson(values, words))
    defined = [value for value in correlations if not np.isnan(value)]
    length = float(np.mean(defined)) if defined else None
    return float(np.mean(spreads)) if spreads else None, length, len(defined)

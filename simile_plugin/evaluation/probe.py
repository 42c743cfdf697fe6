"""How can a reward be gamed? What it gives for harm, for length, and for one text for everything.

A reward is a function of B lists of N hypotheses, B references and B sources: (B, N) numbers,
higher is better (`reward_scores` makes one of a --reward). It is asked about the same sentences
before and after each kind of change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np
import torch

from simile_plugin.encoder import RewardEncoder, split_parts, split_words
from simile_plugin.evaluation.harm import HARMS, Material, harmed_sentences
from simile_plugin.evaluation.meteor import Meteor
from simile_plugin.evaluation.sentence_metrics import without_rounding
from simile_plugin.files import InputError
from simile_plugin.reward import (
    SIMILE_ALPHA,
    Reward,
    make_lexicon,
)
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    SEED,
    Floats,
    bootstrap,
    interval,
    mean_statistics,
    pearson,
)

Lists = Sequence[Sequence[str]]
Scores = Callable[[Lists, Sequence[str], Sequence[str]], Floats]

LOWER = 1e-6  # a fall below this is rounding
HYPS_AT_ONCE = 8192
SEARCH_STEPS, SEARCH_REFS = 20, 200  # bounds of the search for a fixed text
ADDED, ADDED_FROM = 4, 50  # words that a climb adds, and how many it tries at each step


def reward_scores(
    reward: Reward,
    encoder: RewardEncoder | None,
    tokenize: str = "13a",
    alpha: float = SIMILE_ALPHA,
) -> Scores:
    """A --reward as a function of lists; it raises InputError for a number that is not finite.

    Args:
        tokenize: sacreBLEU tokeniser of BLEU.
        alpha: exponent of SIMILE's length penalty.
    """

    def scores(lists: Lists, refs: Sequence[str], srcs: Sequence[str]) -> Floats:
        mask = torch.ones(len(lists), len(lists[0]), dtype=torch.bool)
        found = reward.values(lists, refs, srcs, mask, encoder, alpha, tokenize)
        if not torch.isfinite(found).all():
            raise InputError(f"--reward {reward.spec}: expected finite numbers for all texts")
        return found.double().cpu().numpy()

    return scores


def meteor_lists(meteor: Meteor) -> Scores:
    """METEOR as a function of lists."""

    def scores(lists: Lists, refs: Sequence[str], srcs: Sequence[str]) -> Floats:
        pairs = [(hyp, ref) for hyps, ref in zip(lists, refs, strict=True) for hyp in hyps]
        found = meteor.scores([hyp for hyp, _ in pairs], [ref for _, ref in pairs])
        return found.reshape(len(lists), -1)

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
    """Sentences after one kind of change. rows: places among the sentences it was made from."""

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
class FixedText:
    """One text for every source. steps: changes of a word that led to it."""

    text: str
    score: float
    steps: int


@dataclass(frozen=True)
class Probed:
    """Answers of a reward to a probe.

    Attributes:
        changes: by kind; a kind that no sentence gave occasion for is not there.
        spread: standard deviation within n-best lists, the mean over lists; None without lists.
        length: Pearson correlation with the length in words within n-best lists, the mean over
            those where both differ; None where there is none.
        length_lists: how many those are.
        fixed: the best text found for all references; None if none was looked for.
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
    before = _scores(scores, [[text] for text in base], texts.refs, srcs)[:, 0]
    spread, length, length_lists = within_lists(scores, texts.lists)
    changes = {}
    for changed in change_texts(texts, seed):
        rows = list(changed.rows)
        if not rows:
            continue
        refs, of = [texts.refs[row] for row in rows], [srcs[row] for row in rows]
        after = _scores(scores, [[text] for text in changed.texts], refs, of)[:, 0]
        changes[changed.kind] = summarise(
            after - before[rows], changed.harmless, spread, resamples, seed
        )
    means = {"the hypotheses" if texts.hyps else "the references": float(before.mean())}
    unrelated = [*texts.refs[1:], texts.refs[0]] if len(texts.refs) > 1 else ()
    peers = {"the other references": texts.others, "the next line's reference": unrelated}
    for name, lines in peers.items():
        if lines:
            found = _scores(scores, [[line] for line in lines], texts.refs, srcs)
            means[name] = float(found.mean())
    progress(1)
    fixed = None
    if search_words:
        fixed = find_text(scores, texts.refs, srcs, search_words, progress)
        after = _scores(scores, [[fixed.text]] * len(base), texts.refs, srcs)[:, 0]
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
    """The lines whose reference and hypothesis have words."""
    base = texts.hyps or texts.refs
    kept = [i for i, ref in enumerate(texts.refs) if ref.strip() and base[i].strip()]
    if not kept:
        raise InputError(
            "--ref: no line can be harmed: expected some with words in it, and in --hyp if given"
        )
    found = {
        name: [lines[i] for i in kept] if (lines := getattr(texts, name)) else ()
        for name in ("refs", "hyps", "srcs", "others", "foreign")
    }
    return replace(texts, **found)


def _scores(scores: Scores, lists: Lists, refs: Sequence[str], srcs: Sequence[str]) -> Floats:
    """The same, some lists at a time: (B, N)."""
    rows = max(1, HYPS_AT_ONCE // len(lists[0]))
    starts = range(0, len(refs), rows)
    parts = [scores(lists[i : i + rows], refs[i : i + rows], srcs[i : i + rows]) for i in starts]
    return np.concatenate(parts)


def change_texts(texts: Texts, seed: int) -> list[Changed]:
    """Every kind of change to the hypotheses or, without them, to the references."""
    base = texts.hyps or texts.refs
    material = Material([texts.refs], make_lexicon([texts.refs]))
    harmed = harmed_sentences(base, texts.refs, material, seed)
    found = []
    for number, (kind, _) in enumerate(HARMS):
        of = [one for one in harmed if one.kind == number]
        found.append(Changed(kind, False, [one.row for one in of], [one.text for one in of]))
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
        found.append(Changed(kind, harmless, rows, [lines[row] for row in rows]))
    empty = Changed("empty", False, range(len(base)), [""] * len(base))
    return sorted([*found, empty], key=lambda changed: changed.harmless)


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
    """Spread of a reward within n-best lists and its correlation with length: see `Probed`."""
    if not lists:
        return None, None, 0
    all_hyps, refs, srcs = zip(*lists, strict=True)
    most = max(map(len, all_hyps))
    padded = [[*hyps, *[""] * (most - len(hyps))] for hyps in all_hyps]
    found = _scores(scores, padded, refs, srcs)
    spreads, correlations = [], []
    for values, hyps in zip(found, all_hyps, strict=True):
        if len(hyps) > 1:
            own = without_rounding(values[: len(hyps)])
            spreads.append(own.std())
            correlations.append(
                pearson(own, np.array([len(split_words(hyp)) for hyp in hyps], float))
            )
    defined = [value for value in correlations if not np.isnan(value)]
    length = float(np.mean(defined)) if defined else None
    return float(np.mean(spreads)) if spreads else None, length, len(defined)


def find_text(
    scores: Scores,
    refs: Sequence[str],
    srcs: Sequence[str],
    search_words: int,
    progress: Callable[[int], object] = lambda done: None,
) -> FixedText:
    """Greedy search for the text with the highest mean reward against all references.

    From the best of an empty text and some references, each of at most SEARCH_STEPS steps takes the
    best of: a word at the end, any word removed, the word at one place (the next at the next step)
    replaced. The words are the commonest of the references, the score is the mean over SEARCH_REFS
    of them, evenly spaced; the score that is returned is on all.

    Args:
        search_words: how many words are tried, and from how many references the search may begin.
    """
    split = [split_parts(ref) for ref in refs]
    counts = Counter(word for words, _ in split for word in words)
    space = Counter(space for _, space in split).most_common(1)[0][0]
    candidates = [word for word, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]
    every = -(-len(refs) // SEARCH_REFS)
    seen, of = refs[::every], srcs[::every]
    starts = ["", *refs[:: -(-len(refs) // search_words)]]
    means = _means(scores, starts, seen, of)
    words, best = split_parts(starts[int(means.argmax())])[0], means.max()
    steps = idle = 0
    for step in range(SEARCH_STEPS):
        progress(1)
        if idle > len(words):  # every place was tried in vain
            continue
        tried = _neighbours(words, candidates[:search_words], step)
        means = _means(scores, [space.join(one) for one in tried], seen, of)
        first = int(means.argmax())
        idle += 1
        if means[first] > best + LOWER:
            words, best, idle, steps = tried[first], means[first], 0, steps + 1
    text = space.join(words)
    return FixedText(text, float(_means(scores, [text], refs, srcs)[0]), steps)


def climb(
    scores: Scores,
    hyps: Sequence[str],
    refs: Sequence[str],
    srcs: Sequence[str],
    search_words: int,
) -> Floats:
    """Climb by words that are not in the reference: (n,) rewards with ADDED of them at the end.

    Each step adds the one that the reward likes best, of the commonest that are not in the
    sentence's own reference; what a reward gains by it, a training would find. NaN where the
    reference has all of them.
    """
    split = [split_parts(ref) for ref in refs]
    counts = Counter(word.lower() for words, _ in split for word in words)
    common = sorted(counts, key=lambda word: (-counts[word], word))[: 4 * search_words]
    foreign = [
        [word for word in common if word not in {own.lower() for own in words}]
        for words, _ in split
    ]
    rows = [row for row, words in enumerate(foreign) if words]
    refs, srcs = ([lines[row] for row in rows] for lines in (refs, srcs))
    texts, found = [hyps[row] for row in rows], np.empty((len(rows), 1))
    most = min(ADDED_FROM, search_words)
    for _ in range(ADDED if rows else 0):
        tried = [  # one that has fewer tries its own again
            [f"{text}{split[row][1]}{word}" for word in islice(cycle(foreign[row][:most]), most)]
            for text, row in zip(texts, rows, strict=True)
        ]
        found = _scores(scores, tried, refs, srcs)
        texts = [one[place] for one, place in zip(tried, found.argmax(1), strict=True)]
    best = np.full(len(hyps), np.nan)
    best[rows] = found.max(1)
    return best


def _neighbours(words: list[str], candidates: Sequence[str], step: int) -> list[list[str]]:
    """Texts that are one step of the search away."""
    found = [[*words, word] for word in candidates]
    found += [words[:i] + words[i + 1 :] for i in range(len(words))]
    if words:
        i = step % len(words)
        found += [[*words[:i], word, *words[i + 1 :]] for word in candidates if word != words[i]]
    return found


def _means(scores: Scores, hyps: Sequence[str], refs: Sequence[str], srcs: Sequence[str]) -> Floats:
    """Mean reward of each of N texts against all references: (N,)."""
    return _scores(scores, [hyps] * len(refs), refs, srcs).mean(axis=0)

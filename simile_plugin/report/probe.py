"""How can a reward be gamed? What harm, length and one text for every sentence do to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from simile_plugin import __version__
from simile_plugin.files import InputError, Progress
from simile_plugin.report.answer import Answer, Cell, Figure, Part, make_table, optional
from simile_plugin.significance import Bar, Chart, interval_chart

if TYPE_CHECKING:
    from simile_plugin.evaluation import Change, Meteor, Probed, Scores, Texts
    from simile_plugin.reward import Scorer

METEOR = "meteor"
ROUNDING = 1e-6  # rewards are made in float32: a rise below this is none


def analyse_probe(
    specs: Sequence[str],
    texts: Texts,
    scorer: Scorer,
    search_words: int,
    resamples: int,
    seed: int,
) -> dict[str, Probed]:
    """Probe rewards, with a progress bar; a learned reward is named by its content.

    specs: what --reward takes, or meteor; none of them: those that need no more than is there.

    Raises:
        InputError: for a bad spec, one that is given twice or lacks its encoder, or texts without
            a line that can be harmed.
    """
    from simile_plugin.evaluation import Meteor, probe_reward, probe_steps

    specs = specs or [*(["simile"] if scorer.encoder else []), "chrf", "bleu"]
    probed = {}
    with Meteor() if METEOR in specs else nullcontext() as meteor:
        rewards = _rewards(specs, scorer, meteor, bool(texts.srcs))
        with Progress(len(rewards) * probe_steps(search_words), " steps", "probing") as bar:
            for name, scores in rewards.items():
                probed[name] = probe_reward(
                    scores, texts, search_words, resamples, seed, bar.update
                )
    return probed


def _rewards(
    specs: Sequence[str],
    scorer: Scorer,
    meteor: Meteor | None,
    with_sources: bool,
) -> dict[str, Scores]:
    from simile_plugin.evaluation import meteor_lists, reward_scores
    from simile_plugin.reward import Reward

    by_name: dict[str, Scores] = {}
    for spec in specs:
        reward = None if spec == METEOR else Reward(spec)
        name = reward.identity if reward else spec
        if name in by_name:
            raise InputError(f"--reward: got '{spec}' twice; expected different rewards")
        if reward and reward.needs_sources and not with_sources:
            raise InputError(f"--reward {spec}: reads sources; give them (--src FILE)")
        if reward:
            by_name[name] = reward_scores(replace(scorer, reward=reward))
        else:
            assert meteor is not None
            by_name[name] = meteor_lists(meteor)
    return by_name


# --- the answer ---


def answer_probe(
    rewards: Mapping[str, Probed],
    base: str,
    scorer: Scorer,
    seed: int,
    resamples: int,
) -> Answer:
    """Show tables of kinds of change by rewards, then what else was found of each reward."""
    made = f"tok:{scorer.tokenize}|seed:{seed}|resamples:{resamples}|version:{__version__}"
    encoder = scorer.encoder
    signature = f"enc:{encoder.fingerprint}|{made}" if encoder else made
    caption = "Change of each reward by each kind of harm, with 95% intervals: left of 0 is sound."
    parts: list[Part] = [Figure(_chart(rewards), caption)]
    parts.append(_by_kind(rewards, "change", _change))
    parts.append(_by_kind(rewards, "not lower, %", lambda of: Cell(f"{of.not_lower:.1f}")))
    if any(probed.spread for probed in rewards.values()):
        parts.append(
            _by_kind(rewards, "change in spreads", lambda of: optional(of.spreads, "+.2f"))
        )
        rows = [["spread", *(optional(of.spread, ".4f") for of in rewards.values())]]
        lengths = [optional(of.length, "+.2f") for of in rewards.values()]
        rows.append(["correlation with length", *lengths])
        parts.append(make_table(["within n-best lists", *rewards], rows))
    means = [[*probed.means.items()] for probed in rewards.values()]
    rows = [
        [name, *(f"{of[number][1]:.3f}" for of in means)]
        for number, (name, _) in enumerate(means[0])
    ]
    fixed = {name: probed.fixed for name, probed in rewards.items() if probed.fixed}
    if fixed:
        rows.append(["one fixed text", *(f"{of.score:.3f}" for of in fixed.values())])
    parts.append(make_table(["mean reward of", *rewards], rows))
    return Answer(
        "probe",
        "How can the reward be gamed?",
        "What training could win: harm that does not lower a reward, length, one text for all.",
        "Probe of rewards",
        parts,
        {"signature": signature, "rewards": {name: asdict(of) for name, of in rewards.items()}},
        sentences=_sentences(rewards),
        notes=[base, *(f"fixed text for {name}: {of.text}" for name, of in fixed.items())],
        signatures={"probe": signature},
    )


def _by_kind(rewards: Mapping[str, Probed], title: str, cell: Callable[[Change], object]) -> Part:
    kinds = {kind: change for probed in rewards.values() for kind, change in probed.changes.items()}
    rows = []
    for kind, of in kinds.items():
        shown = f"{kind} (harmless)" if of.harmless else kind
        cells = [cell(probed.changes[kind]) for probed in rewards.values()]
        rows.append([shown, str(of.count), *cells])
    return make_table([title, "n", *rewards], rows)


def _change(of: Change) -> Cell:
    text = f"{of.mean:+.3f} [{of.low:+.3f} {of.high:+.3f}]"
    return Cell(text, of.mean, "bad" if not of.harmless and of.low > ROUNDING else "")


def _sentences(rewards: Mapping[str, Probed]) -> list[str]:
    """Tell the harms that each reward pays for, or the one that it minds least."""
    told = []
    for name, probed in rewards.items():
        harms = {kind: of for kind, of in probed.changes.items() if not of.harmless}
        paid = [kind for kind, of in harms.items() if of.low > ROUNDING]
        least = max(harms, key=lambda kind: harms[kind].mean)
        if paid:
            told.append(f"{name} rises on average by {', '.join(paid)}: training can win by it.")
        else:
            told.append(
                f"{name} rises by no harm on average; it minds {least} least "
                f"({harms[least].mean:+.3f}, not lower in {harms[least].not_lower:.0f} %)."
            )
    return told


def _chart(rewards: Mapping[str, Probed]) -> Chart:
    panels = {
        name: [Bar(kind, of.mean, of.low, of.high) for kind, of in probed.changes.items()]
        for name, probed in rewards.items()
    }
    return interval_chart("Change of each reward by each kind of harm, with 95% intervals", panels)

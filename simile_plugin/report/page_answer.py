"""The answer in sentences, for a reader who reads nothing else; no clearer than the numbers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simile_plugin.report.human_ratings import HumanResult
from simile_plugin.report.results import LEVEL, Comparison, Results, Score, SystemScores
from simile_plugin.report.results_table import HEADINGS, p_values

if TYPE_CHECKING:
    from simile_plugin.evaluation import Estimate
    from simile_plugin.report.quality import QualityResult

MAIN = "bleu"  # the metric that no system here is trained on by SIMILE's promise


def answer_results(results: Results) -> list[str]:
    """What the last system gains over each baseline, the strongest baseline first.

    The last system is the one that the table is about: a reader names it last. The other metrics
    follow in a sentence of their own, and so does the spread of the seeds.
    """
    focus = results.systems[-1]
    against = focus.scores[MAIN].against
    if not against:
        return _alone(results)
    sentences = [_main_sentence(focus, comparison) for comparison in reversed(against)]
    for place in reversed(range(len(against))):
        others = _other_metrics(focus, place)
        if others:
            sentences.append(others)
    for comparison in reversed(against):
        sentences += _seeds(results, focus, comparison.baseline)
    return sentences + _best(results, focus)


def _alone(results: Results) -> list[str]:
    """No difference to tell: what there is."""
    if len(results.systems) > 1:
        return _best(results, None)
    system = results.systems[0]
    scores = ", ".join(
        f"{score.value:.2f} {_name(metric)}{_interval(score)}"
        for metric, score in system.scores.items()
    )
    return [f"{system.name} scores {scores}.", "One system: there is nothing to compare it with."]


def _interval(score: Score) -> str:
    if score.interval is None:
        return ""
    return f" (95% interval {score.interval.low:.2f} to {score.interval.high:.2f})"


def _main_sentence(focus: SystemScores, comparison: Comparison) -> str:
    size = f"{abs(comparison.difference):.2f} {_name(MAIN)}"
    chance = p_values(comparison).replace("p <", "p < ").replace("p 0", "p = 0")
    chance = chance.replace("p 1", "p = 1")
    if abs(comparison.difference) < 0.005:
        return f"{focus.name} and {comparison.baseline} score the same BLEU ({chance})."
    if comparison.clear:
        verb = "beats" if comparison.difference > 0 else "loses to"
        return f"{focus.name} {verb} {comparison.baseline} by {size} ({chance})."
    place = "above" if comparison.difference > 0 else "below"
    return (
        f"{focus.name} scores {size} {place} {comparison.baseline}, which may be chance ({chance})."
    )


def _other_metrics(focus: SystemScores, place: int) -> str:
    """The baseline's other metrics: better, worse, and not clear."""
    found: dict[str, list[str]] = {"better": [], "worse": [], "open": []}
    baseline = focus.scores[MAIN].against[place].baseline
    for metric, score in focus.scores.items():
        if metric == MAIN:
            continue
        comparison = score.against[place]
        kind = "open" if not comparison.clear else "better"
        kind = "worse" if comparison.clear and comparison.difference < 0 else kind
        told = f"{_name(metric)} {comparison.difference:+.2f}"
        found[kind].append(f"{told} ({p_values(comparison)})")
    words = {"better": "clearly better", "worse": "clearly worse", "open": "no clear difference"}
    parts = [f"{words[kind]}: {', '.join(told)}" for kind, told in found.items() if told]
    if not parts:
        return ""
    return f"{focus.name} against {baseline} by the other metrics, {'; '.join(parts)}."


def _seeds(results: Results, focus: SystemScores, baseline: str) -> list[str]:
    """Whether training again could turn the answer: the seeds' own scores."""
    other = next(system for system in results.systems if system.name == baseline)
    own, theirs = focus.scores[MAIN].seeds, other.scores[MAIN].seeds
    if len(own) == len(theirs) == 1:
        return []
    apart = min(own) > max(theirs) or max(own) < min(theirs)
    verdict = "no seed of one reaches the other" if apart else "their ranges overlap"
    return [f"Seeds: {focus.name} {_range(own)} BLEU, {baseline} {_range(theirs)}; {verdict}."]


def _range(seeds: Sequence[float]) -> str:
    if len(seeds) == 1:
        return f"{seeds[0]:.2f} (one seed)"
    return f"{min(seeds):.2f} to {max(seeds):.2f}"


def _best(results: Results, focus: SystemScores | None) -> list[str]:
    """The system that is highest by BLEU, where it is not the one that was told of."""
    best = max(results.systems, key=lambda system: system.scores[MAIN].value)
    if best is focus:
        return []
    return [f"Highest BLEU: {best.name}, {best.scores[MAIN].value:.2f}."]


def answer_ratings(found: HumanResult) -> list[str]:
    """What people say of the last two systems."""
    pair = found.pairs[-1]
    people = f"{len(found.annotators)} annotator{'s' * (len(found.annotators) > 1)}"
    chance = f"p {'= ' if pair.p_value >= 0.0005 else ''}{_p(pair.p_value)}"
    size = f"{abs(pair.difference):.2f}"
    if pair.p_value < LEVEL and pair.difference:
        better, worse = (
            (pair.second, pair.first) if pair.difference > 0 else (pair.first, pair.second)
        )
        return [f"People ({people}) rate {better} {size} points of 5 above {worse} ({chance})."]
    return [
        f"People ({people}) see no clear difference between {pair.second} and {pair.first}: "
        f"{pair.difference:+.2f} points of 5 ({chance})."
    ]


def answer_quality(found: QualityResult) -> list[str]:
    """SIMILE beside the best of the metrics that need no encoder."""
    sentences = []
    if sts := found.sts:
        told = "On sentence pairs (STS, Pearson)"
        sentences += _beside_best(told, sts.mean, sts.difference)
    if judged := found.judgements:
        told = "On judged translations (Spearman)"
        sentences += _beside_best(told, judged.mean["spearman"], judged.difference["spearman"])
    return sentences


def _beside_best(
    told: str, mean: Mapping[str, Estimate], difference: Mapping[str, Estimate]
) -> list[str]:
    values = {name: one.value for name, one in mean.items() if one.value == one.value}
    others = {name: value for name, value in values.items() if not name.startswith("SIM")}
    if not others or "SIMILE" not in values:
        return []
    best = max(others, key=others.__getitem__)
    gap = difference[f"SIMILE - {best}"]
    clear = "" if gap.low > 0 or gap.high < 0 else ", which may be chance"
    return [
        f"{told} SIMILE correlates with people at {values['SIMILE']:.1f} percent and {best}, the "
        f"best metric without an encoder, at {others[best]:.1f}: a difference of {gap.value:+.1f} "
        f"[{gap.low:+.1f}, {gap.high:+.1f}]{clear}."
    ]


def _p(value: float) -> str:
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def _name(metric: str) -> str:
    return HEADINGS.get(metric, metric)

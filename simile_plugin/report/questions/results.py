"""Which system is better, by how much, and is it more than chance? (the paper's main table)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from simile_plugin.report.answer import (
    HEADINGS,
    UNSPACED,
    Answer,
    Cell,
    Figure,
    Part,
    Row,
    Table,
    after_holm,
    best_of,
    cells,
    count,
    make_table,
    p_defined,
    p_text,
    p_told,
    signed,
)
from simile_plugin.report.comparison import (
    MAIN,
    Comparison,
    Difference,
    Lead,
    Score,
    SystemScores,
)
from simile_plugin.report.inputs.options import LEVEL
from simile_plugin.significance import EXACT_UP_TO, Bar, interval_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

MARKS = ("‡", "†")  # better than the first baseline, than the second
MOST_BARS = 30  # more rows than these are a table, not a picture
MOST_NAMES = 6  # in a sentence
SAME = 0.005  # differences below this are shown as 0.00
LENGTH_TOLD = 0.1  # the share of a difference that is length, below which it is not told
HARDLY = 65.0  # percent of pairs ordered alike, below which a person would hardly see it


def ask(inputs: Inputs) -> Answer:
    """Score all systems, and test their differences."""
    return answer_results(inputs.comparison)


def answer_results(data: Comparison) -> Answer:
    """Show scores of all systems, their intervals, their differences from the baselines."""
    systems = data.systems
    parts: list[Part] = [score_table(data)]
    if len(systems) > 1:
        parts += [difference_table(data), *_people_table(data), _p_value_table(data)]
    if len(systems) <= MOST_BARS:
        parts += _charts(data)
    outputs = sum(len(system.files) for system in systems)
    several = f" ({count(outputs, 'output')})" if outputs > len(systems) else ""
    sentences = count(data.sentences, "sentence")
    return Answer(
        "results",
        "Results",
        "Scores of every system on the whole test set, and which differences are more than the "
        "luck of its sentences.",
        f"Results on {sentences} of",
        parts,
        asdict(data),
        data.reference,
        headline(data),
        _warnings(data),
        _legend(data),
        data.signatures,
        f"{count(len(systems), 'system')}{several}, {sentences} of {data.reference}",
    )


MOST_WARNINGS = 3  # of text
FEW_SENTENCES = 30  # below them p < 0.002 comes two to four times as often as it should


def _warnings(data: Comparison) -> list[str]:
    from simile_plugin.reward import UNKNOWN_LIMIT

    warnings = []
    if data.text_warnings:
        warnings += data.text_warnings[:MOST_WARNINGS]
        if left := len(data.text_warnings[MOST_WARNINGS:]):
            warnings.append(f"{left} more of the text: simile score tells all of every file")
    elif data.unknown_share > UNKNOWN_LIMIT:
        warnings.append(
            f"the encoder does not know {data.unknown_share:.0%} of the references' pieces, which "
            "count as nothing in SIM: SIM and SIMILE say little; is it an encoder of this language "
            "and script?"
        )
    if data.language:
        warnings.append(data.language)
    if data.unspaced:
        warnings.append(UNSPACED)
    if data.sentences < FEW_SENTENCES:
        small = (
            "p is somewhat too small" if data.sentences > EXACT_UP_TO else "intervals too narrow"
        )
        warnings.append(
            f"{data.sentences} sentences are few: {small}, and differences of other sentences may "
            "be others; test on hundreds"
        )
    return warnings


def titles(data: Comparison) -> dict[str, str]:
    """Return metric -> its title, which no system has: SIMILE score, where one is called SIMILE."""
    names = {system.name.casefold() for system in data.systems}
    headings = {metric: HEADINGS.get(metric, metric) for metric in data.systems[0].scores}
    return {
        metric: f"{title} score" if title.casefold() in names else title
        for metric, title in headings.items()
    }


def score_table(data: Comparison) -> Table:
    """Tabulate the seeds, a column a metric, the length ratio; a line a seed."""
    scores = [system.scores for system in data.systems]
    best = {m: best_of([row[m].value for row in scores]) for m in titles(data)}
    baselines = data.baselines if len(scores) > 1 else []
    groups = [_system_rows(system, baselines, best) for system in data.systems]
    return Table(["System", "Seeds", *titles(data).values(), "Length"], groups)


def _system_rows(
    system: SystemScores, baselines: Sequence[str], best: Mapping[str, float | None]
) -> list[Row]:
    scores, ratio, seeds = system.scores, system.length_ratio, system.files
    tails = {metric: _tail(score, baselines) for metric, score in scores.items()}
    shown = [
        Cell(
            f"{score.value:.2f}{tails[metric]}",
            score.value,
            "best" if score.value == best[metric] else "",
        )
        for metric, score in scores.items()
    ]
    name = f"{system.name} (baseline)" if system.name in baselines else system.name
    rows = [cells([name, len(seeds), *shown, f"{ratio.value:.3f}"])]
    for i in range(len(seeds) if len(seeds) > 1 else 0):
        of_seed = [f"{s.seeds[i]:.2f}{' ' * len(tails[m])}" for m, s in scores.items()]
        rows.append(cells([f"seed {i + 1}", "", *of_seed, f"{ratio.seeds[i]:.3f}"]))
    return rows


def _tail(score: Score, baselines: Sequence[str]) -> str:
    """Return half of the interval and the marks, in one width down a column."""
    better = {c.baseline for c in score.against if c.clear and c.difference > 0}
    marks = "".join(m for m, base in zip(MARKS, baselines, strict=False) if base in better)
    half = (score.interval.high - score.interval.low) / 2
    return f" ±{half:.2f} {marks:<{len(baselines)}}"


def pairs_of(data: Comparison) -> list[tuple[str, dict[str, Difference]]]:
    """Return "A - B" and the comparisons of all metrics."""
    return [
        (f"{system.name} - {first.baseline}", {m: s.against[i] for m, s in scores.items()})
        for system in data.systems
        for scores in [system.scores]
        for i, first in enumerate(scores[MAIN].against)
    ]


def difference_table(data: Comparison) -> Table:
    """Tabulate difference and p-value under each metric, a line a pair of systems."""
    test = _tests(data)
    rows = [
        [
            name,
            *(
                signed(
                    c.difference,
                    c.clear,
                    f"{c.difference:+.2f} (p {p_text(c.p_holm, *test)})",
                )
                for c in compared.values()
            ),
        ]
        for name, compared in pairs_of(data)
    ]
    return make_table(["Difference", *titles(data).values()], rows)


def _people_table(data: Comparison) -> list[Table]:
    """Tabulate how many pairs of systems so far apart people order as the metric does."""
    known = [metric for metric, c in pairs_of(data)[0][1].items() if c.people is not None]
    rows = [[name, *(f"{c[m].people:.0f} %" for m in known)] for name, c in pairs_of(data)]
    title = "Would people order them alike?"
    return [make_table([title, *(titles(data)[m] for m in known)], rows)] if known else []


def _p_value_table(data: Comparison) -> Table:
    draws = data.test.resamples
    rows = [
        [
            name,
            *(
                f"{p_text(c.p_value, draws)} / {p_text(c.p_sacrebleu, draws)}"
                for c in compared.values()
            ),
        ]
        for name, compared in pairs_of(data)
    ]
    title = "p before Holm / by sacreBLEU's definition"
    return make_table([title, *titles(data).values()], rows, folded="p-values of each test alone")


def _charts(data: Comparison) -> list[Figure]:
    systems, baselines = data.systems, data.baselines
    seen = ""
    if any(len(system.files) > 1 for system in systems):
        seen += " Small circles are single seeds."
    if len(systems) > 1:
        seen += f" Dashed: {baselines[0]}, the baseline."
        seen += " Paired tests can tell systems apart whose intervals overlap."
    figures = []
    for metric, name in titles(data).items():
        bars = {}
        for system in systems:
            score = system.scores[metric]
            ends = score.interval.low, score.interval.high
            bars[system.name] = Bar(system.name, score.value, *ends, score.seeds)
        line = bars[baselines[0]].value if len(systems) > 1 else None
        label = f"{name} of every system with its 95% interval"
        chart = interval_chart(label, {name: list(bars.values())}, line, coloured=True)
        folded = "" if metric == MAIN else f"The same for {name}"
        figures.append(Figure(chart, f"{name} with its 95% interval.{seen}", folded))
    return figures


def _legend(data: Comparison) -> list[str]:
    """Explain the marks, intervals and numbers."""
    resamples, seed, compared = data.test.resamples, data.test.seed, data.comparisons
    lines = []
    if len(data.systems) > 1:
        marks = ", ".join(
            f"{m} better than {base}" for m, base in zip(MARKS, data.baselines, strict=False)
        )
        lines.append(
            f"{marks}: p < {LEVEL}{after_holm(compared)}; p: "
            f"{p_defined(data.sentences, resamples)}; sacreBLEU's p, which is lower for small "
            "differences, is kept in the JSON and on the page"
        )
        people = [c[MAIN].people for _, c in pairs_of(data)]
        lines.append(
            "people: the share of pairs of WMT systems so far apart that people order as the "
            "metric does (Kocmi et al. 2024, by mt-thresholds)"
            if people[0] is not None
            else "whether people would see it is not told: pip install mt-thresholds"
        )
    lines.append(
        f"±: half of the 95% interval over {resamples:,} resamples of the sentences, seed {seed}"
    )
    if any(len(system.files) > 1 for system in data.systems):
        lines.append(
            "several seeds: the mean of their scores; the tests vary the sentences and take the "
            "trained models as given, so look at the seeds' own scores too"
        )
    return [*lines, "Length: tokens of the outputs over tokens of the references"]


# --- the answer in sentences, no clearer than the numbers are ---


def headline(data: Comparison) -> list[str]:
    """Say, of three systems or more, which is best, by how much, and how many beat the baseline.

    Then what that system gains over each baseline, the strongest baseline first, how much of it is
    length, and whether a person would see it; where a baseline leads, or of two systems, it is told
    of the last one, which a reader names last. The other metrics follow in a sentence of their own,
    and so does the spread of the seeds.
    """
    systems, lead, test = data.systems, data.lead, _tests(data)
    best = max(systems, key=lambda system: system.scores[MAIN].value)
    focus = systems[-1]
    if len(systems) == 1:
        return _alone(focus, titles(data))
    sentences = []
    if lead is not None:
        sentences = [_lead(best, lead, data.test.resamples), _how_many_beat(data)]
        focus = focus if best.name in data.baselines else best
    against = focus.scores[MAIN].against
    for difference in reversed(against):
        told = focus is best and lead and difference.baseline == lead.baseline
        sentences += [] if told else [_main_sentence(focus.name, difference, test)]
        sentences += _length(difference)
        sentences += _people(difference) if difference.clear else []
    for place in reversed(range(len(against))):
        sentences += _other_metrics(focus, place, test, titles(data))
    by_name = {system.name: system for system in systems}
    for difference in reversed(against):
        sentences += _seeds(focus, by_name[difference.baseline])
    value = best.scores[MAIN].value
    if lead is None and value - focus.scores[MAIN].value >= SAME:
        sentences.append(f"Highest BLEU: {best.name}, {value:.2f}.")
    return sentences


def _tests(data: Comparison) -> tuple[int, int]:
    """Return resamples and number of tests of a metric, as `p_text` takes them."""
    return data.test.resamples, data.comparisons


def _lead(best: SystemScores, lead: Lead, draws: int) -> str:
    name, value, second = best.name, f"{best.scores[MAIN].value:.2f}", lead.baseline
    size, chance = f"{lead.difference:.2f}", p_told(lead.p_value, draws)
    if lead.difference < SAME:
        return f"{name} has the highest BLEU, {value}, as has {second} ({chance})."
    if lead.clear:
        return (
            f"{name} has the highest BLEU, {value}: {size} above {second}, the second ({chance})."
        )
    return (
        f"{name} has the highest BLEU, {value}: {size} above {second}, the second, which may be "
        f"chance ({chance})."
    )


def _how_many_beat(data: Comparison) -> str:
    baseline = data.baselines[0]
    others = [system for system in data.systems if system.name != baseline]
    better = [
        system.name
        for system in others
        for difference in system.scores[MAIN].against
        if difference.baseline == baseline and difference.clear and difference.difference > 0
    ]
    names = f": {', '.join(better)}" if 0 < len(better) <= MOST_NAMES else ""
    level = f"p < {LEVEL} after Holm" if data.comparisons > 1 else f"p < {LEVEL}"
    return (
        f"{len(better)} of {len(others)} systems beat {baseline}, the baseline, in BLEU "
        f"({level}){names}."
    )


def _alone(system: SystemScores, named: Mapping[str, str]) -> list[str]:
    """Tell the scores: there is no difference to tell."""
    scores = ", ".join(
        f"{score.value:.2f} {named[metric]} (95% interval {score.interval.low:.2f} to "
        f"{score.interval.high:.2f})"
        for metric, score in system.scores.items()
    )
    return [
        f"{system.name} scores {scores}.",
        "One system: there is nothing to compare it with.",
    ]


def _main_sentence(name: str, of: Difference, test: tuple[int, int]) -> str:
    base, size = of.baseline, f"{abs(of.difference):.2f}"
    chance = p_told(of.p_holm, *test)
    if abs(of.difference) < SAME:
        return f"{name} and {base} score the same BLEU ({chance})."
    if of.clear and of.difference > 0:
        return f"{name} beats {base} by {size} BLEU ({chance})."
    if of.clear:
        return f"{name} loses to {base} by {size} BLEU ({chance})."
    if of.difference > 0:
        return f"{name} scores {size} BLEU above {base}, which may be chance ({chance})."
    return f"{name} scores {size} BLEU below {base}, which may be chance ({chance})."


def _length(of: Difference) -> list[str]:
    """Tell what of a difference in BLEU is length, if anything of note is."""
    size, level, base = of.difference, of.same_length.difference, of.baseline
    if abs(size) < SAME or abs(size - level) < max(SAME, LENGTH_TOLD * abs(size)):
        return []
    share = (size - level) / size
    at_its_length = f"at {base}'s brevity penalty the difference is {level:+.2f} BLEU"
    if share >= 1:
        return [f"All of it is length: {at_its_length}."]
    if share > 0:
        return [f"{share:.0%} of it is length: {at_its_length}."]
    return [f"Length hides some: {at_its_length}."]


def _people(of: Difference) -> list[str]:
    share = of.people
    if share is None:
        return []
    if share < HARDLY:
        return [
            f"A person would hardly see it: of WMT systems so far apart in BLEU, people order "
            f"{share:.0f} % as BLEU does."
        ]
    return [f"Of WMT systems so far apart in BLEU, people order {share:.0f} % as BLEU does."]


def _other_metrics(
    focus: SystemScores, place: int, test: tuple[int, int], named: Mapping[str, str]
) -> list[str]:
    """Tell the other metrics against a baseline: better, worse, and not clear."""
    kinds: dict[str, list[str]] = {
        "clearly better": [],
        "clearly worse": [],
        "no clear difference": [],
    }
    baseline = focus.scores[MAIN].against[place].baseline
    for metric, score in focus.scores.items():
        if metric != MAIN:
            of = score.against[place]
            clear = "clearly better" if of.difference > 0 else "clearly worse"
            shown = f"{named[metric]} {of.difference:+.2f} (p {p_text(of.p_holm, *test)})"
            kinds[clear if of.clear else "no clear difference"].append(shown)
    parts = "; ".join(f"{kind}: {', '.join(shown)}" for kind, shown in kinds.items() if shown)
    return [f"{focus.name} against {baseline} by the other metrics, {parts}."] if parts else []


def _seeds(focus: SystemScores, other: SystemScores) -> list[str]:
    """Tell whether training again could turn the answer: the scores of the seeds."""
    first, second = focus.scores[MAIN].seeds, other.scores[MAIN].seeds
    if len(first) == len(second) == 1:
        return []
    ranges = f"{focus.name} {_range(first)} BLEU, {other.name} {_range(second)}"
    if min(first) > max(second) or max(first) < min(second):
        return [f"Seeds: {ranges}; no seed of one reaches the other."]
    return [f"Seeds: {ranges}; their ranges overlap."]


def _range(seeds: Sequence[float]) -> str:
    if len(seeds) == 1:
        return f"{seeds[0]:.2f} (one seed)"
    return f"{min(seeds):.2f} to {max(seeds):.2f}"

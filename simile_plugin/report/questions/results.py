"""Which system is better, by how much, and is it more than chance? (the paper's main table)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from simile_plugin import significance
from simile_plugin.files import InputError
from simile_plugin.report.answer import (
    HEADINGS,
    UNSPACED,
    Answer,
    Cell,
    Data,
    Figure,
    Part,
    Row,
    Table,
    cells,
    count,
    make_table,
    p_text,
    p_told,
    signed,
)
from simile_plugin.report.inputs.choices import LEVEL, PairedTest, choose_baselines
from simile_plugin.report.inputs.systems import System, read_sentence_scores
from simile_plugin.significance import Bar, SentenceStatistics, interval_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs
    from simile_plugin.report.inputs.scores import ScoreSettings
    from simile_plugin.reward import ListScores

NEEDS = (("ref", "sys"),)
ASKED_BY = ("ref", "sys")
PICTURED = False

MAIN = "bleu"  # the metric that no system here is trained on by SIMILE's promise
MARKS = ("‡", "†")  # better than the first baseline, than the second
UNKNOWN_LIMIT = 0.05
MOST_BARS = 30  # more rows than these are a table, not a picture
MOST_NAMES = 6  # in a sentence

# A system is {name, files, scores: metric -> score, length_ratio: score}; a score is {value (mean
# of the seeds, in percent), seeds, interval, against: comparisons}; a comparison {baseline,
# difference, p_value}.
SystemData = dict[str, Any]
Comparison = dict[str, Any]


def ask(inputs: Inputs) -> Answer:
    """Score all systems, and test their differences."""
    compared = inputs.systems
    data = compare_systems(
        compared,
        inputs.refs,
        inputs.options.ref or "",
        inputs.settings,
        inputs.test,
        inputs.baselines,
        read_sentence_scores(inputs.options.sentence_scores, compared),
        inputs.scores,
    )
    return answer_results(data)


def compare_systems(
    systems: Sequence[System],
    refs: Sequence[str],
    reference: str,
    settings: ScoreSettings,
    test: PairedTest,
    baselines: Sequence[str] = (),
    sentence_scores: Mapping[str, Mapping[str, Sequence[Sequence[float]]]] | None = None,
    list_scores: ListScores | None = None,
) -> Data:
    """Compute scores, intervals, and paired tests against one or two baselines.

    A system with several seeds has the mean of its seeds' corpus scores; how the tests treat
    seeds is said in `significance.bootstrap`. Of three systems or more, `lead` is the highest BLEU
    against the second highest.

    Args:
        reference: name of the reference file, for the reader.
        baselines: see `choose_baselines`.
        sentence_scores: title -> system name -> (S, N) numbers in [-1, 1], which become one more
            tested metric, in percent (`systems.read_sentence_scores`).
        list_scores: what `scores.score_all` gave for the systems, where it is known already.

    Raises:
        InputError: for unknown baselines, the title of a metric, or scores that are not finite.
    """
    from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems
    from simile_plugin.reward import is_unspaced, tokenised_warning

    names = [system.name for system in systems]
    chosen = choose_baselines(names, baselines)
    list_scores = list_scores or score_all(systems, refs, settings)
    metrics = score_systems(systems, refs, list_scores)
    ratios = [row.pop(LENGTH_RATIO) for row in metrics]
    computed = {title.casefold() for title in metrics[0]}
    for title, numbers in (sentence_scores or {}).items():
        if title.casefold() in computed:
            raise InputError(
                f"--sentence-scores: got {title}, which is computed; name it otherwise"
            )
        for system, row in zip(systems, metrics, strict=True):
            percent = 100 * np.asarray(numbers[system.name], dtype=np.float64)
            row[title] = significance.mean_statistics(percent)
    rows: list[SystemData] = [
        {
            "name": system.name,
            "files": list(system.files),
            "scores": {},
            "length_ratio": {
                **{"value": ratio.corpus(), "seeds": ratio.seed_scores().tolist()},
                **{"interval": None, "against": []},  # it is not tested
            },
        }
        for system, ratio in zip(systems, ratios, strict=True)
    ]
    lead = None
    for metric in metrics[0]:
        column = [row[metric] for row in metrics]
        scores, first = _test_metric(names, chosen, column, test)
        lead = first if metric == MAIN else lead
        for own, score in zip(rows, scores, strict=True):
            own["scores"][metric] = score
    signatures = _signatures(settings, test)
    signatures |= dict.fromkeys(sentence_scores or {}, "mean of the sentences' given scores")
    texts = [(reference, refs)]
    texts += [part for one in systems for part in zip(one.files, one.outputs, strict=True)]
    return {
        "systems": rows,
        "baselines": list(chosen),
        "reference": reference,
        "sentences": len(refs),
        "test": {"kind": "bootstrap", **asdict(test)},
        "signatures": signatures,
        "unknown_share": list_scores.unknown_share,
        "lead": lead,
        "unspaced": is_unspaced(refs, settings.tokenize),
        "tokenised": [
            text for name, lines in texts if (text := tokenised_warning(name, lines, refs))
        ],
    }


def _test_metric(
    names: Sequence[str],
    baselines: Sequence[str],
    column: Sequence[SentenceStatistics],
    test: PairedTest,
) -> tuple[list[dict[str, Any]], Comparison | None]:
    """Return the scores of all systems under one metric, with comparisons; and who leads."""
    draws = significance.bootstrap(column, test.resamples, test.seed)
    values = [statistics.corpus() for statistics in column]
    pairs = [
        (names.index(baseline), row)
        for row, name in enumerate(names)
        for order, baseline in enumerate(baselines)
        # A pair of baselines is shown once, in the later one's row.
        if name not in baselines[: order + 1]
    ]
    ranked = sorted(range(len(names)), key=values.__getitem__, reverse=True)
    tested = [*pairs, (ranked[1], ranked[0])] if len(names) > 2 else pairs
    against: list[list[Comparison]] = [[] for _ in names]
    for base, row in tested:
        difference = values[row] - values[base]
        p_value = significance.bootstrap_p_value(
            draws[base], draws[row], difference, column[row].sentences
        )
        against[row].append({"baseline": names[base], "difference": difference, "p_value": p_value})
    lead = against[ranked[0]].pop() if len(names) > 2 else None
    scores = [
        {
            "value": values[row],
            "seeds": statistics.seed_scores().tolist(),
            "interval": asdict(significance.interval(draws[row])),
            "against": against[row],
        }
        for row, statistics in enumerate(column)
    ]
    return scores, lead


def _signatures(settings: ScoreSettings, test: PairedTest) -> dict[str, str]:
    """Return what stands behind the numbers, with the test where sacreBLEU puts it."""
    signatures = settings.signatures()
    for name in ("BLEU", "chrF"):
        references, _, rest = signatures[name].partition("|")
        signatures[name] = f"{references}|bs:{test.resamples}|seed:{test.seed}|{rest}"
    return signatures


# --- the answer ---


def answer_results(data: Data) -> Answer:
    """Show scores of all systems, their intervals, their differences from the baselines."""
    systems = data["systems"]
    parts: list[Part] = [score_table(data)]
    if len(systems) > 1:
        parts.append(difference_table(data))
    if len(systems) <= MOST_BARS:
        parts += _charts(systems)
    outputs = sum(len(system["files"]) for system in systems)
    several = f" ({count(outputs, 'output')})" if outputs > len(systems) else ""
    sentences = count(data["sentences"], "sentence")
    return Answer(
        "results",
        "Results",
        "Scores of every system on the whole test set, and which differences are more than the "
        "luck of its sentences.",
        f"Results on {sentences} of",
        parts,
        data,
        data["reference"],
        headline(data),
        _warnings(data),
        _legend(data),
        data["signatures"],
        f"{count(len(systems), 'system')}{several}, {sentences} of {data['reference']}",
    )


def _warnings(data: Data) -> list[str]:
    warnings = []
    if data["unknown_share"] > UNKNOWN_LIMIT:
        warnings.append(
            f"the encoder does not know {data['unknown_share']:.0%} of the pieces, which count as "
            "nothing in SIM: SIM and SIMILE say little here; is it an encoder of this language "
            "and script?"
        )
    if data["unspaced"]:
        warnings.append(UNSPACED)
    if data["tokenised"]:  # mostly all files are, or one is that should not be
        warnings.append(data["tokenised"][0])
    return warnings


def score_table(data: Data) -> Table:
    """Tabulate the seeds, a column a metric, the length ratio; a line a seed."""
    metrics = [_title(metric) for metric in data["systems"][0]["scores"]]
    groups = [_system_rows(system, data["baselines"]) for system in data["systems"]]
    return Table(["System", "Seeds", *metrics, "Length"], groups)


def _title(metric: str) -> str:
    return HEADINGS.get(metric, metric)


def _system_rows(system: SystemData, baselines: Sequence[str]) -> list[Row]:
    scores, ratio, seeds = list(system["scores"].values()), system["length_ratio"], system["files"]
    tails = [_tail(score, baselines) for score in scores]
    shown = [
        Cell(f"{score['value']:.2f}{tail}", score["value"])
        for score, tail in zip(scores, tails, strict=True)
    ]
    rows = [cells([system["name"], len(seeds), *shown, f"{ratio['value']:.3f}"])]
    for i in range(len(seeds) if len(seeds) > 1 else 0):
        own = [f"{s['seeds'][i]:.2f}{' ' * len(t)}" for s, t in zip(scores, tails, strict=True)]
        rows.append(cells([f"seed {i + 1}", "", *own, f"{ratio['seeds'][i]:.3f}"]))
    return rows


def _tail(score: dict[str, Any], baselines: Sequence[str]) -> str:
    """Return half of the interval and the marks, in one width down a column."""
    better = {c["baseline"] for c in score["against"] if is_clear(c) and c["difference"] > 0}
    marks = "".join(m for m, base in zip(MARKS, baselines, strict=False) if base in better)
    half = (score["interval"]["high"] - score["interval"]["low"]) / 2
    return f" ±{half:.2f} {marks:<{len(baselines)}}"


def is_clear(comparison: Comparison) -> bool:
    """Return whether p < 0.05."""
    return bool(comparison["p_value"] < LEVEL)


def difference_table(data: Data) -> Table:
    """Tabulate difference and p-value under each metric, a line a pair of systems."""
    metrics, draws = list(data["systems"][0]["scores"]), data["test"]["resamples"]
    rows = []
    for system in data["systems"]:
        for compared in zip(*(system["scores"][m]["against"] for m in metrics), strict=True):
            told = [
                signed(
                    c["difference"],
                    is_clear(c),
                    f"{c['difference']:+.2f} (p {p_text(c['p_value'], draws)})",
                )
                for c in compared
            ]
            rows.append([f"{system['name']} - {compared[0]['baseline']}", *told])
    return make_table(["Difference", *map(_title, metrics)], rows)


def _charts(systems: Sequence[SystemData]) -> list[Figure]:
    seen = ""
    if any(len(system["files"]) > 1 for system in systems):
        seen += " Small circles are single seeds."
    if len(systems) > 1:
        seen += " Paired tests can tell systems apart whose intervals overlap."
    figures = []
    for metric in systems[0]["scores"]:
        name = _title(metric)
        bars = []
        for system in systems:
            score = system["scores"][metric]
            ends = score["interval"]["low"], score["interval"]["high"]
            bars.append(Bar(system["name"], score["value"], *ends, score["seeds"]))
        chart = interval_chart(f"{name} of every system with its 95% interval", {name: bars})
        folded = "" if metric == MAIN else f"The same for {name}"
        figures.append(Figure(chart, f"{name} with its 95% interval.{seen}", folded))
    return figures


def _legend(data: Data) -> list[str]:
    """Explain the marks, intervals and numbers."""
    resamples, seed = data["test"]["resamples"], data["test"]["seed"]
    lines = []
    if len(data["systems"]) > 1:
        marks = ", ".join(
            f"{m} better than {base}" for m, base in zip(MARKS, data["baselines"], strict=False)
        )
        lines.append(
            f"{marks}: p < {LEVEL}, paired bootstrap, {resamples:,} resamples, seed {seed} (the "
            "tail of the direction seen)"
        )
    lines.append(f"±: half of the 95% interval over {resamples:,} resamples of the sentences")
    if any(len(system["files"]) > 1 for system in data["systems"]):
        lines.append(
            "several seeds: the mean of their scores; the tests vary the sentences and take the "
            "trained models as given, so look at the seeds' own scores too"
        )
    return [*lines, "Length: tokens of the outputs over tokens of the references"]


# --- the answer in sentences, no clearer than the numbers are ---


def headline(data: Data) -> list[str]:
    """Say, of three systems or more, which is best, by how much, and how many beat the baseline.

    Then what that system gains over each baseline, the strongest baseline first; where a baseline
    leads, or of two systems, it is told of the last one, which a reader names last. The other
    metrics follow in a sentence of their own, and so does the spread of the seeds.
    """
    systems, lead, draws = data["systems"], data["lead"], data["test"]["resamples"]
    best = max(systems, key=lambda system: system["scores"][MAIN]["value"])
    focus = systems[-1]
    if len(systems) == 1:
        return _alone(focus)
    sentences = []
    if lead is not None:
        sentences = [_lead(best, lead, draws), _how_many_beat(data)]
        focus = focus if best["name"] in data["baselines"] else best
    against = focus["scores"][MAIN]["against"]
    for comparison in reversed(against):
        if not (focus is best and lead and comparison["baseline"] == lead["baseline"]):
            sentences.append(_main_sentence(focus["name"], comparison, draws))
    for place in reversed(range(len(against))):
        sentences += _other_metrics(focus, place, draws)
    by_name = {system["name"]: system for system in systems}
    for comparison in reversed(against):
        sentences += _seeds(focus, by_name[comparison["baseline"]])
    value = best["scores"][MAIN]["value"]
    if lead is None and value - focus["scores"][MAIN]["value"] >= 0.005:
        sentences.append(f"Highest BLEU: {best['name']}, {value:.2f}.")
    return sentences


def _lead(best: SystemData, lead: Comparison, draws: int) -> str:
    highest = f"{best['name']} has the highest BLEU, {best['scores'][MAIN]['value']:.2f}"
    chance = p_told(lead["p_value"], draws)
    if lead["difference"] < 0.005:
        return f"{highest}, as has {lead['baseline']} ({chance})."
    size = f"{lead['difference']:.2f} above {lead['baseline']}, the second"
    return f"{highest}: {size}{'' if is_clear(lead) else ', which may be chance'} ({chance})."


def _how_many_beat(data: Data) -> str:
    baseline = data["baselines"][0]
    others = [system for system in data["systems"] if system["name"] != baseline]
    beat = [
        system["name"]
        for system in others
        for c in system["scores"][MAIN]["against"]
        if c["baseline"] == baseline and is_clear(c) and c["difference"] > 0
    ]
    names = f": {', '.join(beat)}" if 0 < len(beat) <= MOST_NAMES else ""
    return f"{len(beat)} of {len(others)} systems beat {baseline} (p < {LEVEL}){names}."


def _alone(system: SystemData) -> list[str]:
    """Tell the scores: there is no difference to tell."""
    told = []
    for metric, score in system["scores"].items():
        ends = f"{score['interval']['low']:.2f} to {score['interval']['high']:.2f}"
        told.append(f"{score['value']:.2f} {_title(metric)} (95% interval {ends})")
    scores = f"{system['name']} scores {', '.join(told)}."
    return [scores, "One system: there is nothing to compare it with."]


def _main_sentence(name: str, comparison: Comparison, draws: int) -> str:
    baseline, difference = comparison["baseline"], comparison["difference"]
    size, chance = f"{abs(difference):.2f} {HEADINGS[MAIN]}", p_told(comparison["p_value"], draws)
    if abs(difference) < 0.005:
        return f"{name} and {baseline} score the same BLEU ({chance})."
    if is_clear(comparison):
        verb = "beats" if difference > 0 else "loses to"
        return f"{name} {verb} {baseline} by {size} ({chance})."
    place = "above" if difference > 0 else "below"
    return f"{name} scores {size} {place} {baseline}, which may be chance ({chance})."


def _other_metrics(focus: SystemData, place: int, draws: int) -> list[str]:
    """Tell the other metrics against a baseline: better, worse, and not clear."""
    kinds: dict[str, list[str]] = {
        "clearly better": [],
        "clearly worse": [],
        "no clear difference": [],
    }
    baseline = focus["scores"][MAIN]["against"][place]["baseline"]
    for metric, score in focus["scores"].items():
        if metric != MAIN:
            c = score["against"][place]
            clear = "clearly better" if c["difference"] > 0 else "clearly worse"
            chance = p_text(c["p_value"], draws)
            told = f"{_title(metric)} {c['difference']:+.2f} (p {chance})"
            kinds[clear if is_clear(c) else "no clear difference"].append(told)
    parts = "; ".join(f"{kind}: {', '.join(told)}" for kind, told in kinds.items() if told)
    return [f"{focus['name']} against {baseline} by the other metrics, {parts}."] if parts else []


def _seeds(focus: SystemData, other: SystemData) -> list[str]:
    """Tell whether training again could turn the answer: the seeds' own scores."""
    own, theirs = (system["scores"][MAIN]["seeds"] for system in (focus, other))
    if len(own) == len(theirs) == 1:
        return []
    apart = min(own) > max(theirs) or max(own) < min(theirs)
    verdict = "no seed of one reaches the other" if apart else "their ranges overlap"
    ranges = f"{focus['name']} {_range(own)} BLEU, {other['name']} {_range(theirs)}"
    return [f"Seeds: {ranges}; {verdict}."]


def _range(seeds: Sequence[float]) -> str:
    if len(seeds) == 1:
        return f"{seeds[0]:.2f} (one seed)"
    return f"{min(seeds):.2f} to {max(seeds):.2f}"

"""Which system is better, by how much, and is it more than chance? (the paper's main table)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from simile_plugin import significance
from simile_plugin.files import InputError
from simile_plugin.report.answer import (
    HEADINGS,
    UNSPACED,
    Answer,
    Cell,
    Figure,
    Part,
    Row,
    Table,
    cells,
    count,
    make_table,
    p_text,
    signed,
)
from simile_plugin.report.inputs.settings import LEVEL, PairedTest, choose_baselines
from simile_plugin.report.inputs.systems import (
    System,
    parse_named_files,
    read_column,
    read_sentence_scores,
)
from simile_plugin.significance import Bar, Interval, SentenceStatistics, interval_chart

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


@dataclass(frozen=True)
class Comparison:
    """Score of a system minus score of a baseline, and the p-value of that difference.

    Attributes:
        p_value: of the bootstrap, or of the only test that was asked for.
        p_randomisation: of the randomisation where both tests were asked for.
    """

    baseline: str
    difference: float
    p_value: float
    p_randomisation: float | None = None

    @property
    def clear(self) -> bool:
        """Whether every test that was made has p < 0.05."""
        return max(self.p_value, self.p_randomisation or 0.0) < LEVEL


@dataclass(frozen=True)
class Score:
    """One number of one system: the mean of its seeds, each seed's own, and what is known of it."""

    value: float
    seeds: tuple[float, ...]
    interval: Interval | None = None
    against: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class SystemScores:
    """A row of the table.

    Attributes:
        scores: by metric (bleu, sim, simile, chrf, titles of sentence scores), in percent.
        length_ratio: tokens of the outputs over tokens of the references, sacreBLEU's.
        columns: numbers from elsewhere, by the name of their column.
    """

    name: str
    files: tuple[str, ...]
    scores: dict[str, Score]
    length_ratio: Score
    columns: dict[str, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """The table, and what is needed to read it.

    Attributes:
        signatures: by metric, what was computed and how.
        unknown_share: share of the text's pieces that the encoder does not know.
        lead: of three systems or more, the highest BLEU against the second highest.
        unspaced: whether BLEU's tokeniser looks for spaces, of which the references have next to
            none.
        tokenised: what to say of files that are tokenised, segmented or escaped.
    """

    systems: tuple[SystemScores, ...]
    baselines: tuple[str, ...]
    reference: str
    sentences: int
    test: PairedTest
    signatures: dict[str, str]
    unknown_share: float
    lead: Comparison | None = None
    unspaced: bool = False
    tokenised: list[str] = field(default_factory=list)


def analyse_results(
    systems: Sequence[System],
    refs: Sequence[str],
    reference: str,
    settings: ScoreSettings,
    test: PairedTest,
    baselines: Sequence[str] = (),
    columns: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    sentence_scores: Mapping[str, Mapping[str, Sequence[Sequence[float]]]] | None = None,
    list_scores: ListScores | None = None,
) -> Results:
    """The results table: scores, intervals, and paired tests against one or two baselines.

    A system with several seeds has the mean of its seeds' corpus scores; how the tests treat
    seeds is said in `significance.bootstrap`.

    Args:
        reference: name of the reference file, for the reader.
        baselines: see `choose_baselines`.
        columns: column name -> system name -> one number, or one a seed (`systems.read_column`).
        sentence_scores: title -> system name -> (S, N) numbers in [-1, 1], which become one more
            tested metric, in percent (`systems.read_sentence_scores`).
        list_scores: what `scores.score_all` gave for the systems, where it is known already.

    Raises:
        InputError: for unknown baselines, the title of a metric, or scores that are not finite.
    """
    from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems
    from simile_plugin.reward import is_unspaced, tokenised_warning

    texts = [(reference, refs)]
    texts += [part for one in systems for part in zip(one.files, one.outputs, strict=True)]
    names = [system.name for system in systems]
    chosen = choose_baselines(names, baselines)
    list_scores = list_scores or score_all(systems, refs, settings)
    metrics = score_systems(systems, refs, list_scores)
    ratios = [row.pop(LENGTH_RATIO) for row in metrics]
    computed = {title.casefold() for title in metrics[0]}
    for flag, titles in (("--sentence-scores", sentence_scores), ("--column", columns)):
        for title in titles or ():
            if title.casefold() in computed:
                raise InputError(f"{flag}: got {title}, which is computed; name it otherwise")
    for title, numbers in (sentence_scores or {}).items():
        for system, row in zip(systems, metrics, strict=True):
            percent = 100 * np.asarray(numbers[system.name], dtype=np.float64)
            row[title] = significance.mean_statistics(percent)
    scores: list[dict[str, Score]] = [{} for _ in systems]
    lead = None
    for metric in metrics[0]:
        column = [row[metric] for row in metrics]
        found, first = _test_metric(names, chosen, column, test)
        lead = first if metric == MAIN else lead
        for own, score in zip(scores, found, strict=True):
            own[metric] = score
    rows = [
        SystemScores(
            system.name,
            system.files,
            own,
            _plain_score(ratio.seed_scores().tolist()),
            {title: _plain_score(values[system.name]) for title, values in (columns or {}).items()},
        )
        for system, own, ratio in zip(systems, scores, ratios, strict=True)
    ]
    signed_by = _signatures(settings, test)
    signed_by |= dict.fromkeys(sentence_scores or {}, "mean of the sentences' given scores")
    return Results(
        tuple(rows),
        chosen,
        reference,
        len(refs),
        test,
        signed_by,
        list_scores.unknown_share,
        lead,
        is_unspaced(refs, settings.tokenize),
        [text for name, lines in texts if (text := tokenised_warning(name, lines, refs))],
    )


def _plain_score(seeds: Sequence[float]) -> Score:
    return Score(fmean(seeds), tuple(seeds))


def _test_metric(
    names: Sequence[str],
    baselines: Sequence[str],
    column: Sequence[SentenceStatistics],
    test: PairedTest,
) -> tuple[list[Score], Comparison | None]:
    """Scores of all systems under one metric, with intervals and comparisons; who leads."""
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
    p_values: list[list[float]] = []
    if test.kind != "randomisation":
        p_values.append(
            [
                significance.bootstrap_p_value(
                    draws[base], draws[row], values[row] - values[base], column[row].sentences
                )
                for base, row in tested
            ]
        )
    if test.kind != "bootstrap":
        compared = [(column[base], column[row]) for base, row in tested]
        p_values.append(significance.randomisation_p_values(compared, test.trials, test.seed))
    against: list[list[Comparison]] = [[] for _ in names]
    for (base, row), *own in zip(tested, *p_values, strict=True):
        against[row].append(Comparison(names[base], values[row] - values[base], *own))
    lead = against[ranked[0]].pop() if len(names) > 2 else None
    scores = [
        Score(
            values[row],
            tuple(statistics.seed_scores().tolist()),
            significance.interval(draws[row]),
            tuple(against[row]),
        )
        for row, statistics in enumerate(column)
    ]
    return scores, lead


def _signatures(settings: ScoreSettings, test: PairedTest) -> dict[str, str]:
    """What stands behind the numbers, with the test where sacreBLEU puts it."""
    from simile_plugin.reward import bleu_signature, chrf_signature, signature

    # Of both tests the bootstrap is named: its p-value comes first.
    drawn = f"ar:{test.trials}" if test.kind == "randomisation" else f"bs:{test.resamples}"
    found = {}
    for name, plain in (("BLEU", bleu_signature(settings.tokenize)), ("chrF", chrf_signature())):
        references, _, rest = plain.partition("|")
        found[name] = f"{references}|{drawn}|seed:{test.seed}|{rest}"
    if settings.encoder is not None:
        found["SIM, SIMILE"] = signature(settings.encoder, settings.alpha)
    return found


# --- the answer ---


def ask(inputs: Inputs) -> Answer:
    """Scores of all systems, tested."""
    args = inputs.args
    compared = inputs.systems
    columns = {
        title: read_column(title, files[0], compared)
        for title, files in parse_named_files("--column", args.column).items()
    }
    found = analyse_results(
        compared,
        inputs.refs,
        args.ref,
        inputs.settings,
        inputs.test,
        inputs.baselines,
        columns,
        read_sentence_scores(args.sentence_scores, compared),
        inputs.scores,
    )
    return answer_results(found)


def answer_results(results: Results) -> Answer:
    """Scores of all systems, their intervals, their differences from the baselines."""
    parts: list[Part] = [score_table(results)]
    if len(results.systems) > 1:
        parts.append(difference_table(results))
    if len(results.systems) <= MOST_BARS:
        parts += _charts(results)
    warnings = []
    if results.unknown_share > UNKNOWN_LIMIT:
        warnings.append(
            f"the encoder does not know {results.unknown_share:.0%} of the pieces, which count as "
            "nothing in SIM: SIM and SIMILE say little here; is it an encoder of this language "
            "and script?"
        )
    if results.unspaced:
        warnings.append(UNSPACED)
    if results.tokenised:  # mostly all files are, or one is that should not be
        warnings.append(results.tokenised[0])
    outputs = sum(len(system.files) for system in results.systems)
    several = f" ({count(outputs, 'output')})" if outputs > len(results.systems) else ""
    sentences = f"{count(results.sentences, 'sentence')} of {results.reference}"
    return Answer(
        "results",
        "Results",
        "Scores of every system on the whole test set, and which differences are more than the "
        "luck of its sentences.",
        f"Results on {count(results.sentences, 'sentence')} of",
        parts,
        asdict(results),
        results.reference,
        headline(results),
        warnings,
        _legend(results),
        results.signatures,
        f"{count(len(results.systems), 'system')}{several}, {sentences}",
        _numbers(results),
    )


def score_table(results: Results) -> Table:
    """System, seeds, a column a metric, length ratio, columns from elsewhere; a line a seed."""
    metrics = list(results.systems[0].scores)
    extra = list(results.systems[0].columns)
    names = [HEADINGS.get(metric, metric) for metric in metrics]
    return Table(
        ["System", "Seeds", *names, "Length", *extra],
        [_system_rows(system, results.baselines) for system in results.systems],
    )


def _system_rows(system: SystemScores, baselines: Sequence[str]) -> list[Row]:
    scores, columns = list(system.scores.values()), list(system.columns.values())
    tails = [_tail(score, baselines) for score in scores]
    rows = [
        cells(
            [
                system.name,
                str(len(system.files)),
                *(Cell(f"{s.value:.2f}{t}", s.value) for s, t in zip(scores, tails, strict=True)),
                f"{system.length_ratio.value:.3f}",
                *(f"{column.value:.2f}" for column in columns),
            ]
        )
    ]
    for i in range(len(system.files) if len(system.files) > 1 else 0):
        own = [f"{s.seeds[i]:.2f}{' ' * len(t)}" for s, t in zip(scores, tails, strict=True)]
        elsewhere = [f"{c.seeds[i]:.2f}" if len(c.seeds) > 1 else "" for c in columns]
        ratio = f"{system.length_ratio.seeds[i]:.3f}"
        rows.append(cells([f"seed {i + 1}", "", *own, ratio, *elsewhere]))
    return rows


def _tail(score: Score, baselines: Sequence[str]) -> str:
    """Half of the interval, and the marks, in a width that is the same down a column."""
    better = {c.baseline for c in score.against if c.clear and c.difference > 0}
    marks = "".join(m for m, base in zip(MARKS, baselines, strict=False) if base in better)
    assert score.interval is not None
    half = (score.interval.high - score.interval.low) / 2
    return f" ±{half:.2f} {marks:<{len(baselines)}}"


def difference_table(results: Results) -> Table:
    """A line a pair of systems: difference and p-value under each metric."""
    metrics = list(results.systems[0].scores)
    rows = [
        [
            f"{system.name} - {comparison.baseline}",
            *(
                signed(c.difference, c.clear, f"{c.difference:+.2f} ({p_values(c)})")
                for c in (system.scores[metric].against[i] for metric in metrics)
            ),
        ]
        for system in results.systems
        for i, comparison in enumerate(system.scores[metrics[0]].against)
    ]
    return make_table(["Difference", *(HEADINGS.get(m, m) for m in metrics)], rows)


def p_values(comparison: Comparison) -> str:
    """The p-value of a difference, or both of them: "p 0.012", "p 0.012, 0.020"."""
    found = [comparison.p_value, comparison.p_randomisation]
    return "p " + ", ".join(p_text(p) for p in found if p is not None)


def _charts(results: Results) -> list[Figure]:
    seen = ""
    if any(len(system.files) > 1 for system in results.systems):
        seen += " Small circles are single seeds."
    if len(results.systems) > 1:
        seen += " Paired tests can tell systems apart whose intervals overlap."
    figures = []
    for metric in results.systems[0].scores:
        name = HEADINGS.get(metric, metric)
        bars = []
        for system in results.systems:
            score = system.scores[metric]
            assert score.interval is not None
            ends = score.interval.low, score.interval.high
            bars.append(Bar(system.name, score.value, *ends, score.seeds))
        chart = interval_chart(f"{name} of every system with its 95% interval", {name: bars})
        folded = "" if metric == MAIN else f"The same for {name}"
        figures.append(Figure(chart, f"{name} with its 95% interval.{seen}", folded))
    return figures


def _legend(results: Results) -> list[str]:
    """What the marks, intervals and numbers mean."""
    marks = ", ".join(
        f"{mark} better than {base}" for mark, base in zip(MARKS, results.baselines, strict=False)
    )
    lines = []
    if len(results.systems) > 1:
        tails = {
            "bootstrap": " (the tail of the direction seen)",
            "both": "; p of the bootstrap's tail in the direction seen, then of the randomisation",
        }
        lines.append(
            f"{marks}: p < {LEVEL}, {results.test.describe()}{tails.get(results.test.kind, '')}"
        )
    lines.append(
        f"±: half of the 95% interval over {results.test.resamples:,} resamples of the sentences"
    )
    if any(len(system.files) > 1 for system in results.systems):
        lines.append(
            "several seeds: the mean of their scores; the tests vary the sentences and take the "
            "trained models as given, so look at the seeds' own scores too"
        )
    return [*lines, "Length: tokens of the outputs over tokens of the references"]


def _numbers(results: Results) -> list[list[str]]:
    """Full numbers for a spreadsheet: a line a system (seed "mean"), then a line a seed."""
    # What is told of a pair of systems under one metric.
    told = ("minus", "p", "p2") if results.test.kind == "both" else ("minus", "p")
    header = ["system", "seed", "file"]
    for metric in results.systems[0].scores:
        header += [metric, f"{metric}_low", f"{metric}_high"]
        header += [f"{metric}_{what}_{base}" for base in results.baselines for what in told]
    lines = [[*header, "length_ratio", *results.systems[0].columns]]
    for system in results.systems:
        plain = [system.length_ratio, *system.columns.values()]
        mean: list[float | None] = []
        for score in system.scores.values():
            assert score.interval is not None
            mean += [score.value, score.interval.low, score.interval.high]
            against = {c.baseline: c for c in score.against}
            for base in results.baselines:
                c = against.get(base)
                found = [c.difference, c.p_value, c.p_randomisation] if c else [None] * 3
                mean += found[: len(told)]
        lines.append([system.name, "mean", "", *map(_full, [*mean, *(s.value for s in plain)])])
        for i, path in enumerate(system.files):
            own: list[float | None] = []
            for score in system.scores.values():
                own += [score.seeds[i], *[None] * (2 + len(told) * len(results.baselines))]
            own.append(plain[0].seeds[i])
            own += [s.seeds[i] if len(s.seeds) > 1 else None for s in plain[1:]]
            lines.append([system.name, str(i + 1), path, *map(_full, own)])
    return lines


def _full(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


# --- the answer in sentences, no clearer than the numbers are ---


def headline(results: Results) -> list[str]:
    """Of three systems or more: which is best, by how much, and how many beat the baseline.

    Then what that system gains over each baseline, the strongest baseline first; where a baseline
    leads, or of two systems, it is told of the last one, which a reader names last. The other
    metrics follow in a sentence of their own, and so does the spread of the seeds.
    """
    best = max(results.systems, key=lambda system: system.scores[MAIN].value)
    sentences = []
    focus = results.systems[-1]
    if results.lead is not None:
        sentences = [_lead(best, results.lead), _how_many_beat(results)]
        focus = focus if best.name in results.baselines else best
    against = focus.scores[MAIN].against
    if len(results.systems) == 1:
        return _alone(focus)
    for comparison in reversed(against):
        if not (focus is best and results.lead and comparison.baseline == results.lead.baseline):
            sentences.append(_main_sentence(focus, comparison))
    for place in reversed(range(len(against))):
        sentences += _other_metrics(focus, place)
    for comparison in reversed(against):
        sentences += _seeds(results, focus, comparison.baseline)
    above = best.scores[MAIN].value - focus.scores[MAIN].value
    if results.lead is None and above >= 0.005:
        sentences.append(f"Highest BLEU: {best.name}, {best.scores[MAIN].value:.2f}.")
    return sentences


def _lead(best: SystemScores, lead: Comparison) -> str:
    highest = f"{best.name} has the highest BLEU, {best.scores[MAIN].value:.2f}"
    if lead.difference < 0.005:
        return f"{highest}, as has {lead.baseline} ({_chance(lead)})."
    size = f"{lead.difference:.2f} above {lead.baseline}, the second"
    return f"{highest}: {size}{'' if lead.clear else ', which may be chance'} ({_chance(lead)})."


def _how_many_beat(results: Results) -> str:
    baseline = results.baselines[0]
    others = [system for system in results.systems if system.name != baseline]
    beat = [
        system.name
        for system in others
        for c in system.scores[MAIN].against
        if c.baseline == baseline and c.clear and c.difference > 0
    ]
    names = f": {', '.join(beat)}" if 0 < len(beat) <= MOST_NAMES else ""
    return f"{len(beat)} of {len(others)} systems beat {baseline} (p < {LEVEL}){names}."


def _alone(system: SystemScores) -> list[str]:
    """No difference to tell: what there is."""
    told = []
    for metric, score in system.scores.items():
        assert score.interval is not None
        ends = f"{score.interval.low:.2f} to {score.interval.high:.2f}"
        told.append(f"{score.value:.2f} {HEADINGS.get(metric, metric)} (95% interval {ends})")
    scores = ", ".join(told)
    return [f"{system.name} scores {scores}.", "One system: there is nothing to compare it with."]


def _chance(comparison: Comparison) -> str:
    shown = p_values(comparison).removeprefix("p ")
    return f"p < {shown[1:]}" if shown[0] == "<" else f"p = {shown}"


def _main_sentence(focus: SystemScores, comparison: Comparison) -> str:
    size = f"{abs(comparison.difference):.2f} {HEADINGS[MAIN]}"
    chance = _chance(comparison)
    if abs(comparison.difference) < 0.005:
        return f"{focus.name} and {comparison.baseline} score the same BLEU ({chance})."
    if comparison.clear:
        verb = "beats" if comparison.difference > 0 else "loses to"
        return f"{focus.name} {verb} {comparison.baseline} by {size} ({chance})."
    place = "above" if comparison.difference > 0 else "below"
    return (
        f"{focus.name} scores {size} {place} {comparison.baseline}, which may be chance ({chance})."
    )


def _other_metrics(focus: SystemScores, place: int) -> list[str]:
    """The baseline's other metrics: better, worse, and not clear."""
    found: dict[str, list[str]] = {}
    for kind in ("clearly better", "clearly worse", "no clear difference"):
        found[kind] = []
    baseline = focus.scores[MAIN].against[place].baseline
    for metric, score in focus.scores.items():
        if metric == MAIN:
            continue
        c = score.against[place]
        clear = "clearly better" if c.difference > 0 else "clearly worse"
        told = f"{HEADINGS.get(metric, metric)} {c.difference:+.2f} ({p_values(c)})"
        found[clear if c.clear else "no clear difference"].append(told)
    parts = [f"{kind}: {', '.join(told)}" for kind, told in found.items() if told]
    if not parts:
        return []
    return [f"{focus.name} against {baseline} by the other metrics, {'; '.join(parts)}."]


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

"""Score all systems, and test their differences, also at the length of their baseline."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simile_plugin import significance
from simile_plugin.files import InputError, empty_references
from simile_plugin.report.inputs.options import LEVEL, PairedTest, choose_baselines
from simile_plugin.report.inputs.scores import (
    LENGTH_RATIO,
    at_the_others_length,
    brevity_penalty,
    score_all,
    score_systems,
)
from simile_plugin.report.inputs.texts import System
from simile_plugin.reward import (
    ListScores,
    Scorer,
    is_unspaced,
    language_warning,
    warnings_of_text,
)
from simile_plugin.significance import Floats, Interval, SentenceStatistics

MAIN = "bleu"  # the metric that no system here is trained on by SIMILE's promise
ORDERS = 4
EXAMPLES = re.compile(r"""\d+|'[^']*'|"[^"]*\"""")  # in a warning
CHANCE = 50.0  # percent of pairs that a coin orders as people do
Numbers = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]


@dataclass(frozen=True)
class References:
    """The references of a test set, and the name of their file for the reader."""

    name: str
    lines: Sequence[str]


@dataclass(frozen=True)
class SameLength:
    """A difference from a baseline at its length, see `scores.at_the_others_length`."""

    difference: float
    p_value: float


@dataclass(frozen=True)
class Difference:
    """A system against a baseline in one metric, in percent.

    Attributes:
        p_value: share of the resamples on the other side, of this test by itself.
        p_sacrebleu: of the same resamples as sacreBLEU defines it.
        people: percentage of pairs so far apart that people order alike, see `people_agree`.
        p_holm: p_value after Holm over the metric's comparisons.
    """

    difference: float
    p_value: float
    p_sacrebleu: float
    people: float | None
    baseline: str
    p_holm: float
    same_length: SameLength

    @property
    def clear(self) -> bool:
        """Return whether p < 0.05 after Holm."""
        return self.p_holm < LEVEL


@dataclass(frozen=True)
class Lead:
    """The highest BLEU against the second highest, whose system is `baseline`."""

    baseline: str
    difference: float
    p_value: float
    p_sacrebleu: float
    people: float | None

    @property
    def clear(self) -> bool:
        """Return whether p < 0.05: it is a single test."""
        return self.p_value < LEVEL


@dataclass(frozen=True)
class Score:
    """A metric of one system, in percent: the mean of its seeds, and the seeds."""

    value: float
    seeds: list[float]
    interval: Interval
    against: list[Difference]


@dataclass(frozen=True)
class LengthRatio:
    """Tokens of the outputs over tokens of the references; not tested, so without interval."""

    value: float
    seeds: list[float]
    interval: None = None
    against: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class SystemScores:
    """One system: a score a metric, and what its BLEU and chrF are made of (seeds' means)."""

    name: str
    files: list[str]
    scores: dict[str, Score]
    length_ratio: LengthRatio
    brevity_penalty: float
    precisions: list[float]
    chrf_precision: float
    chrf_recall: float


@dataclass(frozen=True)
class Comparison:
    """The scores of all systems with their tests.

    Attributes:
        baselines: the one or two systems that the others are tested against.
        comparisons: how many pairs were tested in each metric.
        unknown_share: share of pieces that the encoder does not know.
        lead: of three systems or more.
        language, text_warnings: warnings about the references and the outputs.
        unspaced: whether the tokeniser takes whole references for words.
    """

    systems: list[SystemScores]
    baselines: list[str]
    reference: str
    sentences: int
    comparisons: int
    test: PairedTest
    signatures: dict[str, str]
    unknown_share: float
    lead: Lead | None
    language: str
    unspaced: bool
    text_warnings: list[str]


def compare_systems(
    systems: Sequence[System],
    references: References,
    scorer: Scorer,
    test: PairedTest,
    baselines: Sequence[str] = (),
    more: Numbers | None = None,
    list_scores: ListScores | None = None,
) -> Comparison:
    """Compute scores, intervals, and paired tests against one or two baselines.

    A system with several seeds has the mean of its seeds' corpus scores; how the tests treat
    seeds is said in `significance.bootstrap`.

    Args:
        baselines: see `choose_baselines`.
        more: title -> system name -> (S, N) numbers in [-1, 1], each title one more tested metric,
            in percent (`texts.read_sentence_scores`).
        list_scores: what `scores.score_all` gave for the systems, where it is known already.

    Raises:
        InputError: for unknown baselines, the title of a metric, or scores that are not finite.
    """
    names, refs = [system.name for system in systems], references.lines
    chosen = choose_baselines(names, baselines)
    list_scores = list_scores or score_all(systems, refs, scorer)
    metrics = score_systems(systems, refs, list_scores)
    ratios = [row.pop(LENGTH_RATIO) for row in metrics]
    _add_metrics(metrics, names, more or {})
    pairs = _pairs(names, chosen)
    columns = [_column(metric, metrics, ratios, pairs) for metric in metrics[0]]
    drawn = _draw(columns, test)
    scores = {column.metric: column.scores(names, pairs) for column in drawn}
    main = next(column for column in drawn if column.metric == MAIN)
    of_systems = [
        _system_scores(system, {m: column[row] for m, column in scores.items()}, ratio, parts)
        for row, (system, ratio, parts) in enumerate(zip(systems, ratios, metrics, strict=True))
    ]
    return Comparison(
        systems=of_systems,
        baselines=list(chosen),
        reference=os.path.basename(references.name),
        sentences=len(refs),
        comparisons=len(pairs),
        test=test,
        signatures=_signatures(scorer, test),
        unknown_share=list_scores.unknown_share,
        lead=main.lead(names) if len(names) > 2 else None,
        language=language_warning(references.name, scorer.encoder, refs),
        unspaced=is_unspaced(refs, scorer.tokenize),
        text_warnings=_text_warnings(systems, references),
    )


def _pairs(names: Sequence[str], baselines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the (baseline, system) places to test; two baselines meet in the later one's row."""
    return [
        (names.index(baseline), row)
        for row, name in enumerate(names)
        for order, baseline in enumerate(baselines)
        if name not in baselines[: order + 1]
    ]


def _text_warnings(systems: Sequence[System], references: References) -> list[str]:
    """Return warnings of the references, then of the outputs, those of fewest files first.

    What all outputs have hides no difference between them, but what is told of one does. Of
    warnings that differ in numbers and examples alone the first is told.
    """
    refs = references.lines
    told = [empty_references(references.name, refs)]
    told += warnings_of_text(references.name, refs, refs)
    alike: dict[str, list[str]] = {}
    for system in systems:
        for file, lines in zip(system.files, system.outputs, strict=True):
            for text in warnings_of_text(file, lines, refs):
                wording = EXAMPLES.sub("", text.replace(file, "", 1))
                alike.setdefault(wording, []).append(text)
    for first, *others in sorted(alike.values(), key=len):
        told.append(first + f" (and {len(others)} of the other outputs)" * bool(others))
    return [text for text in told if text]


def _system_scores(
    system: System,
    scores: dict[str, Score],
    ratio: SentenceStatistics,
    metrics: Mapping[str, SentenceStatistics],
) -> SystemScores:
    """Put beside the scores what BLEU and chrF are made of, the mean of the seeds."""
    bleu = metrics[MAIN].values.sum(axis=1, dtype=np.float64)
    matches, totals = bleu[:, 2 : 2 + ORDERS], bleu[:, 2 + ORDERS :]
    chrf = metrics["chrf"].values.sum(axis=1, dtype=np.float64)
    hyp, ref, both = (chrf[:, first::3] for first in range(3))
    return SystemScores(
        name=system.name,
        files=list(system.files),
        scores=scores,
        length_ratio=LengthRatio(ratio.corpus(), ratio.seed_scores().tolist()),
        brevity_penalty=float(brevity_penalty(bleu[:, 0], bleu[:, 1]).mean()),
        precisions=(100 * (matches / np.maximum(totals, 1)).mean(0)).tolist(),
        chrf_precision=float(100 * (both / np.maximum(hyp, 1)).mean()),
        chrf_recall=float(100 * (both / np.maximum(ref, 1)).mean()),
    )


# --- tests: a column a metric ---


@dataclass(frozen=True)
class Column:
    """One metric: the statistics of every system, and of every pair at its baseline's length."""

    metric: str
    systems: list[SentenceStatistics]
    levelled: list[SentenceStatistics]


@dataclass(frozen=True)
class DrawnScore:
    """A score of the whole test set, and of its resamples (R,)."""

    statistics: SentenceStatistics
    value: float
    draws: Floats

    def p_value(self, baseline: DrawnScore) -> float:
        """Return p of the difference from a baseline: of few sentences the exact test's."""
        draws = baseline.draws, self.draws
        return significance.paired_p_value(baseline.statistics, self.statistics, draws)

    def p_bootstrap(self, baseline: DrawnScore) -> float:
        """Return the paired bootstrap's p, of scores whose statistics cannot be exchanged."""
        size = self.value - baseline.value
        sentences = self.statistics.sentences
        return significance.bootstrap_p_value(baseline.draws, self.draws, size, sentences)

    def p_sacrebleu(self, baseline: DrawnScore) -> float:
        """Return the same as sacreBLEU defines it."""
        size = self.value - baseline.value
        sentences = self.statistics.sentences
        return significance.sacrebleu_p_value(baseline.draws, self.draws, size, sentences)


@dataclass(frozen=True)
class DrawnColumn:
    """A column with the resamples of each of its statistics."""

    metric: str
    systems: list[DrawnScore]
    levelled: list[DrawnScore]

    def scores(self, names: Sequence[str], pairs: Sequence[tuple[int, int]]) -> list[Score]:
        """Return a score a system, with its differences from the baselines."""
        p_values = [self.systems[row].p_value(self.systems[base]) for base, row in pairs]
        adjusted = significance.holm(p_values)
        against: list[list[Difference]] = [[] for _ in names]
        for place, (base, row) in enumerate(pairs):
            system, baseline, level = self.systems[row], self.systems[base], self.levelled[place]
            size = system.value - baseline.value
            against[row].append(
                Difference(
                    difference=size,
                    p_value=p_values[place],
                    p_sacrebleu=system.p_sacrebleu(baseline),
                    people=people_agree(self.metric, size),
                    baseline=names[base],
                    p_holm=adjusted[place],
                    same_length=SameLength(
                        level.value - baseline.value, level.p_bootstrap(baseline)
                    ),
                )
            )
        return [
            Score(
                system.value,
                system.statistics.seed_scores().tolist(),
                significance.interval(system.draws),
                differences,
            )
            for system, differences in zip(self.systems, against, strict=True)
        ]

    def lead(self, names: Sequence[str]) -> Lead:
        """Test the highest score against the second highest."""
        order = sorted(range(len(names)), key=lambda place: self.systems[place].value)
        second, best = (self.systems[place] for place in order[-2:])
        size = best.value - second.value
        chances = best.p_value(second), best.p_sacrebleu(second)
        return Lead(names[order[-2]], size, *chances, people_agree(self.metric, size))


def _column(
    metric: str,
    metrics: Sequence[Mapping[str, SentenceStatistics]],
    ratios: Sequence[SentenceStatistics],
    pairs: Sequence[tuple[int, int]],
) -> Column:
    systems = [row[metric] for row in metrics]
    levelled = [
        at_the_others_length(metric, systems[row], systems[base], ratios[row], ratios[base])
        for base, row in pairs
    ]
    return Column(metric, systems, levelled)


def _draw(columns: Sequence[Column], test: PairedTest) -> list[DrawnColumn]:
    """Score the same resamples of the sentences for every metric of every system."""
    statistics = [part for of in columns for part in (*of.systems, *of.levelled)]
    draws = significance.bootstrap(statistics, test.resamples, test.seed)
    scores = [
        DrawnScore(part, part.corpus(), row) for part, row in zip(statistics, draws, strict=True)
    ]
    drawn, start = [], 0
    for column in columns:
        middle = start + len(column.systems)
        end = middle + len(column.levelled)
        drawn.append(DrawnColumn(column.metric, scores[start:middle], scores[middle:end]))
        start = end
    return drawn


def _add_metrics(
    metrics: Sequence[dict[str, SentenceStatistics]], names: Sequence[str], more: Numbers
) -> None:
    computed = {title.casefold() for title in metrics[0]}
    for title, numbers in more.items():
        if title.casefold() in computed:
            raise InputError(
                f"--sentence-scores: got {title}, which is computed; name it otherwise"
            )
        for name, row in zip(names, metrics, strict=True):
            percent = 100 * np.asarray(numbers[name], dtype=np.float64)
            row[title] = significance.mean_statistics(percent)


def _signatures(scorer: Scorer, test: PairedTest) -> dict[str, str]:
    """Return what stands behind the numbers, with the test where sacreBLEU puts it."""
    signatures = scorer.signatures("BLEU", "chrF", "SIM, SIMILE", "LEARNED")
    for name in ("BLEU", "chrF"):
        references, _, rest = signatures[name].partition("|")
        signatures[name] = f"{references}|bs:{test.resamples}|seed:{test.seed}|{rest}"
    return signatures


def people_agree(metric: str, difference: float) -> float | None:
    """Return the percentage of pairs of WMT systems so far apart that people order alike.

    Kocmi et al. 2024, "Navigating the Metrics Maze", by mt-thresholds; None without that package,
    and for a metric that it does not have.
    """
    try:
        import mt_thresholds
    except ImportError:
        return None
    if metric.casefold() not in mt_thresholds.METRICS:
        return None
    return max(CHANCE, float(mt_thresholds.accuracy(abs(difference), metric.casefold())))

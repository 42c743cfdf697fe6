"""Which system is better, by how much, and is it more than chance? (the paper's main table)

Scores come from `scores`, tests from `significance`; `results_table` lays the result out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from simile_plugin import statistics as significance
from simile_plugin.files import InputError
from simile_plugin.report.scores import LENGTH_RATIO, ScoreSettings, score_systems
from simile_plugin.report.systems import System
from simile_plugin.reward import ListScores, bleu_signature, chrf_signature, signature
from simile_plugin.statistics import Interval, SentenceStatistics

MOST_BASELINES = 2
LEVEL = 0.05


@dataclass(frozen=True)
class PairedTest:
    """How differences are tested.

    Attributes:
        kind: "bootstrap" (Koehn 2004), "randomisation" (two-sided, slower), or "both".
        resamples: bootstrap resamples; the intervals come from them under either kind.
        trials: trials of approximate randomisation.
        seed: of the random draws.

    Raises:
        ValueError: for no draws or a negative seed.
    """

    kind: str = "bootstrap"
    resamples: int = significance.BOOTSTRAP_RESAMPLES
    trials: int = significance.RANDOMISATION_TRIALS
    seed: int = significance.SEED

    def __post_init__(self) -> None:
        for flag, value, least in (
            ("--resamples", self.resamples, 1),
            ("--trials", self.trials, 1),
            ("--seed", self.seed, 0),
        ):
            if value < least:
                raise InputError(f"{flag}: got {value}; expected at least {least}")

    def describe(self) -> str:
        """The test in words, for a legend."""
        bootstrap = f"paired bootstrap, {self.resamples:,} resamples"
        randomisation = f"paired approximate randomisation, {self.trials:,} trials"
        words = {
            "bootstrap": bootstrap,
            "randomisation": randomisation,
            "both": f"{bootstrap}, and {randomisation}",
        }
        return f"{words[self.kind]}, seed {self.seed}"


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
    """

    systems: tuple[SystemScores, ...]
    baselines: tuple[str, ...]
    reference: str
    sentences: int
    test: PairedTest
    signatures: dict[str, str]
    unknown_share: float

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        return asdict(self)


def choose_baselines(names: Sequence[str], wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The one or two systems that the others are tested against.

    Without a wish: those named MLE and BLEU, as in the paper, or else the first one.

    Raises:
        ValueError: for an unknown name, a repeated one, or more than two.
    """
    for name in wanted:
        if name not in names:
            raise InputError(f"--baseline: got {name}; expected one of {', '.join(names)}")
    if len(wanted) > MOST_BASELINES or len(set(wanted)) < len(wanted):
        raise InputError(
            f"--baseline: got {','.join(wanted)}; expected one or two different systems"
        )
    by_default = [n for word in ("mle", "bleu") for n in names if n.casefold() == word]
    return tuple(wanted or by_default[:MOST_BASELINES] or names[:1])


def choose_pair(
    names: Sequence[str], baselines: Sequence[str], wanted: Sequence[str] = ()
) -> tuple[str, str]:
    """The two systems that are compared word by word, the second minus the first.

    Without a wish: the last baseline, and the last other system.

    Raises:
        ValueError: for one system only, unknown names, or not two of them.
    """
    if len(names) < 2:
        raise InputError(f"--sys: got {', '.join(names)} alone; a comparison needs two systems")
    for name in wanted:
        if name not in names:
            raise InputError(f"--compare: got {name}; expected two of {', '.join(names)}")
    if wanted and (len(wanted) != 2 or wanted[0] == wanted[1]):
        raise InputError(f"--compare: got {','.join(wanted)}; expected two different systems")
    if wanted:
        return wanted[0], wanted[1]
    return baselines[-1], [name for name in names if name != baselines[-1]][-1]


def analyse_results(
    systems: Sequence[System],
    refs: Sequence[str],
    reference: str,
    settings: ScoreSettings,
    test: PairedTest,
    baselines: Sequence[str] = (),
    columns: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    sentence_scores: Mapping[str, Mapping[str, Sequence[Sequence[float]]]] | None = None,
    progress: Callable[[int], object] | None = None,
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
        progress: called with the number of sentences just scored.
        list_scores: what `scores.score_all` gave for the systems, where it is known already.

    Raises:
        ValueError: for unknown baselines, a repeated title, or scores that are not finite.
    """
    names = [system.name for system in systems]
    chosen = choose_baselines(names, baselines)
    scored = score_systems(systems, refs, settings, progress, scores=list_scores)
    ratios = [row.pop(LENGTH_RATIO) for row in scored.metrics]
    for title, numbers in (sentence_scores or {}).items():
        if title in scored.metrics[0]:
            raise InputError(
                f"--sentence-scores: got {title}, which is computed; name it otherwise"
            )
        for system, row in zip(systems, scored.metrics, strict=True):
            percent = 100 * np.asarray(numbers[system.name], dtype=np.float64)
            row[title] = significance.mean_statistics(percent)
    scores: list[dict[str, Score]] = [{} for _ in systems]
    for metric in scored.metrics[0]:
        column = [row[metric] for row in scored.metrics]
        for own, score in zip(scores, _test_metric(names, chosen, column, test), strict=True):
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
    return Results(
        tuple(rows),
        chosen,
        reference,
        len(refs),
        test,
        _signatures(settings, test),
        scored.unknown_share,
    )


def _plain_score(seeds: Sequence[float]) -> Score:
    return Score(math.fsum(seeds) / len(seeds), tuple(seeds))


def _test_metric(
    names: Sequence[str],
    baselines: Sequence[str],
    column: Sequence[SentenceStatistics],
    test: PairedTest,
) -> list[Score]:
    """Scores of all systems under one metric, with intervals and comparisons."""
    draws = significance.bootstrap(column, test.resamples, test.seed)
    pairs = [
        (names.index(baseline), row)
        for row, name in enumerate(names)
        for order, baseline in enumerate(baselines)
        # A pair of baselines is shown once, in the later one's row.
        if name not in baselines[: order + 1]
    ]
    differences = [column[row].corpus() - column[base].corpus() for base, row in pairs]
    p_values: list[list[float]] = []
    if test.kind != "randomisation":
        p_values.append(
            [
                significance.bootstrap_p_value(draws[base], draws[row], difference)
                for (base, row), difference in zip(pairs, differences, strict=True)
            ]
        )
    if test.kind != "bootstrap":
        compared = [(column[base], column[row]) for base, row in pairs]
        p_values.append(significance.randomisation_p_values(compared, test.trials, test.seed))
    against: list[list[Comparison]] = [[] for _ in names]
    for (base, row), difference, *own in zip(pairs, differences, *p_values, strict=True):
        against[row].append(Comparison(names[base], difference, *own))
    return [
        Score(
            statistics.corpus(),
            tuple(statistics.seed_scores().tolist()),
            significance.interval(draws[row]),
            tuple(against[row]),
        )
        for row, statistics in enumerate(column)
    ]


def _signatures(settings: ScoreSettings, test: PairedTest) -> dict[str, str]:
    """What stands behind the numbers, with the test where sacreBLEU puts it."""
    # Of both tests the bootstrap is named: its p-value comes first.
    drawn = f"ar:{test.trials}" if test.kind == "randomisation" else f"bs:{test.resamples}"
    found = {}
    for name, plain in (("BLEU", bleu_signature(settings.tokenize)), ("chrF", chrf_signature())):
        references, _, rest = plain.partition("|")
        found[name] = f"{references}|{drawn}|seed:{test.seed}|{rest}"
    if settings.encoder is not None:
        found["SIM, SIMILE"] = signature(settings.encoder, settings.alpha)
    return found

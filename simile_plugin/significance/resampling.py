"""Is a difference between two systems more than the luck of the test sentences?

Statistics are kept apart from scores: a metric is a sum of per-sentence statistics and a function
of that sum, so a resample costs one matrix product, whatever the metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SEED = 12345  # sacreBLEU's
BOOTSTRAP_RESAMPLES = 1000
CHUNK_CELLS = 4_000_000  # resamples x sentences held in memory at once: 32 MB
TIE = 1e-9  # differences of scores below this are rounding
EXACT_UP_TO = 16  # sentences, whose 2^N exchanges are scored in a third of a second


@dataclass(frozen=True)
class SentenceStatistics:
    """The statistics of a system's sentences, whose sum gives a metric.

    Attributes:
        values: (S, N, K) numbers, S seeds of the system, N sentences, K statistics.
        score: sums over sentences (..., K) -> corpus scores (...), on any scale.
    """

    values: NDArray[np.generic]
    score: Callable[[Floats], Floats]

    @property
    def sentences(self) -> int:
        """N, the number of sentences."""
        return int(self.values.shape[1])

    def seed_scores(self) -> Floats:
        """Return the corpus score of each seed: (S,)."""
        return self.score(self.values.sum(axis=1, dtype=np.float64))

    def corpus(self) -> float:
        """Return the mean of the seeds' corpus scores."""
        return float(self.seed_scores().mean())


@dataclass(frozen=True)
class Interval:
    """A 95% percentile interval of a bootstrapped score, and the mean of the resamples."""

    low: float
    high: float
    mean: float


def mean_statistics(scores: NDArray[np.generic]) -> SentenceStatistics:
    """Make a metric whose corpus score is the mean of its sentence scores, as SIM and SIMILE are.

    Args:
        scores: (S, N) sentence scores of S seeds.
    """
    sentences = scores.shape[1]
    return SentenceStatistics(scores[..., None], lambda sums: sums[..., 0] / sentences)


def resample_counts(sentences: int, resamples: int, seed: int = SEED) -> Iterator[Floats]:
    """Draw bootstrap resamples of N sentences with replacement, some rows at a time.

    Row r says how often each sentence is in resample r. The draws are those of sacreBLEU's
    paired bootstrap with the same seed, however the rows are cut.

    Yields:
        (rows, N) counts; all rows together are `resamples`.
    """
    rng = np.random.default_rng(seed)
    for rows in _chunks(resamples, max(1, CHUNK_CELLS // sentences)):
        draws = rng.choice(sentences, size=(rows, sentences), replace=True)
        cells = draws + np.arange(rows)[:, None] * sentences
        counts = np.bincount(cells.ravel(), minlength=rows * sentences)
        yield counts.reshape(rows, sentences).astype(np.float64)


def bootstrap(
    systems: Sequence[SentenceStatistics],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
) -> Floats:
    """Score resampled test sets (Koehn 2004), the same sentences for every system.

    A system with several seeds gets, in each resample, the mean of its seeds' corpus scores on
    that one draw of sentences. The sentences vary and the trained models do not: a p-value says
    whether these models differ on other sentences, not whether training again would give the same.

    Args:
        systems: statistics over the same N sentences; systems and metrics may be mixed.

    Returns:
        (len(systems), resamples) scores.

    Raises:
        ValueError: if the numbers of sentences differ, or there is none.
    """
    sentences = _common_sentences(systems)
    scores = np.empty((len(systems), resamples))
    done = 0
    for counts in resample_counts(sentences, resamples, seed):
        for row, system in enumerate(systems):
            sums = counts @ system.values.astype(np.float64)  # (S, rows, K)
            scores[row, done : done + len(counts)] = system.score(sums).mean(axis=0)
        done += len(counts)
    return scores


def interval(scores: Floats) -> Interval:
    """Return the 95% interval of bootstrapped scores (R,): R // 40 lie outside at either end."""
    ordered = np.sort(scores)
    outside = len(ordered) // 40
    return Interval(float(ordered[outside]), float(ordered[-1 - outside]), float(scores.mean()))


def bootstrap_p_value(baseline: Floats, system: Floats, difference: float, sentences: int) -> float:
    """Return the p-value of a paired bootstrap (Koehn 2004): the resamples on the other side.

    p = (1 + #{r : d_r <= 0}) / (R + 1),  d_r = system_r - baseline_r, for a positive difference

    It is one-sided, in the direction seen; ties, and a single sentence, count against a difference.
    It is at least 2^-N, the share of sign patterns of N sentences of which all favour one side.
    Even so few sentences make it too small: of them `exact_p_value` is right. Beyond, without any
    difference (normal scores, 1,000 resamples, 2,000 trials), p < 0.05 and p < 0.002 come in 10%
    and 0.4% of cases if they are exact, and came in 13% and 1.5% of 17 sentences, 13% and 0.8% of
    20, 11% and 0.8% of 50.

    Args:
        baseline, system: (R,) scores from one call of `bootstrap`.
        difference: system minus baseline on the whole test set.
        sentences: in the test set.
    """
    if sentences == 1 or abs(difference) <= TIE:
        return 1.0
    other_side = int(np.sum((system - baseline) * np.sign(difference) <= TIE))
    return max((other_side + 1) / (len(system) + 1), 0.5**sentences)


def exact_p_value(baseline: SentenceStatistics, system: SentenceStatistics) -> float:
    """Return the p-value of the exact paired permutation test, in the direction seen.

    p = #{x in {0, 1}^N : d(x) >= |d|} / 2^N,  d(x): the difference after exchanging the two outputs
    of every sentence with x_i = 1, times the sign of d. Without a difference p < a comes at most
    in a share 2 a of cases, however few the sentences (Fisher 1935; Noreen 1989).

    Args:
        baseline, system: statistics over the same N sentences, N <= EXACT_UP_TO. Of several seeds
            the s-th of both are exchanged and their scores averaged, as in `bootstrap`; the side
            with fewer begins again with its first.

    Raises:
        ValueError: if the numbers of sentences differ, or are too many.
    """
    sentences = _common_sentences((baseline, system))
    if sentences > EXACT_UP_TO:
        raise ValueError(f"exact test: got {sentences} sentences; expected up to {EXACT_UP_TO}")
    seeds = np.arange(math.lcm(len(baseline.values), len(system.values)))
    first, second = (
        own.values[seeds % len(own.values)].astype(np.float64) for own in (baseline, system)
    )
    exchanged, sums = second - first, [own.sum(axis=1, keepdims=True) for own in (first, second)]
    size = abs(system.corpus() - baseline.corpus())
    patterns, as_far = 1 << (sentences - 1), 0  # the other half has the same d(x), with minus
    rows = CHUNK_CELLS // (EXACT_UP_TO * len(seeds))
    for start in range(0, patterns, rows):
        numbers = np.arange(start, min(start + rows, patterns))
        moved = (numbers[:, None] >> np.arange(sentences) & 1) @ exchanged  # (S, rows, K)
        of_seeds = system.score(sums[1] - moved) - baseline.score(sums[0] + moved)
        differences = of_seeds.mean(axis=0)
        as_far += int((differences >= size - TIE).sum() + (-differences >= size - TIE).sum())
    return as_far / (2 * patterns)


def paired_p_value(
    baseline: SentenceStatistics, system: SentenceStatistics, draws: tuple[Floats, Floats]
) -> float:
    """Return p of the exact test up to EXACT_UP_TO sentences, of the paired bootstrap beyond.

    draws: of baseline and system, from one call of `bootstrap`.
    """
    if system.sentences <= EXACT_UP_TO:
        return exact_p_value(baseline, system)
    difference = system.corpus() - baseline.corpus()
    return bootstrap_p_value(*draws, difference, system.sentences)


def sacrebleu_p_value(baseline: Floats, system: Floats, difference: float, sentences: int) -> float:
    """Return the p-value of the same resamples as sacreBLEU and Moses define it.

    p = (1 + #{r : |d_r| - mean |d| >= |difference|}) / (R + 1)

    Of a small difference |d_r| is narrower than d_r, so that this is too low: 0.19 where 0.28 of
    the resamples lie on the other side. Ties count against a difference; sacreBLEU leaves them out
    and so gives two identical outputs, or a single sentence, p = 1 / (R + 1), where this gives 1.
    Elsewhere the two agree. Arguments as of `bootstrap_p_value`.
    """
    if sentences == 1:
        return 1.0
    differences = np.abs(system - baseline)
    as_large = int(np.sum(differences - differences.mean() >= abs(difference) - TIE))
    return (as_large + 1) / (len(differences) + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several tests, so that all are right with 95% (Holm 1979).

    The k-th smallest of m becomes the largest of (m - j) p_j over j <= k (from 0), at most 1.
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def _common_sentences(systems: Sequence[SentenceStatistics]) -> int:
    counts = sorted({system.sentences for system in systems})
    if len(counts) != 1 or counts[0] == 0:
        found = " and ".join(map(str, counts)) or "no systems"
        raise ValueError(
            f"paired test: got outputs of {found} sentences; expected the same test set, not empty"
        )
    return counts[0]


def _chunks(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)

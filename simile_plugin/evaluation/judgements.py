"""Does a metric rank translations as people do? Correlation with judgements of single segments.

The measure of the WMT metrics tasks that a reward is chosen by: SIM and SIMILE of an encoder beside
sentence BLEU, chrF and METEOR on the same segments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation.meteor import Meteor
from simile_plugin.evaluation.sentence_metrics import encoder_scores, surface_scores
from simile_plugin.files import InputError, read_lines
from simile_plugin.reward import SIMILE_ALPHA
from simile_plugin.statistics import BOOTSTRAP_RESAMPLES, SEED, interval, resample_counts

Floats = NDArray[np.float64]

KINDS = ("spearman", "pearson", "kendall")
# Header names by which a column is found, the preferred first: WMT's own, and MLQE-PE's, whose
# post-edit is a reference that was made from the hypothesis.
NAMES = {
    "hypothesis": ("hypothesis", "hyp", "mt"),
    "reference": ("reference", "ref", "post_edit"),
    "human score": ("human_z", "da_z_mean", "z_mean", "human", "z", "score"),
}
KENDALL_CELLS = 4_000_000  # pairs of segments compared at once: 16 MB
CONSTANT = 1e-7  # cosines come from float32: what varies less than its rounding is constant


@dataclass(frozen=True)
class Judgements:
    """Segments of one file with a human score each: higher is better, on any scale."""

    path: str
    hyps: list[str]
    refs: list[str]
    human: Floats


@dataclass(frozen=True)
class Estimate:
    """A correlation in percent with its 95% bootstrap interval; NaN where it is not defined."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """Correlations with human judgements, in percent.

    Attributes:
        segments: number of segments of each file.
        files: file -> kind of correlation -> metric -> estimate.
        mean: kind -> metric -> estimate of the unweighted mean over the files.
        difference: kind -> "SIMILE - BLEU" and its like -> estimate of the difference of the
            means, by the same resamples on both sides.
    """

    segments: dict[str, int]
    files: dict[str, dict[str, dict[str, Estimate]]]
    mean: dict[str, dict[str, Estimate]]
    difference: dict[str, dict[str, Estimate]]


def read_judgements(
    path: str, columns: Sequence[str] | None = None, flag: str = "--judgements"
) -> Judgements:
    """Read a TSV (or .tsv.gz) of hypothesis, reference and human score.

    Args:
        columns: hypothesis, reference and score, each the name of a column in the header or its
            number from 1. Without them the header must hold names of NAMES.

    Raises:
        ValueError: naming file and line, for a column that is not there, a line with too few
            columns, a score that is no number, or fewer than three segments.
    """
    rows = [line.split("\t") for line in read_lines(path, flag)]
    if not rows:
        raise InputError(f"{flag}: {path}: is empty, expected tab-separated columns")
    where, start = _find_columns(path, rows[0], columns, flag)
    hyps, refs, human = [], [], []
    for number, row in enumerate(rows[start:], start + 1):
        if len(row) <= max(where):
            raise InputError(
                f"{flag}: {path}:{number}: got {len(row)} tab-separated columns, "
                f"expected at least {max(where) + 1}"
            )
        hyp, ref, score = (row[column] for column in where)
        value = _number(score)
        if not math.isfinite(value):
            raise InputError(
                f"{flag}: {path}:{number}: got human score {score!r} in column {where[2] + 1}, "
                "expected a number"
            )
        hyps.append(hyp)
        refs.append(ref)
        human.append(value)
    if len(human) < 3:
        raise InputError(f"{flag}: {path}: {len(human)} judged segments, expected 3 or more")
    return Judgements(str(path), hyps, refs, np.array(human))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _find_columns(
    path: str, header: list[str], columns: Sequence[str] | None, flag: str
) -> tuple[list[int], int]:
    """Positions of hypothesis, reference and score, and the number of header lines (0 or 1)."""
    names = [name.strip().lower() for name in header]
    where = []
    for position, (role, known) in enumerate(NAMES.items()):
        wanted = [columns[position].strip().lower()] if columns else known
        found = next((names.index(name) for name in wanted if name in names), None)
        if found is None and columns and wanted[0].isdecimal() and int(wanted[0]) > 0:
            found = int(wanted[0]) - 1
        if found is None:
            raise InputError(
                f"{flag}: {path}:1: no column {' or '.join(map(repr, wanted))} for the {role} in "
                f"the header {header!r}; name the columns with --judgement-columns"
            )
        where.append(found)
    # Columns given by number: line 1 is a header if its score is no number.
    score = header[where[2]] if where[2] < len(header) else "0"
    return where, int(math.isnan(_number(score)))


def metric_scores(
    encoders: Mapping[str, RewardEncoder],
    judgements: Judgements,
    alpha: float = SIMILE_ALPHA,
    meteor: Meteor | None = None,
) -> dict[str, Floats]:
    """Sentence scores (n,): SIM and SIMILE as in training, BLEU, chrF and, if given, METEOR."""
    pairs = judgements.hyps, judgements.refs
    return encoder_scores(encoders, *pairs, alpha) | surface_scores(*pairs, meteor)


def resampled_ranks(values: Floats, counts: Floats) -> Floats:
    """Ranks from 1 within each resample, equal values sharing the mean of their ranks.

    Args:
        values: (n,).
        counts: (R, n), how often each value is in resample r.

    Returns:
        (R, n); meaningful where the count is not 0.
    """
    groups, inverse = _tie_groups(values, counts)
    last = groups.cumsum(axis=1)
    return ((2 * last - groups + 1) / 2)[:, inverse]


def _tie_groups(values: Floats, counts: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Members of each group of equal values in each resample (R, G), and the group of each."""
    _, inverse = np.unique(values, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    return np.add.reduceat(counts[:, order], starts, axis=1), inverse


def resampled_pearson(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Pearson correlation within each resample: (R,); NaN where a side is constant.

    Args:
        x, y: (n,), or (R, n) for values that differ by resample.
        counts: (R, n), how often each pair is in resample r.
    """
    total = counts.sum(axis=1, keepdims=True)
    x = x - (counts * x).sum(axis=1, keepdims=True) / total
    y = y - (counts * y).sum(axis=1, keepdims=True) / total
    squares = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
    products = (counts * x * y).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(squares > 0, products / np.sqrt(squares), np.nan)


def resampled_kendall(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Kendall's tau-b within each resample: (R,); NaN where a side is constant.

    (concordant - discordant) / sqrt(pairs not tied in x * pairs not tied in y), and a segment
    drawn twice is tied with itself.
    """
    balance = np.zeros(len(counts))
    weights = counts.astype(np.float32)
    step = max(1, KENDALL_CELLS // len(x))
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        agree = np.sign(x[rows, None] - x) * np.sign(y[rows, None] - y)
        balance += (weights[:, rows] * (weights @ agree.astype(np.float32).T)).sum(
            axis=1, dtype=np.float64
        )
    total = counts.sum(axis=1) ** 2
    untied = [total - (_tie_groups(side, counts)[0] ** 2).sum(axis=1) for side in (x, y)]
    product = untied[0] * untied[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(product > 0, balance / np.sqrt(product), np.nan)


def correlations(scores: Floats, human: Floats, counts: Floats) -> Floats:
    """KINDS of correlation in percent within each resample: (len(KINDS), R)."""
    if np.ptp(scores) < CONSTANT or np.ptp(human) < CONSTANT:
        return np.full((len(KINDS), len(counts)), np.nan)
    ranks = resampled_ranks(scores, counts), resampled_ranks(human, counts)
    return 100 * np.stack(
        [
            resampled_pearson(*ranks, counts),
            resampled_pearson(scores, human, counts),
            resampled_kendall(scores, human, counts),
        ]
    )


def bootstrapped(
    scores: dict[str, Floats], human: Floats, resamples: int, seed: int
) -> dict[str, Floats]:
    """Correlations of each metric in the data (column 0) and in its resamples: (kinds, 1 + R)."""
    everything = np.ones((1, len(human)))
    parts = {name: [correlations(values, human, everything)] for name, values in scores.items()}
    for counts in resample_counts(len(human), resamples, seed):
        for name, values in scores.items():
            parts[name].append(correlations(values, human, counts))
    return {name: np.concatenate(found, axis=1) for name, found in parts.items()}


def evaluate_judgements(
    encoders: Mapping[str, RewardEncoder],
    files: Sequence[Judgements],
    alpha: float = SIMILE_ALPHA,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    meteor: Meteor | None = None,
) -> Quality:
    """Correlate every metric with the human scores of each file, and average over the files.

    Intervals are 95% percentile intervals over bootstrap resamples of the segments within each
    file, the same draws for every metric; file k is drawn with seed + k.
    """
    scores = [metric_scores(encoders, part, alpha, meteor) for part in files]
    return correlate(scores, files, resamples, seed)


def correlate(
    scores: Sequence[dict[str, Floats]],
    files: Sequence[Judgements],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
) -> Quality:
    """:func:`evaluate_judgements` of scores that are there already: one dict a file."""
    found = [
        bootstrapped(values, part.human, resamples, seed + number)
        for number, (values, part) in enumerate(zip(scores, files, strict=True))
    ]
    mean = {name: np.mean([part[name] for part in found], axis=0) for name in found[0]}
    return Quality(
        segments={part.path: len(part.human) for part in files},
        files={part.path: _by_kind(values) for part, values in zip(files, found, strict=True)},
        mean=_by_kind(mean),
        difference=_by_kind(differences(mean)),
    )


def differences(mean: Mapping[str, Floats]) -> dict[str, Floats]:
    """Ours (SIM, SIMILE, LEARNED) minus every other metric, and minus the encoders before it."""
    ours = [name for name in mean if name.startswith(("SIM", "LEARNED"))]
    theirs = [name for name in mean if name not in ours]
    pairs = [(name, other) for name in ours for other in theirs]
    pairs += [
        (name, other)
        for number, name in enumerate(ours)
        for other in ours[:number]
        if name.split()[0] == other.split()[0]
    ]
    return {f"{name} - {other}": mean[name] - mean[other] for name, other in pairs}


def _by_kind(values: Mapping[str, Floats]) -> dict[str, dict[str, Estimate]]:
    """Metric -> (kinds, 1 + R), turned into kind -> metric -> estimate."""
    return {
        kind: {name: estimate(rows[number]) for name, rows in values.items()}
        for number, kind in enumerate(KINDS)
    }


def estimate(values: Floats) -> Estimate:
    """Column 0 with the interval of the others, as far as they are defined."""
    resampled = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or not len(resampled):
        return Estimate(float(values[0]), math.nan, math.nan)
    around = interval(resampled)
    return Estimate(float(values[0]), around.low, around.high)

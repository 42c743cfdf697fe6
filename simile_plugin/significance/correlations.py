"""Correlation of a metric with people, and how sure it is: scipy.stats over bootstrap resamples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simile_plugin.significance.resampling import Floats, interval, resample_counts

KINDS = ("spearman", "pearson", "kendall")
CONSTANT = 1e-7  # cosines come from float32: what varies less than its rounding is constant


@dataclass(frozen=True)
class Estimate:
    """A correlation in percent with its 95% bootstrap interval; NaN where it is not defined."""

    value: float
    low: float
    high: float


def correlation(kind: str, x: Floats, y: Floats) -> Floats:
    """Spearman, Pearson or Kendall (tau-b) correlation in [-1, 1] over the last axis, by scipy.

    Args:
        kind: one of KINDS.
        x, y: (..., n), n >= 2, of one shape.

    Returns:
        (...); NaN where a side varies by less than CONSTANT.
    """
    from scipy import stats

    constant = np.minimum(np.ptp(x, axis=-1), np.ptp(y, axis=-1)) < CONSTANT
    if kind == "spearman":
        x, y = stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        if kind == "kendall":
            # The p-value is not used; its exact form would cost most of the time.
            found = stats.kendalltau(x, y, axis=-1, method="asymptotic").statistic
        else:
            found = stats.pearsonr(x, y, axis=-1).statistic
    return np.where(constant, np.nan, found)


def pearson(x: Floats, y: Floats) -> float:
    """Return the Pearson correlation of two (n,); NaN if a side is constant."""
    return float(correlation("pearson", x, y))


def spearman(x: Floats, y: Floats) -> float:
    """Return the Spearman correlation of two (n,), Pearson of the ranks; NaN if one is constant."""
    return float(correlation("spearman", x, y))


def resampled_pearson(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Compute Pearson of (n,) and (n,) within each of R resamples, as one matrix product.

    Weighted moments of centred values: ten times as fast as scipy on the resamples written out.

    Args:
        counts: (R, n), how often each pair is in resample r.

    Returns:
        (R,); NaN where a side varies by less than CONSTANT.
    """
    spread = [np.abs(side - side.mean()).max() for side in (x, y)]
    if min(spread) < CONSTANT / 2:
        return np.full(len(counts), np.nan)
    x, y = ((side - side.mean()) / most for side, most in zip((x, y), spread, strict=True))
    moments = counts @ np.stack([x, y, x * x, y * y, x * y], axis=1) / counts.sum(1, keepdims=True)
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = moments.T
    variances = np.stack([mean_xx - mean_x**2, mean_yy - mean_y**2])
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (mean_xy - mean_x * mean_y) / np.sqrt(variances.prod(axis=0))
    # A resample that drew one value only has a variance of rounding.
    return np.where(variances.min(axis=0) > 1e-14, found.clip(-1, 1), np.nan)


def bootstrap_correlations(
    scores: Mapping[str, Floats],
    human: Floats,
    resamples: int,
    seed: int,
    kinds: Sequence[str] = KINDS,
) -> dict[str, Floats]:
    """Correlate each metric with people, in percent, in the data (column 0) and its resamples.

    Args:
        scores: metric -> (n,).
        human: (n,).

    Returns:
        metric -> (kinds, 1 + R), the same draws for every metric; NaN as in `correlation`.
    """
    n = len(human)
    parts = {
        name: [np.array([[correlation(kind, values, human)] for kind in kinds])]
        for name, values in scores.items()
    }
    for counts in resample_counts(n, resamples, seed):
        everyone = np.tile(np.arange(n), len(counts))
        drawn = np.repeat(everyone, counts.astype(np.int64).ravel()).reshape(-1, n)
        for name, values in scores.items():
            rows = [
                resampled_pearson(values, human, counts)
                if kind == "pearson"
                else correlation(kind, values[drawn], human[drawn])
                for kind in kinds
            ]
            parts[name].append(np.stack(rows))
    return {name: 100 * np.concatenate(found, axis=1) for name, found in parts.items()}


def estimate(values: Floats) -> Estimate:
    """Return column 0 of (1 + R,) with the 95% interval of the others, as far as defined."""
    resampled = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or not len(resampled):
        return Estimate(float(values[0]), math.nan, math.nan)
    around = interval(resampled)
    return Estimate(float(values[0]), around.low, around.high)

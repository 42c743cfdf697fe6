"""Does a metric see meaning? Correlation with human similarity of sentence pairs (Table 65)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation.judgements import CONSTANT, Estimate, differences, estimate
from simile_plugin.evaluation.meteor import Meteor
from simile_plugin.evaluation.sentence_metrics import Floats, encoder_scores, surface_scores
from simile_plugin.evaluation.sts import StsScores, StsSet, correlate_sts
from simile_plugin.reward import SIMILE_ALPHA
from simile_plugin.statistics import BOOTSTRAP_RESAMPLES, SEED, resample_counts


@dataclass(frozen=True)
class StsFolder:
    """One folder (year): its pairs, and metric -> correlations and interval of the mean Pearson."""

    folder: str
    pairs: int
    scores: dict[str, StsScores]
    estimates: dict[str, Estimate]


@dataclass(frozen=True)
class StsQuality:
    """Correlations with human similarity, in percent.

    Attributes:
        mean: metric -> unweighted mean over the folders of their mean Pearson.
        difference: "SIM - BLEU" and its like -> difference of these means, by the same resamples.
    """

    folders: tuple[StsFolder, ...]
    mean: dict[str, Estimate]
    difference: dict[str, Estimate]


def resampled_correlations(scores: Floats, gold: Floats, counts: Floats) -> Floats:
    """Pearson correlation of M metrics with gold, in percent, within each of R resamples.

    Weighted moments of centred values, so that all resamples are one matrix product.

    Args:
        scores: (M, n).
        gold: (n,).
        counts: (R, n), how often each pair is in resample r.

    Returns:
        (M, R); NaN where a side is constant.
    """
    x = scores - scores.mean(axis=1, keepdims=True)
    y = (gold - gold.mean())[None]
    total = counts.sum(axis=1)
    sum_x, sum_y, sum_xx, sum_yy, sum_xy = (
        values @ counts.T / total for values in (x, y, x * x, y * y, x * y)
    )
    product = (sum_xx - sum_x**2) * (sum_yy - sum_y**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(product > 0, (sum_xy - sum_x * sum_y) / np.sqrt(product), np.nan)
    found[np.abs(x).max(axis=1) < CONSTANT] = np.nan
    return 100 * found


def evaluate_sts_metrics(
    encoders: Mapping[str, RewardEncoder],
    folders: Mapping[str, Sequence[StsSet]],
    alpha: float = SIMILE_ALPHA,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    meteor: Meteor | None = None,
) -> StsQuality:
    """Correlate SIM, SIMILE and surface metrics, one way and symmetric, with gold scores.

    Intervals are 95% percentile intervals over bootstrap resamples of the pairs within each set,
    the same draws for every metric; set k of all is drawn with seed + k.
    """
    found, resampled, number = [], [], 0
    for folder, sets in folders.items():
        scores = [_set_scores(encoders, part, alpha, meteor) for part in sets]
        names = list(scores[0])
        draws = []
        for part, values in zip(sets, scores, strict=True):
            stacked = np.stack([values[name] for name in names])
            draws.append(_bootstrapped(stacked, part.gold, resamples, seed + number))
            number += 1
        rows = dict(zip(names, np.mean(draws, axis=0), strict=True))
        by_metric = {
            name: correlate_sts(folder, sets, [values[name] for values in scores]) for name in names
        }
        pairs = sum(len(part.gold) for part in sets)
        estimates = {name: estimate(values) for name, values in rows.items()}
        found.append(StsFolder(folder, pairs, by_metric, estimates))
        resampled.append(rows)
    mean = {name: np.mean([rows[name] for rows in resampled], axis=0) for name in resampled[0]}
    return StsQuality(
        tuple(found),
        {name: estimate(values) for name, values in mean.items()},
        {name: estimate(values) for name, values in differences(mean).items()},
    )


def _set_scores(
    encoders: Mapping[str, RewardEncoder], part: StsSet, alpha: float, meteor: Meteor | None
) -> dict[str, Floats]:
    similar = encoder_scores(encoders, part.left, part.right, alpha)
    return similar | surface_scores(part.left, part.right, meteor, both=True)


def _bootstrapped(scores: Floats, gold: Floats, resamples: int, seed: int) -> Floats:
    """Correlations in the data (column 0) and in its resamples: (M, 1 + R)."""
    parts = [resampled_correlations(scores, gold, np.ones((1, len(gold))))]
    for counts in resample_counts(len(gold), resamples, seed):
        parts.append(resampled_correlations(scores, gold, counts))
    return np.concatenate(parts, axis=1)

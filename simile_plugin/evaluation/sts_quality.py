"""Correlation of metrics with human similarity of sentence pairs (Table 65)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simile_plugin.evaluation.sentence_metrics import (
    Metrics,
    check_direction,
    differences,
    surface_scores,
)
from simile_plugin.evaluation.sts import HIGHEST, StsScores, StsSet, correlate_sts
from simile_plugin.files import InputError
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    SEED,
    Estimate,
    Floats,
    bootstrap_correlations,
    estimate,
)


@dataclass(frozen=True)
class StsFolder:
    """A folder (year): its pairs, and metric -> correlations and interval of the mean Pearson."""

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


def evaluate_sts_metrics(
    metrics: Metrics,
    folders: Mapping[str, Sequence[StsSet]],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
) -> StsQuality:
    """Correlate SIM, SIMILE and surface metrics, one way and symmetric, with gold scores.

    Intervals are 95% percentile intervals over bootstrap resamples of the pairs within each set,
    the same draws for every metric; set k of all is drawn with seed + k.

    Raises:
        InputError: for no folder, and for gold scores of which low ones are good
            (:func:`check_direction`).
    """
    if not folders or not all(folders.values()):
        raise InputError("got no STS set, expected one or more of each folder")
    results, resampled, number = [], [], 0
    for folder, sets in folders.items():
        by_metric, scores = correlate_metrics(metrics, folder, sets)
        draws = []
        for part, values in zip(sets, scores, strict=True):
            kinds = ("pearson",)
            draws.append(bootstrap_correlations(values, part.gold, resamples, seed + number, kinds))
            number += 1
        rows = {name: np.mean([draw[name][0] for draw in draws], axis=0) for name in by_metric}
        pairs = sum(len(part.gold) for part in sets)
        estimates = {name: estimate(values) for name, values in rows.items()}
        results.append(StsFolder(folder, pairs, by_metric, estimates))
        resampled.append(rows)
    mean = {name: np.mean([rows[name] for rows in resampled], axis=0) for name in resampled[0]}
    return StsQuality(
        tuple(results),
        {name: estimate(values) for name, values in mean.items()},
        {name: estimate(values) for name, values in differences(mean).items()},
    )


def correlate_metrics(
    metrics: Metrics, folder: str, sets: Sequence[StsSet]
) -> tuple[dict[str, StsScores], list[dict[str, Floats]]]:
    """Return each metric's correlations on the sets of a folder, and its scores (n,) set by set.

    Without the learned reward, which is fitted to judgements of translations.
    """
    metrics = replace(metrics, learned=None)
    scores = [
        metrics.of_encoders(part.left, part.right)
        | metrics.of_surface(part.left, part.right, both=True)
        for part in sets
    ]
    for part, values in zip(sets, scores, strict=True):
        check_direction(values, part.gold, f"--sts: {folder}: {part.name}", highest=HIGHEST)
    correlations = {
        name: correlate_sts(folder, sets, [values[name] for values in scores]) for name in scores[0]
    }
    return correlations, scores


def check_sts(sets: Sequence[StsSet], where: str) -> None:
    """Raise InputError where low gold scores are good, judged by BLEU and chrF alone."""
    for part in sets:
        scores = surface_scores(part.left, part.right)
        check_direction(scores, part.gold, f"{where}: {part.name}", highest=HIGHEST)

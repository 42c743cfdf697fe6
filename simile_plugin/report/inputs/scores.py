"""Sentence statistics of every output, made once by the reward that training uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np
import torch

from simile_plugin.files import InputError
from simile_plugin.nbest import NbestList, references
from simile_plugin.report.inputs.systems import System
from simile_plugin.reward import (
    ListScores,
    Scorer,
    chrf_statistics,
    corpus_bleu,
    corpus_chrf,
)
from simile_plugin.significance import Floats, SentenceStatistics, mean_statistics

LENGTH_RATIO = "length_ratio"


def score_all(
    systems: Sequence[System],
    refs: Sequence[str],
    scorer: Scorer,
    progress: Callable[[int], object] | None = None,
) -> ListScores:
    """Score every sentence of every output: a column for each seed of each system.

    progress: called with the number of sentences just scored.

    Raises:
        InputError: if a score is not finite.
    """
    outputs = [output for system in systems for output in system.outputs]
    scores = scorer.outputs(outputs, refs, progress=progress)
    if scores.simile is not None and not torch.isfinite(scores.simile).all():
        sentence, output = (~torch.isfinite(scores.simile)).nonzero()[0].tolist()
        path = [path for system in systems for path in system.files][output]
        raise InputError(
            f"{path}:{sentence + 1}: SIMILE is not a finite number; check the encoder by simile "
            "eval-encoder"
        )
    return scores


def score_candidates(
    lists: Sequence[NbestList],
    scorer: Scorer,
    srcs: Sequence[str] | None = None,
    progress: Callable[[int], object] | None = None,
) -> ListScores:
    """Score every candidate of n-best lists by chrF, too; lists are padded with empty strings.

    Args:
        srcs: a source for each list, where the learned reward reads them.
        progress: called with the number of lists just scored.
    """
    outputs = list(zip_longest(*(found.hyps for found in lists), fillvalue=""))
    return scorer.outputs(outputs, references(lists, "--nbest-lists"), srcs, 0, progress)


def score_systems(
    systems: Sequence[System], refs: Sequence[str], scores: ListScores, chrf: bool = True
) -> list[dict[str, SentenceStatistics]]:
    """Return the statistics of every sentence of every output, a dict a system.

    They are bleu, with an encoder sim and simile, with the package's learned, too, chrf if asked
    for, and length_ratio, on the scales of the table (percent, but for the ratio).

    scores: what `score_all` gave for these systems.
    """
    outputs = [output for system in systems for output in system.outputs]
    chrf_counts = chrf_statistics(outputs, refs) if chrf else None
    metrics = []
    first = 0
    for system in systems:
        seeds = slice(first, first + len(system.outputs))
        first = seeds.stop
        own = _statistics(scores, seeds)
        if chrf_counts is not None:
            own["chrf"] = SentenceStatistics(chrf_counts[seeds], corpus_chrf)
        metrics.append(own)
    return metrics


def _statistics(scores: ListScores, seeds: slice) -> dict[str, SentenceStatistics]:
    # (B, S, 10) -> (S, B, 10); counts of one sentence fit 32 bits
    stats = scores.bleu_stats[:, seeds].transpose(0, 1).to(torch.int32).numpy()
    statistics = {"bleu": SentenceStatistics(stats, bleu_of_sums)}
    named = {"sim": scores.sim, "simile": scores.simile, "learned": scores.learned}
    for name, values in named.items():
        if values is not None:
            statistics[name] = mean_statistics(100 * values[:, seeds].T.double().numpy())
    statistics[LENGTH_RATIO] = SentenceStatistics(stats[..., :2], _ratio_of_sums)
    return statistics


def bleu_of_sums(sums: Floats) -> Floats:
    """Return corpus BLEU in percent of sums of its statistics (..., 10)."""
    return corpus_bleu(torch.from_numpy(sums)).numpy()


def _ratio_of_sums(sums: Floats) -> Floats:
    return sums[..., 0] / np.maximum(sums[..., 1], 1)

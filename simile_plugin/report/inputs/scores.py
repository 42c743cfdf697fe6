"""Sentence statistics of every output, made once by the reward that training uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from simile_plugin.files import InputError
from simile_plugin.nbest import NbestList, references
from simile_plugin.report.inputs.systems import System
from simile_plugin.reward import (
    SIMILE_ALPHA,
    ListScores,
    chrf_statistics,
    corpus_bleu,
    corpus_chrf,
    score_outputs,
)
from simile_plugin.significance import Floats, SentenceStatistics, mean_statistics

if TYPE_CHECKING:
    from simile_plugin.encoder import RewardEncoder

LENGTH_RATIO = "length_ratio"


@dataclass(frozen=True)
class ScoreSettings:
    """How outputs are scored.

    Attributes:
        encoder: for SIM and SIMILE; without it BLEU and chrF alone are computed.
        alpha: exponent of SIMILE's length penalty (the paper: 0.25).
        tokenize: sacreBLEU tokeniser of BLEU.
    """

    encoder: RewardEncoder | None = None
    alpha: float = SIMILE_ALPHA
    tokenize: str = "13a"


def score_all(
    systems: Sequence[System],
    refs: Sequence[str],
    settings: ScoreSettings,
    progress: Callable[[int], object] | None = None,
) -> ListScores:
    """Score every sentence of every output, by `reward.score_outputs`.

    Args:
        progress: called with the number of sentences just scored.

    Returns:
        Scores with a column for each seed of each system.

    Raises:
        InputError: if a score is not finite.
    """
    outputs = [output for system in systems for output in system.outputs]
    scores = score_outputs(
        outputs, refs, settings.encoder, settings.alpha, settings.tokenize, progress
    )
    _check_finite(scores, [path for system in systems for path in system.files])
    return scores


def score_candidates(
    lists: Sequence[NbestList],
    settings: ScoreSettings,
    progress: Callable[[int], object] | None = None,
    **more: Any,
) -> ListScores:
    """Score every candidate of n-best lists, by `reward.score_outputs`.

    Args:
        progress: called with the number of lists just scored.
        more: other arguments of `reward.score_outputs`.

    Returns:
        Scores of the lists, padded with empty strings to the longest.
    """
    outputs = list(zip_longest(*(found.hyps for found in lists), fillvalue=""))
    alike = settings.encoder, settings.alpha, settings.tokenize
    return score_outputs(outputs, references(lists, "--nbest-lists"), *alike, progress, **more)


def score_systems(
    systems: Sequence[System], refs: Sequence[str], scores: ListScores, chrf: bool = True
) -> list[dict[str, SentenceStatistics]]:
    """Statistics of every sentence of every output.

    Args:
        scores: what `score_all` gave for these systems.
        chrf: compute it too.

    Returns:
        A dict a system: bleu, with an encoder sim and simile, chrf and length_ratio, on the scales
        of the table (percent, but for the ratio).
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
    found = {"bleu": SentenceStatistics(stats, bleu_of_sums)}
    for name, values in (("sim", scores.sim), ("simile", scores.simile)):
        if values is not None:
            found[name] = mean_statistics(100 * values[:, seeds].T.double().numpy())
    found[LENGTH_RATIO] = SentenceStatistics(stats[..., :2], _ratio_of_sums)
    return found


def bleu_of_sums(sums: Floats) -> Floats:
    """Corpus BLEU in percent of sums of its statistics (..., 10)."""
    return corpus_bleu(torch.from_numpy(sums)).numpy()


def _ratio_of_sums(sums: Floats) -> Floats:
    return sums[..., 0] / np.maximum(sums[..., 1], 1)


def _check_finite(scores: ListScores, files: Sequence[str]) -> None:
    if scores.simile is None:
        return
    bad = (~torch.isfinite(scores.simile)).nonzero()
    if len(bad):
        sentence, output = bad[0].tolist()
        raise InputError(
            f"{files[output]}:{sentence + 1}: SIMILE is not a finite number; "
            "check the encoder by simile eval-encoder"
        )

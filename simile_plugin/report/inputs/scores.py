"""Sentence statistics of every output by the scorer of training, also at another's length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np
import torch

from simile_plugin.files import InputError
from simile_plugin.nbest import NbestList, references
from simile_plugin.report.inputs.texts import System
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
    outputs = list(zip_longest(*(candidates.hyps for candidates in lists), fillvalue=""))
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
        of_system = _statistics(scores, seeds)
        if chrf_counts is not None:
            of_system["chrf"] = SentenceStatistics(chrf_counts[seeds], corpus_chrf)
        metrics.append(of_system)
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


def brevity_penalty(hyp: Floats, ref: Floats) -> Floats:
    """Return BLEU's brevity penalty of numbers of tokens: exp(1 - ref / hyp), at most 1."""
    return np.exp(np.minimum(0, 1 - ref / np.maximum(hyp, 1)))


def at_the_others_length(
    metric: str,
    own: SentenceStatistics,
    other: SentenceStatistics,
    own_lengths: SentenceStatistics,
    other_lengths: SentenceStatistics,
) -> SentenceStatistics:
    """Return what a system would score were its outputs as long as another's, and as good.

    BLEU: its own precisions, the other's brevity penalty. chrF: its own precisions of characters,
    of as many n-grams as the other has, so that recall is what they give. A mean of sentences (SIM,
    SIMILE, a judge): the other's score plus the intercept of the regression of the sentences'
    differences on their differences in length, (|h| - |h'|) / |r| in tokens.

    Args:
        own, other: statistics of the metric; of several seeds of the other, their mean counts.
        own_lengths, other_lengths: tokens of outputs and references, (S, N, 2).
    """
    values, theirs = own.values.astype(np.float64), other.values.mean(axis=0, keepdims=True)
    width = values.shape[-1]

    def beside(columns: Floats) -> Floats:
        repeated = np.broadcast_to(columns, (len(values), *columns.shape[1:]))
        return np.concatenate([values, repeated], axis=2)

    def bleu(sums: Floats) -> Floats:
        hyp, ref, hyp_of_other = sums[..., 0], sums[..., 1], sums[..., width]
        penalties = brevity_penalty(hyp_of_other, ref), brevity_penalty(hyp, ref)
        return bleu_of_sums(sums[..., :width]) * penalties[0] / np.maximum(penalties[1], 1e-300)

    def chrf(sums: Floats) -> Floats:
        hyp, ref, both = (sums[..., first:width:3] for first in range(3))
        count = sums[..., width:]
        level = np.stack([count, ref, both * count / np.maximum(hyp, 1)], axis=-1)
        return corpus_chrf(level.reshape(*level.shape[:-2], width))

    def mean(sums: Floats) -> Floats:
        n, base, d, x, xx, xd = (sums[..., i] for i in range(6))
        spread = n * xx - x * x
        slope = np.divide(n * xd - x * d, spread, out=np.zeros_like(n), where=spread > 1e-9)
        return (base + d - slope * x) / n

    if metric == "bleu":
        return SentenceStatistics(beside(theirs[..., :1]), bleu)
    if metric == "chrf":
        return SentenceStatistics(beside(theirs[..., ::3]), chrf)
    lengths = own_lengths.values[..., 0] - other_lengths.values[..., 0].mean(axis=0)
    x = lengths / np.maximum(own_lengths.values[..., 1], 1)
    d = values[..., 0] - theirs[..., 0]
    base = np.broadcast_to(theirs[..., 0], d.shape)
    return SentenceStatistics(np.stack([np.ones_like(d), base, d, x, x * x, x * d], axis=2), mean)

"""The log of an update: sums over its sentences, their means, the seconds of its phases."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simile_plugin.encoder import split_words
from simile_plugin.reward import chrf_statistics, corpus_bleu, corpus_chrf, repetition
from simile_plugin.risk.distribution import (
    FiniteRows,
    cost_without_members,
    entropy,
    expected_cost,
    masked_std,
)
from simile_plugin.risk.length_control import length_slope
from simile_plugin.risk.list_reward import Judged

OF_REFERENCES = ("cost_simile", "cost_bleu", "sim", "simile")
SENTENCE_MEANS = (
    "cost",
    *OF_REFERENCES,
    "candidates",
    "distinct",
    "entropy_q",
    "reward_std",
    "zero_std",
    "nonfinite",
    "empty",
    "repetition",
)
PHASES = ("generation", "text", "reward", "scoring", "backward")


class Stopwatch:
    """Seconds of the phases of one update, by the host's clock; a phase within another counts
    for itself alone.

    A GPU works on while the host is ahead of it: what is still running is counted in the phase
    that first waits for a result.
    """

    now: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        start, others = self.now(), sum(self.seconds.values())
        try:
            yield
        finally:
            within = sum(self.seconds.values()) - others
            self.seconds[name] += self.now() - start - within


@dataclass(frozen=True)
class Scored(FiniteRows):
    """The values of B sentences, without gradient.

    Attributes:
        distribution: (B, 1 + N) Q.
        risk: (B,) expected costs.
        nll: (B,) negative log-likelihood of the references, in nats.
        loss: (B,) of each sentence.
    """

    distribution: Tensor
    risk: Tensor
    nll: Tensor
    loss: Tensor

    @classmethod
    def cat(cls, parts: list[Scored]) -> Scored:
        """Return the sentences of several portions, in order."""
        names = vars(parts[0])
        return cls(**{name: torch.cat([vars(part)[name] for part in parts]) for name in names})


def sums_over_sentences(
    scored: Scored, judged: Judged, lengths: Tensor, chrf: bool = False
) -> dict[str, Any]:
    """Add up what is logged of a batch; the same keys on every rank.

    Args:
        lengths: (B,) tokens of the references; 0 where there is none.
        chrf: count for chrF, too.
    """
    hyps, scores = judged.hyps, judged.scores
    members, q, device = scored.members, scored.distribution, scored.loss.device
    deviation = masked_std(scored.reward, members)
    there = lengths > 0
    worst = cost_without_members(members)
    words = scores.bleu_stats.to(device)
    covariance, variance = length_slope(q, 1 - scored.reward, judged.lengths.to(q))
    sums = {
        "loss": torch.where(scored.references, scored.loss, 0.0).sum(),
        "nonfinite": scored.dropped.sum(),
        "unscored": (~scored.references).sum(),
        "empty": (~members.any(-1)).sum(),
        "nll_loss": scored.nll.sum(),
        "ntokens": (lengths * scored.references).sum(),
        "nsentences": len(lengths),
        "references": there.sum(),
        "sample_size": len(lengths),
        "cost": scored.risk.sum(),
        "distinct": distinct_share(hyps),
        "entropy_q": entropy(q).sum(),
        "reward_std": deviation.sum(),
        "zero_std": (deviation <= 1e-6).sum(),
        "candidates": members.sum(),
        "cost_bleu": (there * (expected_cost(q, 1 - scores.bleu.to(device)) + worst)).sum(),
        "bleu_stats": (there[:, None] * words[:, 1]).sum(0),
        "length_covariance": covariance.sum(),
        "length_variance": variance.sum(),
        "expected_words": (there * expected_cost(q, words[..., 0].to(q))).sum(),
        "words": (words[:, 0, 1] * members.any(-1)).sum(),
        "repetition": repetition([split_words(row[1]) for row in hyps]),
    }
    if scores.simile is not None and scores.sim is not None:
        simile, sim = scores.simile.to(device), scores.sim.to(device)
        sums["cost_simile"] = (there * (expected_cost(q, 1 - simile) + worst)).sum()
        sums["sim"], sums["simile"] = (there * sim[:, 1]).sum(), (there * simile[:, 1]).sum()
    if chrf:
        counts = chrf_statistics([[row[1] for row in hyps]], [row[0] for row in hyps])
        sums["chrf_stats"] = torch.from_numpy(counts.sum((0, 1)))
    return sums


def distinct_share(hyps: list[list[str]]) -> float:
    """Return the sum over sentences of the share of distinct strings among their candidates."""
    return float(sum(len(set(row[1:])) / max(1, len(row) - 1) for row in hyps))


def on_host(values: dict[str, Any]) -> dict[str, Any]:
    """Return numbers and tensors by name, the tensors on the CPU: in one copy, and one wait."""
    tensors = {k: v for k, v in values.items() if isinstance(v, Tensor) and v.device.type != "cpu"}
    if not tensors:
        return values
    copy = torch.cat([value.flatten().double() for value in tensors.values()]).cpu()
    parts = copy.split([value.numel() for value in tensors.values()])
    pairs = zip(tensors.items(), parts, strict=True)
    return values | {name: part.view(v.shape).to(v.dtype) for (name, v), part in pairs}


def weighted_means(total: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the means of summed logging outputs by name, and what each is weighted by.

    Costs and rewards are in 0 to 1, sim and simile in 0 to 100, nll_loss in bits. What needs an
    encoder is left out where there is none.
    """
    sentences, tokens = float(total["nsentences"]), float(total["ntokens"])
    # What has no finite reference has no weight; where none has, the loss is infinite.
    scored = sentences - float(total["unscored"])
    bits = total["nll_loss"] / tokens / math.log(2) if tokens else math.inf
    means = {
        "loss": (total["loss"] / scored if scored else math.inf, scored),
        "nll_loss": (bits, tokens),
    }
    for name in SENTENCE_MEANS:
        if name in total:
            scale = 100 if name in ("sim", "simile") else 1
            of = float(total["references"]) if name in OF_REFERENCES else sentences
            means[name] = (scale * total[name] / max(of, 1.0), of)
    return means


def length_ratio(stats: Tensor) -> Tensor:
    """Return the words of the best candidates over those of the references."""
    return stats[0] / stats[1].clamp(min=1)


# What is computed of counts summed over a corpus: the counts' name and number, of what, digits.
CORPUS_METRICS: dict[str, tuple[str, int, Callable[[Tensor], Any], int]] = {
    "bleu": ("bleu_stats", 10, corpus_bleu, 2),  # of the best candidates, 0 to 100
    "length_ratio": ("bleu_stats", 10, length_ratio, 4),
    "chrf": ("chrf_stats", 18, lambda stats: corpus_chrf(stats.numpy()), 2),  # of a validation
}

"""What an update logs, and what fairseq makes of it: sums over sentences, then means and totals."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.utils import get_perplexity
from torch import Tensor

from simile_plugin import risk
from simile_plugin.reward import ListScores, corpus_bleu

SENTENCE_MEANS = (
    "cost",
    "cost_simile",
    "cost_bleu",
    "sim",
    "simile",
    "candidates",
    "distinct",
    "entropy_q",
    "reward_std",
    "zero_std",
    "nonfinite",
    "empty",
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
class Scored(risk.FiniteRows):
    """What was computed of some sentences, without gradient; B of them.

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
        """The sentences of several portions, in order."""
        names = vars(parts[0])
        return cls(**{name: torch.cat([vars(part)[name] for part in parts]) for name in names})


def sums_over_sentences(
    scored: Scored, hyps: list[list[str]], scores: ListScores, lengths: Tensor
) -> dict[str, Any]:
    """The logging output of a batch but for its times; the same keys on every rank.

    Args:
        hyps: B lists of 1 + N strings, the reference first; ``scores``: theirs.
        lengths: (B,) tokens of the references.
    """
    members, q, device = scored.members, scored.distribution, scored.loss.device
    deviation = risk.masked_std(scored.reward, members)
    worst = risk.cost_without_members(members).sum()
    words = scores.bleu_stats.to(device)
    relative = risk.relative_length(words[..., 0], words[:, 0, 1])
    covariance, variance = risk.length_slope(q, 1 - scored.reward, relative.to(q))
    sums = {
        "loss": torch.where(scored.references, scored.loss, 0.0).sum(),
        "nonfinite": scored.dropped.sum(),
        "unscored": (~scored.references).sum(),
        "empty": (~members.any(-1)).sum(),
        "nll_loss": scored.nll.sum(),
        "ntokens": (lengths * scored.references).sum(),
        "nsentences": len(lengths),
        "sample_size": len(lengths),
        "cost": scored.risk.sum(),
        "distinct": distinct_share(hyps),
        "entropy_q": risk.entropy(q).sum(),
        "reward_std": deviation.sum(),
        "zero_std": (deviation <= 1e-6).sum(),
        "candidates": members.sum(),
        "cost_bleu": risk.expected_cost(q, 1 - scores.bleu.to(device)).sum() + worst,
        "bleu_stats": words[:, 1].sum(0),
        "length_covariance": covariance.sum(),
        "length_variance": variance.sum(),
        "expected_words": risk.expected_cost(q, words[..., 0].to(q)).sum(),
        "words": (words[:, 0, 1] * members.any(-1)).sum(),
        **repeated_bigrams(hyps),
    }
    if scores.simile is not None and scores.sim is not None:
        simile, sim = scores.simile.to(device), scores.sim.to(device)
        sums["cost_simile"] = risk.expected_cost(q, 1 - simile).sum() + worst
        sums["sim"], sums["simile"] = sim[:, 1].sum(), simile[:, 1].sum()
    return sums


def distinct_share(hyps: list[list[str]]) -> float:
    """Sum over sentences of the share of distinct strings among the generated candidates."""
    return float(sum(len(set(row[1:])) / max(1, len(row) - 1) for row in hyps))


def repeated_bigrams(hyps: list[list[str]]) -> dict[str, float]:
    """Bigrams of the best candidates, and those that their sentence has said before."""
    words = [row[1].split() for row in hyps]
    total = sum(max(0, len(sentence) - 1) for sentence in words)
    distinct = sum(len(set(pairwise(sentence))) for sentence in words)
    return {"bigrams": float(total), "repeated_bigrams": float(total - distinct)}


def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
    """Turn summed logging outputs into fairseq's metrics; costs and rewards stay in [0, 1]."""
    total = on_host(
        {
            key: sum(log[key] for log in logging_outputs if key in log)
            for key in {key for log in logging_outputs for key in log}
        }
    )
    sentences, tokens = total.get("nsentences", 0), total.get("ntokens", 0)
    if not sentences:
        return
    # What has no finite reference has no weight; where none has, the loss is infinite.
    scored = sentences - total.get("unscored", 0)
    loss = total["loss"] / scored if scored else math.inf
    metrics.log_scalar("loss", loss, scored, round=4)
    bits = total["nll_loss"] / tokens / math.log(2) if tokens else math.inf
    metrics.log_scalar("nll_loss", bits, tokens, round=3)
    metrics.log_derived("ppl", lambda meters: get_perplexity(meters["nll_loss"].avg))
    for key in SENTENCE_MEANS:
        if key in total:
            scale = 100 if key in ("sim", "simile") else 1
            value = scale * total[key] / sentences
            metrics.log_scalar(key, value, sentences, round=2 if scale == 100 else 4)
    # Meters sum what they are given; BLEU and the length ratio come from the summed counts.
    metrics.log_scalar("_bleu_stats", total["bleu_stats"].double().cpu())
    metrics.log_derived("bleu", lambda meters: bleu_of_meter(meters["_bleu_stats"]))
    metrics.log_derived("length_ratio", lambda meters: ratio_of_meter(meters["_bleu_stats"]))
    metrics.log_scalar("length_multiplier", total["length_multiplier"] / sentences, round=4)
    share = total["repeated_bigrams"] / max(1.0, float(total["bigrams"]))
    metrics.log_scalar("repetition", float(share), float(total["bigrams"]), round=4)
    for phase in PHASES:  # the time of a device, also where several share the batch
        seconds = total.get(f"seconds_{phase}", 0.0)
        metrics.log_scalar(f"ms_{phase}", 1000 * seconds / sentences, sentences, round=2)
    metrics.log_speed("sents_s", sentences, round=1)
    metrics.log_speed("hyps_s", float(total["candidates"]), round=0)
    metrics.log_derived("peak_gb", lambda _: round(peak_gigabytes(), 2))


def on_host(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers and tensors by name, with the tensors on the CPU: one copy for all of them."""
    tensors = {k: v for k, v in values.items() if isinstance(v, Tensor) and v.device.type != "cpu"}
    if not tensors:
        return values
    copy = torch.cat([value.flatten().double() for value in tensors.values()]).cpu()
    parts = copy.split([value.numel() for value in tensors.values()])
    pairs = zip(tensors.items(), parts, strict=True)
    return values | {name: part.view(v.shape).to(v.dtype) for (name, v), part in pairs}


def bleu_of_meter(meter: Any) -> float:
    """Corpus BLEU of the top candidates, 0 to 100."""
    return round(float(corpus_bleu(torch.as_tensor(meter.sum))), 2)


def ratio_of_meter(meter: Any) -> float:
    """Words of the top candidates over words of the references."""
    stats = torch.as_tensor(meter.sum)
    return round(float(stats[0] / stats[1].clamp(min=1)), 4)


def peak_gigabytes() -> float:
    """Largest memory so far, in 10^9 bytes: of the GPU's tensors, or of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # KiB on Linux

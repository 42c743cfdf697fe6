"""fairseq's metrics of the sums that an update logs: means and totals."""

from __future__ import annotations

import functools
import resource
from collections.abc import Callable
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.utils import get_perplexity
from torch import Tensor

from simile_plugin.risk import CORPUS_METRICS, PHASES, on_host, weighted_means


def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
    """Turn summed logging outputs into fairseq's metrics; costs and rewards stay in [0, 1]."""
    total = on_host(
        {
            key: sum(log[key] for log in logging_outputs if key in log)
            for key in {key for log in logging_outputs for key in log}
        }
    )
    sentences = total.get("nsentences", 0)
    if not sentences:
        return
    for key, (value, weight) in weighted_means(total).items():
        digits = {"nll_loss": 3, "sim": 2, "simile": 2}.get(key, 4)
        metrics.log_scalar(key, value, weight, round=digits)
    metrics.log_derived("ppl", lambda meters: get_perplexity(meters["nll_loss"].avg))
    # Meters sum what they are given; BLEU, chrF and the length ratio come from summed counts.
    for counts in {counts for counts, *_ in CORPUS_METRICS.values()} & total.keys():
        metrics.log_scalar(f"_{counts}", total[counts].double().cpu())
    for key, (counts, _, of, digits) in CORPUS_METRICS.items():
        if counts in total:
            metrics.log_derived(key, functools.partial(_of_stats, counts, of, digits))
    metrics.log_scalar("length_multiplier", total["length_multiplier"] / sentences, round=4)
    for phase in PHASES:  # the time of a device, also where several share the batch
        seconds = total.get(f"seconds_{phase}", 0.0)
        metrics.log_scalar(f"ms_{phase}", 1000 * seconds / sentences, sentences, round=2)
    metrics.log_speed("sents_s", sentences, round=1)
    metrics.log_speed("hyps_s", float(total["candidates"]), round=0)
    metrics.log_derived("peak_gb", lambda _: round(peak_gigabytes(), 2))


def _of_stats(counts: str, of: Callable[[Tensor], Any], digits: int, meters: Any) -> float:
    return round(float(of(torch.as_tensor(meters[f"_{counts}"].sum))), digits)


_peak = 0  # most bytes of the GPU's tensors so far


def note_memory() -> None:
    """Keep the GPU's most memory so far: fairseq resets it at each update, before it logs."""
    global _peak
    _peak = max(_peak, torch.cuda.max_memory_allocated())  # 0 where no GPU is in use


def peak_gigabytes() -> float:
    """Return the largest memory so far, in 10^9 bytes: of the GPU's tensors, or of this process."""
    note_memory()
    if _peak:
        return _peak / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # KiB on Linux

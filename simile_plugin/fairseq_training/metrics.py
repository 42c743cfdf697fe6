"""What fairseq makes of the sums that an update logs: means and totals."""

from __future__ import annotations

import math
import resource
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.utils import get_perplexity

from simile_plugin.reward import corpus_bleu
from simile_plugin.risk import PHASES, SENTENCE_MEANS, on_host


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
    for phase in PHASES:  # the time of a device, also where several share the batch
        seconds = total.get(f"seconds_{phase}", 0.0)
        metrics.log_scalar(f"ms_{phase}", 1000 * seconds / sentences, sentences, round=2)
    metrics.log_speed("sents_s", sentences, round=1)
    metrics.log_speed("hyps_s", float(total["candidates"]), round=0)
    metrics.log_derived("peak_gb", lambda _: round(peak_gigabytes(), 2))


def bleu_of_meter(meter: Any) -> float:
    """Corpus BLEU of the top candidates, 0 to 100."""
    return round(float(corpus_bleu(torch.as_tensor(meter.sum))), 2)


def ratio_of_meter(meter: Any) -> float:
    """Words of the top candidates over words of the references."""
    stats = torch.as_tensor(meter.sum)
    return round(float(stats[0] / stats[1].clamp(min=1)), 4)


_peak = 0  # most bytes of the GPU's tensors so far


def note_memory() -> None:
    """Keep the GPU's most memory so far: fairseq resets it at each update, before it logs."""
    global _peak
    _peak = max(_peak, torch.cuda.max_memory_allocated())  # 0 where no GPU is in use


def peak_gigabytes() -> float:
    """Largest memory so far, in 10^9 bytes: of the GPU's tensors, or of this process."""
    note_memory()
    if _peak:
        return _peak / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # KiB on Linux

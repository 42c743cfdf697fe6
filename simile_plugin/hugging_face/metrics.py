"""Sums over sentences of several batches and processes -> the metrics that fairseq's side logs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from simile_plugin.risk import (
    CORPUS_METRICS,
    LENGTH_SUMS,
    SENTENCE_MEANS,
    on_host,
    weighted_means,
)

COUNTS = {counts: size for counts, size, *_ in CORPUS_METRICS.values()}
NAMES = (
    *("loss", "unscored", "nll_loss", "ntokens", "nsentences", *SENTENCE_MEANS, *LENGTH_SUMS),
    *("length_multiplier", "similarity", "updates", "skipped", "references"),
)


class Sums:
    """Sums of fixed names, so that every process adds up the same."""

    def __init__(self) -> None:
        self.values = torch.zeros(len(NAMES) + sum(COUNTS.values()), dtype=torch.float64)

    def add(self, sums: dict[str, Any]) -> None:
        """Add the sums of a batch (risk.sums_over_sentences)."""
        sums = on_host(sums)
        numbers = [float(sums.get(name, 0.0)) for name in NAMES]
        parts = [sums.get(name, torch.zeros(size)).double() for name, size in COUNTS.items()]
        self.values += torch.cat([torch.tensor(numbers, dtype=torch.float64), *parts])

    def total(self, accelerator: Any) -> dict[str, float | Tensor]:
        """Return the sums over all processes; every one of them must call it."""
        values = self.values.to(accelerator.device)
        found = accelerator.reduce(values, reduction="sum").cpu()
        numbers = dict(zip(NAMES, found.tolist(), strict=False))
        parts = found[len(NAMES) :].split([*COUNTS.values()])
        return {**numbers, **dict(zip(COUNTS, parts, strict=True))}


def metrics_of(total: dict[str, Any]) -> dict[str, float]:
    """Means and totals of summed logging outputs; costs and rewards stay in [0, 1].

    Returns:
        the names of fairseq's log: nll_loss in bits, sim, simile and bleu in 0 to 100; without
        those that need an encoder where there is none. Empty without sentences.
    """
    sentences = total["nsentences"]
    if not sentences:
        return {}
    found = {name: value for name, (value, _) in weighted_means(total).items()}
    if not total["similarity"]:
        found = {k: v for k, v in found.items() if k not in ("sim", "simile", "cost_simile")}
    found["ppl"] = 2 ** min(found["nll_loss"], 1000.0)
    for name, (counts, _, of, _) in CORPUS_METRICS.items():
        if total[counts].any() or counts != "chrf_stats":  # only a validation counts for chrF
            found[name] = float(of(total[counts]))
    found["length_multiplier"] = total["length_multiplier"] / sentences
    if total["updates"]:
        found["skipped"] = total["skipped"] / total["updates"]
    return {name: round(float(value), 6) for name, value in found.items()}

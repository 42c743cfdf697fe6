"""The fairseq criterion ``bgt``: the negative lower bound, its KL annealed, and translation."""

# No "from __future__ import annotations": fairseq reads the types of __init__ at run time.
import math
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor, nn

from simile_plugin.contrib.bgt.elbo import kl_to_prior, kl_weight, sentence_nll
from simile_plugin.contrib.bgt.model import SIDES, BgtModel, flag
from simile_plugin.files import InputError
from simile_plugin.risk import unwrap


@dataclass
class BgtCriterionConfig(FairseqDataclass):
    """Flags of ``--criterion bgt``."""

    kl_anneal_updates: int = flag(
        2**16, "updates in which the KL term's weight grows from 0 to 1 (paper: 2^16)"
    )
    translation_weight: float = flag(
        1.0, "of the translation loss beside the lower bound (paper: 1)"
    )
    label_smoothing: float = flag(0.1, "epsilon of the translation loss (paper: 0.1)")


@register_criterion("bgt", dataclass=BgtCriterionConfig)
class BgtCriterion(FairseqCriterion):
    """L = -E log p(x_1, x_2 | z) + w KL(q || p) + translation_weight L_translation, a pair.

    ``sample_size`` is the number of pairs, so that the KL of a pair is weighed against its own
    log-probability, whatever the flags of fairseq. In validation w is 1: its loss can be compared
    between updates.

    Raises:
        InputError: for flags that cannot work, naming the flag, its value and what is expected.
    """

    def __init__(self, cfg: BgtCriterionConfig, task: Any) -> None:
        super().__init__(task)
        for name, value in (
            ("kl-anneal-updates", cfg.kl_anneal_updates),
            ("translation-weight", cfg.translation_weight),
        ):
            if not 0 <= value < math.inf:
                raise InputError(f"--{name}: got {value}, expected 0 or more")
        if not 0 <= (smoothing := cfg.label_smoothing) < 1:
            raise InputError(f"--label-smoothing: got {smoothing}, expected at least 0, below 1")
        self.cfg = cfg

    def forward(
        self, model: nn.Module, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Loss of a batch, summed over its pairs.

        Returns:
            loss, sample_size (number of pairs), logging_output (sums over pairs).
        """
        plain = unwrap(model)
        if not isinstance(plain, BgtModel):
            raise InputError(f"--arch: got a {type(plain).__name__}, expected bgt")
        cfg, sides = self.cfg, (sample["net_input"]["src_tokens"], sample["target"])
        written = model(*sides, translate=cfg.translation_weight > 0)
        pad, pairs = plain.pad, len(sides[0])
        log: dict[str, Any] = {"nsentences": pairs, "sample_size": pairs}
        log["ntokens"] = sample["ntokens"]
        bound = sides[0].new_zeros(pairs, dtype=torch.float32)
        for side, logits in written.generation:
            nll = sentence_nll(logits, sides[side], pad)
            bound = bound + nll
            log[f"nll_{SIDES[side]}"] = nll.sum().detach()
        kl = bound.new_zeros(pairs)
        for name, posterior in written.posteriors:
            found = kl_to_prior(posterior)
            kl = kl + found
            log[f"kl_{name}"] = log.get(f"kl_{name}", 0.0) + found.sum().detach()
        weight = kl_weight(plain.updates, cfg.kl_anneal_updates) if model.training else 1.0
        loss = (bound + weight * kl).sum()
        if written.generation:
            log["elbo"] = -(bound + kl).sum().detach()
            log["kl_weight"] = weight * pairs
        if written.translation:
            parts = [
                sentence_nll(logits, sides[side], pad, cfg.label_smoothing)
                for side, logits in written.translation
            ]
            translation = torch.stack(parts).sum()
            log["translation"] = translation.detach()
            # Where there is nothing else to learn from, its weight would be the learning rate's.
            loss = loss + (cfg.translation_weight if written.generation else 1.0) * translation
        log["loss"] = loss.detach()
        return loss, pairs, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log means over pairs, in nats."""
        pairs = sum(log["nsentences"] for log in logging_outputs)
        names = {name for log in logging_outputs for name in log}
        for name in sorted(names - {"nsentences", "sample_size", "ntokens"}):
            total = sum(float(log.get(name, 0.0)) for log in logging_outputs)
            metrics.log_scalar(name, total / pairs, pairs, round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Allow fairseq to add logging outputs up before they are reduced."""
        return True

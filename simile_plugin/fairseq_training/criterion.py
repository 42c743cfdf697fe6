"""The fairseq criterion ``simile_risk``: minimum risk training with a semantic reward."""

# No "from __future__ import annotations": fairseq reads the types of __init__ at run time.
from dataclasses import replace
from typing import Any

from fairseq.criterions import FairseqCriterion, register_criterion
from torch import Tensor, nn

from simile_plugin import risk
from simile_plugin.encoder import keep_freed_memory
from simile_plugin.fairseq_training.config import (
    BEYOND_BLEU,
    SimileRiskConfig,
    check_task,
    read_config,
    settings_of,
)
from simile_plugin.fairseq_training.decoders import check_model
from simile_plugin.fairseq_training.metrics import note_memory, reduce_metrics
from simile_plugin.fairseq_training.monolingual import mix_in
from simile_plugin.fairseq_training.translator import Batch, FairseqTranslator


@register_criterion("simile_risk", dataclass=SimileRiskConfig)
class SimileRiskCriterion(FairseqCriterion):
    """L = gamma L_TokLS + (1 - gamma) L_Risk over n-best lists (Wieting et al. 2019, eq. 1).

    Both terms are averages over sentences: L_TokLS of a sentence is its label-smoothed negative
    log-likelihood a token, L_Risk its expected cost. A sentence's loss so does not depend on its
    batch, and ``sample_size`` is the number of sentences.

    Nothing with parameters hangs in this module: fairseq's trainer would halve, optimise and save
    it, and would refuse to start from an MLE checkpoint.

    Raises:
        InputError: for flags that cannot work, naming the flag.
    """

    def __init__(self, cfg: SimileRiskConfig, task: Any) -> None:
        super().__init__(task)
        self.cfg = cfg = read_config(cfg)
        check_task(task)
        keep_freed_memory()
        self.eval_bleu = bool(getattr(settings_of(task), "eval_bleu", False))
        compat = cfg.risk_compat == BEYOND_BLEU
        self.objective_of_lists = risk.Objective.of(cfg)
        if compat:
            self.objective_of_lists = replace(
                self.objective_of_lists,
                cost_scale=100.0,
                normalize=True,
                beyond_bleu=True,
            )
        self.translator = FairseqTranslator(cfg, task)
        self.reward = risk.ListReward(cfg, cfg.seed)
        if cfg.risk_monolingual:
            self.reward.refuse_missing_references("--risk-monolingual")
            mix_in(task, cfg.risk_monolingual, cfg.risk_monolingual_share)
        self.clock = risk.Stopwatch()
        self.portions = risk.Portions(cfg.risk_max_tokens)
        self.length_control = risk.LengthControl(0.0 if compat else cfg.risk_length_control)
        self.max_skipped, self.length_band = cfg.risk_max_skipped, cfg.risk_length_band

    def objective(self) -> dict[str, str]:
        """Return what is optimised, by flag."""
        return self.reward.optimised(self.cfg, SimileRiskConfig)

    def forward(
        self, model: nn.Module, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Compute the loss of a batch, summed over its sentences.

        Returns:
            loss, sample_size (number of sentences), logging_output (sums over sentences).
        """
        check_model(model, self.eval_bleu)
        self.clock = risk.Stopwatch()
        update = risk.risk_update(
            self.translator,
            model,
            Batch(sample),
            reward=self.reward,
            objective=self.objective_of_lists,
            length_control=self.length_control,
            portions=self.portions,
            clock=self.clock,
            training=self.training,
        )
        return update.loss, len(sample["target"]), update.sums

    def before_update(self) -> None:
        """Note the memory that an update's forward and backward passes took."""
        note_memory()

    def after_update(self, logging_outputs: list[dict[str, Any]]) -> None:
        """Adapt what length costs to an update's sums; the same on every rank."""
        names = risk.LENGTH_SUMS
        sums = {name: sum(log[name] for log in logging_outputs) for name in names}
        self.length_control.update(risk.on_host(sums))

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Turn summed logging outputs into fairseq's metrics."""
        reduce_metrics(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: every rank logs the same keys with the same shapes."""
        return True

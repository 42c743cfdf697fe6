"""Settings of SimileRiskTrainer: those of fairseq's criterion beside those of Seq2SeqTrainer."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import Seq2SeqTrainingArguments

from simile_plugin.files import InputError
from simile_plugin.reward import check_tokenizer
from simile_plugin.risk import RiskSettings, check_settings

# Metrics of a validation that are not named a loss, of which transformers would keep the greatest;
# with several validation sets they are named eval_SET_cost.
LESS_IS_BETTER = ("cost", "cost_bleu", "cost_simile", "ppl", "repetition")


@dataclass
class SimileRiskArguments(RiskSettings, Seq2SeqTrainingArguments):
    """Names, defaults and meanings of the risk settings are those of ``--criterion simile_risk``.

    Candidates of a training are made of ``target_pieces``, over which probabilities are normalised;
    a validation has the whole vocabulary. Validations begin before the first update
    (``eval_on_start``).

    Raises:
        InputError: for a setting that cannot work, naming the flag.
    """

    eval_on_start: bool = field(
        default=True, metadata={"help": "validate before the first update, if at all"}
    )
    greater_is_better: bool | None = field(
        default=None,
        metadata={"help": "of --metric-for-best-model (default: not of losses and costs)"},
    )

    target_pieces: str = field(
        default="auto",
        metadata={"help": "pieces of the target language: auto, all, or a FILE with one a line"},
    )

    def __post_init__(self) -> None:
        check_settings(self)
        check_tokenizer(self.risk_bleu_tokenize, "--risk-bleu-tokenize")
        if self.label_smoothing_factor:
            raise InputError(
                f"--label-smoothing-factor: got {self.label_smoothing_factor}, expected 0; give "
                "--label-smoothing instead"
            )
        name = f"_{self.metric_for_best_model or ''}"
        less = name.endswith(tuple(f"_{metric}" for metric in LESS_IS_BETTER))
        if self.greater_is_better is None and less:
            self.greater_is_better = False
        try:
            super().__post_init__()
        except ValueError as error:
            raise InputError(" ".join(str(error).split())) from error
        if self.fp16 and self.device.type == "cpu":
            raise InputError(
                "--fp16: there is no GPU here, and a CPU cannot; expected --bf16, or neither"
            )
        if (self.gradient_checkpointing_kwargs or {}).get("use_reentrant"):
            raise InputError(
                "--gradient-checkpointing-kwargs: got use_reentrant true, which is not supported; "
                "expected use_reentrant false"
            )
        if self.eval_strategy == "no":
            self.eval_on_start = False

"""Flags of ``--criterion simile_risk``: one dataclass, and what is refused before training."""

# No "from __future__ import annotations": fairseq reads the config's types at run time.
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from simile_plugin.files import InputError
from simile_plugin.reward import SIMILE_ALPHA, check_tokenizer

logger = logging.getLogger(__name__)

BEYOND_BLEU = "beyond-bleu"


@dataclass
class SimileRiskConfig(FairseqDataclass):
    """Flags of ``--criterion simile_risk``."""

    reward: str = field(
        default="simile",
        metadata={
            "help": "reward of a candidate in [0, 1]; the cost is 1 - reward: simile, bleu "
            "(sentence BLEU, +1 on orders 2 to 4), chrf, chrf++ (sacreBLEU's), sim, half (the "
            "paper's half/half), learned:DIR (made by simile fit-reward), a mix such as "
            "simile:0.7,bleu:0.3 or learned:DIR:0.5,bleu:0.5, or your own module:function, "
            "called with hypotheses (B lists of N strings), references and sources, returning "
            "B x N numbers"
        },
    )
    simile_encoder: Optional[str] = field(  # noqa: UP045 (fairseq cannot read str | None)
        default=None,
        metadata={"help": "folder of the reward encoder (made by simile train-encoder)"},
    )
    simile_alpha: float = field(
        default=SIMILE_ALPHA,
        metadata={"help": "exponent of SIMILE's length penalty (paper: 0.25)"},
    )
    mle_weight: float = field(
        default=0.3,
        metadata={
            "help": "gamma in L = gamma L_TokLS + (1 - gamma) L_Risk, from 0 (risk only) to 1 "
            "(paper: 0.2, 0.3 or 0.4, chosen on validation); its meaning depends on "
            "--risk-cost-scale"
        },
    )
    label_smoothing: float = field(
        default=0.1, metadata={"help": "label smoothing of L_TokLS (paper: 0.1)"}
    )
    risk_candidates: int = field(
        default=8, metadata={"help": "N, candidates a sentence (paper: 8)"}
    )
    risk_search: ChoiceEnum(["beam", "sampling"]) = field(  # type: ignore[valid-type]
        default="beam",
        metadata={"help": "candidates from beam search (paper) or by ancestral sampling"},
    )
    risk_diverse_groups: int = field(
        default=1,
        metadata={
            "help": "diverse beam search in so many groups, which must divide --risk-candidates "
            "(1: plain beam search)"
        },
    )
    risk_diverse_strength: float = field(
        default=0.5,
        metadata={"help": "what a token costs that an earlier group took, in nats"},
    )
    risk_generation_dtype: ChoiceEnum(["model", "bf16", "fp16"]) = field(  # type: ignore[valid-type]
        default="model",
        metadata={
            "help": "make the candidates with a copy of the model in half precision: faster where "
            "the hardware has it, and the lists may differ from the model's own; scoring, risk "
            "and gradient stay as they are"
        },
    )
    risk_sampling_topk: int = field(
        default=-1, metadata={"help": "sample from the k likeliest tokens only (-1: all)"}
    )
    risk_sampling_topp: float = field(
        default=-1.0,
        metadata={"help": "sample from the smallest set with this probability mass (-1: all)"},
    )
    risk_temperature: float = field(
        default=1.0, metadata={"help": "temperature of the generator's softmax"}
    )
    risk_lenpen: float = field(
        default=1.0,
        metadata={"help": "beam search's length penalty exponent (not SIMILE's length penalty)"},
    )
    risk_max_len_a: float = field(
        default=1.5,
        metadata={"help": "candidates have at most a * source length + b tokens: a (paper: 1.5)"},
    )
    risk_max_len_b: int = field(
        default=10, metadata={"help": "b of the same bound, in tokens (paper: 5)"}
    )
    risk_include_reference: bool = field(
        default=False,
        metadata={"help": "put the reference into the risk set (paper: no)"},
    )
    risk_keep_duplicates: bool = field(
        default=False,
        metadata={"help": "keep candidates whose tokens repeat in a list (they count twice in Q)"},
    )
    risk_alpha: float = field(
        default=1.0,
        metadata={"help": "sharpness of Q = softmax(risk_alpha * score)"},
    )
    risk_score: ChoiceEnum(["sum", "mean"]) = field(  # type: ignore[valid-type]
        default="sum",
        metadata={
            "help": "model score of a candidate inside Q: its log-probability, summed over the "
            "tokens or divided by their number"
        },
    )
    risk_cost_scale: float = field(
        default=10.0,
        metadata={
            "help": "factor on the cost in [0, 1] inside the loss; logged costs stay in [0, 1]. "
            "It and gamma balance risk and token loss together: at 1 the risk hardly moves the "
            "model, at 100 the reward is gamed (recipes/multi30k/README.md has the figures)"
        },
    )
    risk_max_tokens: int = field(
        default=0,
        metadata={
            "help": "score at most this many target tokens (candidates x longest candidate) at "
            "once, with the gradient of as many sentences as fit in between: bounds memory, also "
            "where --batch-size is large for the sake of the generation (0: all at once, less "
            "after memory ran out)"
        },
    )
    risk_compat: ChoiceEnum(["none", BEYOND_BLEU]) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "beyond-bleu: the objective of the code released with the paper, for "
            "comparison: costs 0 to 100, Q = softmax(exp(mean log p)), token loss divided by the "
            "batch's tokens; overrides --risk-score, --risk-alpha and --risk-cost-scale"
        },
    )
    risk_post_process: ChoiceEnum(  # type: ignore[valid-type]
        ["auto", "sentencepiece", "subword_nmt", "none"]
    ) = field(
        default="auto",
        metadata={"help": "how target tokens join to words; auto reads it off the dictionary"},
    )
    risk_detok: ChoiceEnum(["none", "moses"]) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "moses: undo Moses tokenisation before scoring (needs sacremoses)"},
    )
    risk_bleu_tokenize: str = field(
        default="13a",
        metadata={"help": "sacreBLEU tokeniser of the BLEU reward and of validation BLEU"},
    )
    risk_max_skipped: int = field(
        default=10,
        metadata={
            "help": "an update with a NaN or infinite gradient is skipped (counted as skipped); "
            "more than this many in a row stop training (0: stop at the first, as fairseq does; "
            "with --fp16 and --amp the loss scale decides)"
        },
    )
    risk_length_control: float = field(
        default=1.0,
        metadata={
            "help": "how firmly the expected length of the candidates is held where the MLE model "
            "has it: factor on the cost of length, which is at most what the reward pays for "
            "length within n-best lists and is adapted at each update (0: off, as in the paper)"
        },
    )
    risk_length_band: float = field(
        default=1.5,
        metadata={
            "help": "stop when two validations in a row have a lower cost than the first one, but "
            "also a lower BLEU and a length ratio more than this factor above the larger, or below "
            "the smaller, of 1 and the first one's: the reward is being gamed (0: never)"
        },
    )
    risk_dump: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "append the n-best lists of validations before the first update to this file, "
            "with their costs, one JSON object a line (simile report --only costs reads it)"
        },
    )


Range = tuple[Callable[[Any], bool], str]
AT_LEAST_0: Range = (lambda x: x >= 0, "0 or more")
ABOVE_0: Range = (lambda x: x > 0, "a number above 0")
RANGES: dict[str, Range] = {
    "simile_alpha": (lambda x: x >= 0, "a number from 0"),
    "mle_weight": (lambda x: 0 <= x <= 1, "a number from 0 to 1"),
    "label_smoothing": (lambda x: 0 <= x < 1, "a number from 0 to below 1"),
    "risk_candidates": (lambda x: x >= 1, "at least 1"),
    "risk_diverse_strength": AT_LEAST_0,
    "risk_sampling_topk": (lambda x: x == -1 or x >= 1, "-1 (all) or at least 1"),
    "risk_sampling_topp": (lambda x: x == -1 or 0 < x <= 1, "-1 (all) or a mass above 0, up to 1"),
    "risk_temperature": ABOVE_0,
    "risk_max_len_a": AT_LEAST_0,
    "risk_alpha": ABOVE_0,
    "risk_cost_scale": ABOVE_0,
    "risk_max_tokens": AT_LEAST_0,
    "risk_max_skipped": AT_LEAST_0,
    "risk_length_control": AT_LEAST_0,
    "risk_length_band": (lambda x: x == 0 or x > 1, "0 or a number above 1"),
}


def flag(name: str) -> str:
    """risk_alpha -> --risk-alpha."""
    return f"--{name.replace('_', '-')}"


def read_config(given: Any) -> SimileRiskConfig:
    """fairseq's configuration as a plain dataclass, whose choices are strings, and checked.

    Raises:
        InputError: for a value that cannot work, naming the flag, its value and the range.
    """
    values = {f.name: getattr(given, f.name) for f in fields(SimileRiskConfig)}
    values = {name: str(v) if isinstance(v, Enum) else v for name, v in values.items()}
    cfg = SimileRiskConfig(**values)
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{flag(name)}: got {value}, expected a finite number")
        valid, expected = RANGES.get(name, (lambda _: True, ""))
        if not valid(value):
            raise InputError(f"{flag(name)}: got {value}, expected {expected}")
    _check_search(cfg)
    check_tokenizer(cfg.risk_bleu_tokenize, "--risk-bleu-tokenize")
    if cfg.risk_compat == BEYOND_BLEU:
        _warn_of_compat(cfg)
    return cfg


def _check_search(cfg: SimileRiskConfig) -> None:
    groups, sampling = cfg.risk_diverse_groups, cfg.risk_search == "sampling"
    if groups < 1 or cfg.risk_candidates % groups or (groups > 1 and sampling):
        raise InputError(
            f"--risk-diverse-groups: got {groups}, expected a divisor of --risk-candidates "
            f"{cfg.risk_candidates}, with --risk-search beam"
        )
    topk, topp = cfg.risk_sampling_topk, cfg.risk_sampling_topp
    if (topk, topp) != (-1, -1.0) and not sampling:
        raise InputError(
            "--risk-sampling-topk, --risk-sampling-topp: given with --risk-search beam; expected "
            "--risk-search sampling"
        )
    if topk > 0 and topp > 0:
        raise InputError(
            f"--risk-sampling-topk: got {topk} together with --risk-sampling-topp {topp}; expected "
            "one of them"
        )


def _warn_of_compat(cfg: SimileRiskConfig) -> None:
    """Say what the objective of the released code takes no notice of, or never computed."""
    default = SimileRiskConfig()
    for name in ("risk_score", "risk_alpha", "risk_cost_scale"):
        if (value := getattr(cfg, name)) != getattr(default, name):
            logger.warning(f"{flag(name)} {value}: ignored beside --risk-compat {BEYOND_BLEU}")
    if cfg.reward not in ("simile", "sim", "bleu"):
        logger.warning(
            f"--reward {cfg.reward}: used for the cost, but the code that --risk-compat "
            f"{BEYOND_BLEU} follows trains on simile, sim or bleu alone: its mixed cost cannot run"
        )


def check_task(task: Any) -> None:
    """Refuse tasks without a source and a target side, and left-padded targets.

    Raises:
        InputError: naming the task or the flag.
    """
    if getattr(task, "source_dictionary", None) is None or task.target_dictionary is None:
        raise InputError(
            f"--task {type(task).__name__}: has no source and target dictionary; expected a "
            "translation task over a folder made by fairseq-preprocess"
        )
    if getattr(task.cfg, "left_pad_target", False):
        raise InputError("--left-pad-target: got True, expected False (fairseq's default)")

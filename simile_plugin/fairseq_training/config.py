"""Flags of ``--criterion simile_risk``: one dataclass, and what is refused before training."""

# No "from __future__ import annotations": fairseq reads the config's types at run time.
import logging
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from simile_plugin.files import InputError, flag_name
from simile_plugin.reward import check_tokenizer
from simile_plugin.risk import RiskSettings, check_settings

logger = logging.getLogger(__name__)

BEYOND_BLEU = "beyond-bleu"


SHARED = RiskSettings.__dataclass_fields__


@dataclass
class SimileRiskConfig(RiskSettings, FairseqDataclass):
    """Flags of ``--criterion simile_risk``: those of every trainer, and fairseq's own."""

    risk_search: ChoiceEnum(["beam", "sampling"]) = field(  # type: ignore[valid-type]
        default=SHARED["risk_search"].default, metadata=SHARED["risk_search"].metadata
    )
    risk_score: ChoiceEnum(["sum", "mean"]) = field(  # type: ignore[valid-type]
        default=SHARED["risk_score"].default, metadata=SHARED["risk_score"].metadata
    )
    risk_compat: ChoiceEnum(["none", BEYOND_BLEU]) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "beyond-bleu: the objective of the code released with the paper, for "
            "comparison: costs 0 to 100, Q = softmax(exp(mean log p)), token loss divided by the "
            "batch's tokens; overrides --risk-score, --risk-alpha, --risk-cost-scale and "
            "--risk-length-control"
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
        metadata={
            "help": "moses: undo Moses tokenisation before scoring, of the sources too (needs "
            "sacremoses)"
        },
    )
    risk_monolingual: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "FOLDER/NAME of sources without references, NAME.SRC-TGT.SRC.bin of "
            "fairseq-preprocess --only-source --srcdict: their risk is trained on beside the "
            "bitext, by a --reward that reads no reference (source, or your own function, which "
            "gets an empty one)"
        },
    )
    risk_monolingual_share: float = field(
        default=0.5,
        metadata={
            "help": "above 0 and below 1: share of these sources among the sentences of an epoch, "
            "which has all of the bitext once; the likelihood's weight in an update falls by as "
            "much",
        },
    )
    # The trainer's, no flags of their own.
    seed: int = "${common.seed}"  # type: ignore[assignment]


def read_config(given: Any) -> SimileRiskConfig:
    """fairseq's configuration as a plain dataclass, whose choices are strings, and checked.

    Raises:
        InputError: for a value that cannot work, naming the flag, its value and the range.
    """
    values = {f.name: getattr(given, f.name) for f in fields(SimileRiskConfig)}
    values = {name: str(v) if isinstance(v, Enum) else v for name, v in values.items()}
    cfg = SimileRiskConfig(**values)
    check_settings(cfg)
    check_tokenizer(cfg.risk_bleu_tokenize, "--risk-bleu-tokenize")
    if cfg.risk_compat == BEYOND_BLEU:
        _warn_of_compat(cfg)
    return cfg


def _warn_of_compat(cfg: SimileRiskConfig) -> None:
    """Say what the objective of the released code takes no notice of, or never computed."""
    default = SimileRiskConfig()
    ignored = ("risk_score", "risk_alpha", "risk_cost_scale", "risk_length_control")
    for name in ignored:
        if (value := getattr(cfg, name)) != getattr(default, name):
            logger.warning(f"{flag_name(name)} {value}: ignored beside --risk-compat {BEYOND_BLEU}")
    if cfg.reward not in ("simile", "sim", "bleu"):
        logger.warning(
            f"--reward {cfg.reward}: used for the cost, but the code that --risk-compat "
            f"{BEYOND_BLEU} follows trains on simile, sim or bleu alone: its mixed cost cannot run"
        )


def settings_of(task: Any) -> Any:
    """Return a task's settings: fairseq's older tasks have ``args``, and a ``cfg`` of None."""
    cfg = getattr(task, "cfg", None)
    return getattr(task, "args", None) if cfg is None else cfg


def check_task(task: Any) -> None:
    """Refuse tasks without a source and a target side, and targets that our search cannot make.

    Raises:
        InputError: naming the task or the flag.
    """
    settings = settings_of(task)
    if getattr(task, "source_dictionary", None) is None or task.target_dictionary is None:
        name = getattr(settings, "_name", None) or getattr(settings, "task", type(task).__name__)
        raise InputError(
            f"--task {name}: has no source and target dictionary; expected a "
            "translation task over a folder made by fairseq-preprocess"
        )
    if getattr(settings, "eval_bleu", False):
        logger.warning(
            "--eval-bleu: costs a second search and is not logged: bleu is that of the "
            "criterion's own best candidates; leave it out"
        )
    if getattr(settings, "left_pad_target", False):
        raise InputError("--left-pad-target: got True, expected False (fairseq's default)")
    langtoks = (getattr(settings, "langtoks", None) or {}).values()
    tagged = getattr(settings, "decoder_langtok", False) or any(tag for _, tag in langtoks)
    # multilingual_translation lacks the flag: there a tag always stands in the place of eos
    if tagged and not getattr(settings, "lang_tok_replacing_bos_eos", True):
        raise InputError(
            "--decoder-langtok, --langtoks: targets begin with a language's tag, which would be "
            "scored as a word; expected --lang-tok-replacing-bos-eos beside it"
        )
    # A task names one dictionary a side, by which every language would be read.
    sides = (task.source_dictionary, task.target_dictionary)
    dictionaries = getattr(task, "dicts", {})
    for pair in getattr(task, "lang_pairs", ()):
        for language, read_by in zip(pair.split("-"), sides, strict=True):
            if dictionaries.get(language, read_by) != read_by:
                raise InputError(
                    f"--lang-pairs: got {pair}, and dict.{language}.txt is another dictionary than "
                    "the first language's; expected one for all (fairseq-preprocess --srcdict, "
                    "--tgtdict), or --task translation"
                )

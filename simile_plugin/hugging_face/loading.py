"""Models, tokenizers and sentence pairs from files, and the checkpoints of a run."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch.utils.data import ConcatDataset, Dataset, Subset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedConfig
from transformers.trainer import TRAINER_STATE_NAME
from transformers.utils import ADAPTER_CONFIG_NAME, CONFIG_NAME

from simile_plugin.files import InputError, file_warning, read_parallel
from simile_plugin.hugging_face.models import special_tokens
from simile_plugin.hugging_face.state import RiskState
from simile_plugin.hugging_face.text import Pairs
from simile_plugin.reward import warnings_of_text

logger = logging.getLogger(__name__)

# What tokenizers, files, broken weights and those of another config raise.
UNREADABLE = (
    *(OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError),
    *(SafetensorError, pickle.UnpicklingError),
)


def load(
    name: str, source_lang: str | None = None, target_lang: str | None = None
) -> tuple[Any, Any]:
    """Return a model and its tokenizer.

    Args:
        name: a local folder, or the name of a model on the hub.
        source_lang, target_lang: codes of the tokenizer, where it has several.

    Raises:
        InputError: where one of them is missing, or the model is no encoder-decoder.
    """
    folder = Path(name)
    if (folder / ADAPTER_CONFIG_NAME).is_file() and not (folder / CONFIG_NAME).is_file():
        raise InputError(
            f"MODEL: {name} has adapters alone; expected a whole model: the folder above it, "
            "where finetune-hf wrote both, or what peft's AutoPeftModelForSeq2SeqLM"
            ".from_pretrained(...).merge_and_unload().save_pretrained(...) writes"
        )
    if not _config(name).get("is_encoder_decoder", False):
        raise InputError(
            f"MODEL: {name} has no encoder; expected an encoder-decoder (Marian, M2M-100, "
            "mBART, T5, ...)"
        )
    _check_tokenizer(Path(name))
    if (source_lang is None) != (target_lang is None):
        raise InputError("--source-lang, --target-lang: got one of them; expected both, or neither")
    languages = {"src_lang": source_lang, "tgt_lang": target_lang}
    given = {name: code for name, code in languages.items() if code is not None}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **given)
        # A model that was saved in half precision trains in single, as any other: AdamW's steps
        # are too small for half, and --fp16 and --bf16 want single.
        model = AutoModelForSeq2SeqLM.from_pretrained(name, dtype=torch.float32)
    except UNREADABLE as error:
        asked = f" with --source-lang {source_lang} --target-lang {target_lang}"
        raise InputError(
            f"MODEL: {name} cannot be loaded{asked if given else ''}: {_line(error)}; "
            "expected config.json, weights and tokenizer as save_pretrained wrote them, whole and "
            "not git-lfs' pointers to them"
        ) from error
    special_tokens(model, tokenizer)
    if given and not hasattr(tokenizer, "tgt_lang"):
        raise InputError(
            f"--source-lang, --target-lang: the tokenizer of {name} has no languages; leave "
            "them out (T5 needs --prefix, and a Marian model of several target languages its tag: "
            "--prefix '>>fra<< ')"
        )
    return model, tokenizer


def _config(model: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    folder = Path(model)
    of_hub = not folder.is_absolute() and not model.startswith(".") and len(folder.parts) <= 2
    if not of_hub and not folder.is_dir():
        raise InputError(
            f"MODEL: {model} is no model (no such folder); expected a folder that save_pretrained "
            "wrote, or a name on the hub such as Helsinki-NLP/opus-mt-de-en"
        )
    reason = "it has no config.json"
    try:
        found = PreTrainedConfig.get_config_dict(model)[0]
    except (OSError, ValueError) as error:
        reason = _line(error)
    if not found:
        raise InputError(
            f"MODEL: {model} is no model ({reason}); expected a folder that save_pretrained wrote, "
            "or a name on the hub, which takes a network"
        )
    return found


def _check_tokenizer(folder: Path) -> None:
    """Refuse a folder without a tokenizer, for which transformers may make an empty one."""
    names = ("*token*", "*vocab*", "*.spm", "*.model")
    if folder.is_dir() and not any(any(folder.glob(name)) for name in names):
        raise InputError(
            f"MODEL: the folder {folder} has no tokenizer; expected that of the model beside it: "
            "save it there by the tokenizer's save_pretrained"
        )


def _line(error: Exception) -> str:
    """Return the first sentence of what transformers says."""
    return " ".join(str(error).split()).partition(". ")[0][:300]


def read_pairs(
    tokenizer: Any, files: Sequence[str], flag: str, length: int, prefix: str = ""
) -> Pairs:
    """Return the pairs of parallel files, or the sources of one.

    Args:
        length: tokens of a source or a target; what is longer is cut.
        prefix: put before every source.

    Raises:
        InputError: for files of different lengths, without a line, or with an empty line.
    """
    sources, *targets = read_parallel([(path, flag) for path in files])
    if not sources:
        raise InputError(f"{flag}: {files[0]} is empty; expected one sentence a line")
    if targets and sources == targets[0]:
        raise InputError(
            f"{flag}: {files[0]} and {files[1]} have the same text; expected sources and their "
            "translations"
        )
    where = [f"{flag}: {path}" for path in files]
    doubts = [file_warning(where[0], sources)]  # a tag or prefix in front of them is no mark
    doubts += [text for side in targets for text in warnings_of_text(where[1], side, srcs=sources)]
    for doubt in filter(None, doubts):
        logger.warning(doubt)
    sources = [prefix + source if source.strip() else source for source in sources]
    missing = [None] * len(sources)
    found = Pairs(tokenizer, sources, targets[0] if targets else missing, length, where)
    cut, seen = found.count_cut()
    if cut:
        logger.warning(
            f"{flag}: {cut} of {seen} lines that were looked at have more than {length} tokens in "
            "the source or the target, and what is longer is cut (--max-length)"
        )
    return found


def mixed(pairs: Pairs, more: Pairs, share: float) -> Dataset[dict[str, list[int]]]:
    """Return sentence pairs and sources without references, these a share of all.

    The pairs come as often as lets nearly all of the others in; of those a random choice, or all
    and some again. So the share is the same in every epoch, and a run can resume.

    Args:
        share: above 0 and below 1.
    """
    times = max(1, round(len(more) * (1 - share) / share / len(pairs)))
    count = max(1, round(times * len(pairs) * share / (1 - share)))
    order = torch.randperm(len(more), generator=torch.Generator().manual_seed(0)).tolist()
    chosen = [order[place % len(order)] for place in range(count)]
    return ConcatDataset([*[pairs] * times, Subset(more, chosen)])


def last_checkpoint(folder: Path) -> str | None:
    """Return the last checkpoint that is whole: its trainer_state.json is what is written last."""
    named = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdecimal()]
    for path in sorted(named, key=lambda path: int(path.name[11:]), reverse=True):
        try:
            json.loads((path / TRAINER_STATE_NAME).read_bytes())
        except (OSError, ValueError):
            logger.warning(f"{path} is not whole, as after a kill; it is passed over")
        else:
            return str(path)
    return None


def _objective_of(checkpoint: str | Path) -> dict[str, str]:
    """Return what the run of a checkpoint optimises, by flag."""
    state = json.loads((Path(checkpoint) / TRAINER_STATE_NAME).read_bytes())
    saved = state.get("stateful_callbacks", {}).get(RiskState.__name__, {})
    found: dict[str, str] = saved.get("attributes", {}).get("objective", {})
    return found


def saved_prefix(folder: str | Path) -> str:
    """Return the --prefix that a folder of finetune-hf was trained with, or ""."""
    try:
        return _objective_of(folder).get("--prefix", "")
    except (OSError, ValueError, AttributeError):
        return ""


def with_adapters(model: Any, name: str, rank: int) -> Any:
    """Return a model with peft's adapters of a rank in all its linear layers.

    They say which model they are of so that they load from any folder.
    """
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(task_type="SEQ_2_SEQ_LM", r=rank, target_modules="all-linear")
    found = get_peft_model(model, settings)
    path = Path(name)
    found.peft_config["default"].base_model_name_or_path = (
        str(path.resolve()) if path.is_dir() else name
    )
    return found

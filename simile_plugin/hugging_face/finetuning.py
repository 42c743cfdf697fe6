"""One fine-tuning from files: the work behind `simile finetune-hf`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch.utils.data import ConcatDataset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedConfig, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils import ADAPTER_CONFIG_NAME, CONFIG_NAME

from simile_plugin.files import InputError, locked_folder, read_parallel
from simile_plugin.hugging_face.arguments import SimileRiskArguments
from simile_plugin.hugging_face.models import positions, special_tokens
from simile_plugin.hugging_face.state import RiskState, Telling
from simile_plugin.hugging_face.text import Pairs
from simile_plugin.hugging_face.trainer import SimileRiskTrainer
from simile_plugin.risk import RunStory

logger = logging.getLogger(__name__)

# What tokenizers, files, broken weights and those of another config raise.
UNREADABLE = (
    *(OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError),
    *(SafetensorError, pickle.UnpicklingError),
)


@dataclass(frozen=True)
class Job:
    """What is fine-tuned on which files.

    Attributes:
        model: a local folder or the name of a model on the hub.
        train, valid: files of sources and targets; no validation without ``valid``.
        monolingual: file of more sources, without references.
        source_lang, target_lang: codes of the tokenizer, where it has several.
        prefix: put before every source (T5).
        max_length: tokens of a source or a target, no more than the model can read or write; what
            is longer is cut.
        lora: rank of peft's adapters; 0 trains the whole model.
    """

    model: str
    train: tuple[str, str]
    valid: tuple[str, str] | None = None
    monolingual: str | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    prefix: str = ""
    max_length: int = 128
    lora: int = 0


def load(job: Job) -> tuple[Any, Any]:
    """Return the model and its tokenizer.

    Raises:
        InputError: where one of them is missing, or the model is no encoder-decoder.
    """
    if not _config(job.model).get("is_encoder_decoder", False):
        raise InputError(
            f"MODEL: {job.model} has no encoder; expected an encoder-decoder (Marian, M2M-100, "
            "mBART, T5, ...)"
        )
    _check_tokenizer(Path(job.model))
    if (job.source_lang is None) != (job.target_lang is None):
        raise InputError("--source-lang, --target-lang: got one of them; expected both, or neither")
    languages = {"src_lang": job.source_lang, "tgt_lang": job.target_lang}
    given = {name: code for name, code in languages.items() if code is not None}
    try:
        tokenizer = AutoTokenizer.from_pretrained(job.model, **given)
        # A model that was saved in half precision trains in single, as any other: AdamW's steps
        # are too small for half, and --fp16 and --bf16 want single.
        model = AutoModelForSeq2SeqLM.from_pretrained(job.model, dtype=torch.float32)
    except UNREADABLE as error:
        asked = f" with --source-lang {job.source_lang} --target-lang {job.target_lang}"
        raise InputError(
            f"MODEL: {job.model} cannot be loaded{asked if given else ''}: {_line(error)}; "
            "expected config.json, weights and tokenizer as save_pretrained wrote them, whole and "
            "not git-lfs' pointers to them"
        ) from error
    special_tokens(model, tokenizer)
    if given and not hasattr(tokenizer, "tgt_lang"):
        raise InputError(
            f"--source-lang, --target-lang: the tokenizer of {job.model} has no languages; leave "
            "them out (T5 needs --prefix)"
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


def read_pairs(job: Job, tokenizer: Any, files: Sequence[str], flag: str, most: float) -> Pairs:
    """Return the pairs of parallel files, or the sources of one.

    Args:
        most: tokens that the model can read or write.

    Raises:
        InputError: for files of different lengths, without a line, or with an empty line.
    """
    sources, *targets = read_parallel([(path, flag) for path in files])
    if not sources:
        raise InputError(f"{flag}: {files[0]} is empty; expected one sentence a line")
    sources = [job.prefix + source if source.strip() else source for source in sources]
    length = int(min(job.max_length, most))
    where = [f"{flag}: {path}" for path in files]
    missing = [None] * len(sources)
    return Pairs(tokenizer, sources, targets[0] if targets else missing, length, where)


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


def _check_new(folder: Path) -> None:
    """Refuse to write over what is no run that can go on."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output: {folder} is a file, expected a folder; name another one")
    if any((folder / name).exists() for name in (CONFIG_NAME, ADAPTER_CONFIG_NAME)):
        raise InputError(
            f"--output: {folder} holds a model and no checkpoint to go on from, and is not "
            "replaced; name another folder"
        )


def _begun(job: Job, seed: int, model: Any, files: dict[str, Pairs | None]) -> dict[str, str]:
    """Return what a run is begun with, by flag; files and models by their content."""
    weights = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        some = tensor.detach().flatten()[:256].double().cpu().tolist()
        weights.update(repr((name, [*tensor.shape], some)).encode())
    found = {"MODEL": weights.hexdigest()[:12], "--max-length": str(job.max_length)}
    found |= {"--source-lang": str(job.source_lang), "--target-lang": str(job.target_lang)}
    found |= {"--prefix": job.prefix, "--seed": str(seed)}
    for flag, pairs in files.items():
        text = hashlib.sha256()
        for side in (pairs.sources, pairs.targets) if pairs is not None else ():
            text.update("".join(f"{line}\n" for line in side).encode())
        found[flag] = text.hexdigest()[:12]
    return found


def _check_begun(checkpoint: Path, job: Job, now: dict[str, str]) -> None:
    """Refuse to go on with another MODEL, --train or --lora than those that a run began with."""
    begun = f"--output: the run in {checkpoint.parent} was begun with"
    adapter = checkpoint / ADAPTER_CONFIG_NAME
    rank = json.loads(adapter.read_bytes())["r"] if adapter.exists() else 0
    if rank != job.lora:
        raise InputError(
            f"{begun} --lora {rank}, got --lora {job.lora}; give the same, or name another folder"
        )
    before = _objective_of(checkpoint)
    differ = {flag for flag, value in now.items() if before.get(flag, value) != value}
    if "MODEL" in differ:
        raise InputError(
            f"{begun} another model than {job.model}; give the same, or name another folder"
        )
    data = {"--train", "--monolingual", "--prefix", "--source-lang", "--target-lang"}
    for flag in sorted(differ & data):
        raise InputError(f"{begun} another {flag}; give the same, or name another folder")


def _objective_of(checkpoint: str | Path) -> dict[str, str]:
    """Return what the run of a checkpoint optimises, by flag."""
    state = json.loads((Path(checkpoint) / TRAINER_STATE_NAME).read_bytes())
    saved = state.get("stateful_callbacks", {}).get(RiskState.__name__, {})
    found: dict[str, str] = saved.get("attributes", {}).get("objective", {})
    return found


def finetune(
    job: Job, args: SimileRiskArguments, begin: Callable[[int, int], RunStory] | None = None
) -> Path:
    """Fine-tune and save; goes on where a killed run ended.

    Args:
        begin: makes of the numbers of training and validation pairs the story that is told instead
            of the trainer's own lines; its `updates` are made.

    Returns:
        the folder of the fine-tuned model, which `from_pretrained` loads.

    Raises:
        InputError: for input that cannot work.
    """
    assert args.output_dir is not None
    folder = Path(args.output_dir)
    with contextlib.ExitStack() as lock:
        if last_checkpoint(folder) is None:
            _check_new(folder)
        if args.process_index == 0:
            folder.mkdir(parents=True, exist_ok=True)
            lock.enter_context(locked_folder(folder))
        _finetune(job, args, folder, begin)
    return folder


def _finetune(
    job: Job,
    args: SimileRiskArguments,
    folder: Path,
    begin: Callable[[int, int], RunStory] | None,
) -> None:
    last = last_checkpoint(folder)
    set_seed(args.seed)
    model, tokenizer = load(job)
    most = min(positions(model, side) for side in ("encoder", "decoder"))
    train = read_pairs(job, tokenizer, job.train, "--train", most)
    valid = read_pairs(job, tokenizer, job.valid, "--valid", most) if job.valid else None
    more = None
    if job.monolingual:
        more = read_pairs(job, tokenizer, [job.monolingual], "--monolingual", most)
    files = {"--train": train, "--valid": valid, "--monolingual": more}
    begun = _begun(job, args.seed, model, files)
    dataset = train if more is None else ConcatDataset([train, more])
    if job.lora:
        from peft import LoraConfig, get_peft_model

        settings = LoraConfig(task_type="SEQ_2_SEQ_LM", r=job.lora, target_modules="all-linear")
        model = get_peft_model(model, settings)
    if last is not None:
        _check_begun(Path(last), job, begun)
    sentences = len(train) + (len(more) if more is not None else 0)
    story = begin(sentences, 0 if valid is None else len(valid)) if begin is not None else None
    if story is not None:
        args.max_steps = story.updates
    trainer = SimileRiskTrainer(
        model, args, processing_class=tokenizer, train_dataset=dataset, eval_dataset=valid
    )
    if more is not None:
        trainer.reward.refuse_missing_references("--monolingual")
    reward = trainer.risk_state.objective["--reward"]
    had = reward if last is None else _objective_of(last).get("--reward", reward)
    if had != reward:  # one table would have the costs of both
        raise InputError(
            f"--reward: the run in {folder} has {had}, got {reward}; give the same, or name "
            "another folder"
        )
    trainer.risk_state.objective |= begun
    if story is not None:
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        if args.process_index == 0:
            trainer.add_callback(Telling(story))
    if job.prefix:
        trainer.translator.text.prefix = trainer.translator.text.strings(
            [tokenizer(job.prefix).input_ids]
        )[0]
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model()
    trainer.save_state()

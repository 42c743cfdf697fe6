"""One fine-tuning from files: the work behind `simile finetune-hf`."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch.utils.data import ConcatDataset, Dataset, Subset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedConfig, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils import ADAPTER_CONFIG_NAME, CONFIG_NAME

from simile_plugin.files import InputError, locked_folder, read_parallel
from simile_plugin.hugging_face.arguments import SimileRiskArguments
from simile_plugin.hugging_face.models import positions, special_tokens
from simile_plugin.hugging_face.state import RiskState, Telling
from simile_plugin.hugging_face.text import Pairs, prefix_warning
from simile_plugin.hugging_face.trainer import SimileRiskTrainer
from simile_plugin.risk import RunStory

logger = logging.getLogger(__name__)

# What tokenizers, files, broken weights and those of another config raise.
UNREADABLE = (
    *(OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError),
    *(SafetensorError, pickle.UnpicklingError),
)


ADAPTER = "adapter"  # folder within a run of adapters by themselves


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
        monolingual_share: of the sources without references among all, above 0 and below 1.
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
    monolingual_share: float = 0.5


def load(job: Job) -> tuple[Any, Any]:
    """Return the model and its tokenizer.

    Raises:
        InputError: where one of them is missing, or the model is no encoder-decoder.
    """
    folder = Path(job.model)
    if (folder / ADAPTER_CONFIG_NAME).is_file() and not (folder / CONFIG_NAME).is_file():
        raise InputError(
            f"MODEL: {job.model} has adapters alone; expected a whole model: the folder above it, "
            "where finetune-hf wrote both, or what peft's AutoPeftModelForSeq2SeqLM"
            ".from_pretrained(...).merge_and_unload().save_pretrained(...) writes"
        )
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
    if targets and sources == targets[0]:
        raise InputError(
            f"{flag}: {files[0]} and {files[1]} have the same text; expected sources and their "
            "translations"
        )
    sources = [job.prefix + source if source.strip() else source for source in sources]
    length = int(min(job.max_length, most))
    where = [f"{flag}: {path}" for path in files]
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


def _check_new(folder: Path) -> None:
    """Refuse to write over what is no run that can go on."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output: {folder} is a file, expected a folder; name another one")
    if any((folder / name).exists() for name in (CONFIG_NAME, ADAPTER_CONFIG_NAME)):
        raise InputError(
            f"--output: {folder} holds a model and no checkpoint to go on from, and is not "
            "replaced; name another folder"
        )


def _begun(
    job: Job, args: SimileRiskArguments, model: Any, files: dict[str, Pairs | None]
) -> dict[str, str]:
    """Return what a run is begun with, by flag; files and models by their content."""
    weights = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        some = tensor.detach().flatten()[:256].double().cpu().tolist()
        weights.update(repr((name, [*tensor.shape], some)).encode())
    found = {"MODEL": weights.hexdigest()[:12], "--max-length": str(job.max_length)}
    found |= {"--source-lang": str(job.source_lang), "--target-lang": str(job.target_lang)}
    found |= {"--prefix": job.prefix, "--seed": str(args.seed)}
    found["--monolingual-share"] = str(job.monolingual_share)
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
    data.add("--monolingual-share")
    for flag in sorted(differ & data):
        raise InputError(f"{begun} another {flag}; give the same, or name another folder")


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


def finetune(
    job: Job,
    args: SimileRiskArguments,
    begin: Callable[[int, int, dict[str, str]], RunStory] | None = None,
) -> Path:
    """Fine-tune and save; goes on where a killed run ended.

    With validations, what is saved is the best model by them, that of `job` where none was better.
    With adapters it is the model with them merged in, and they themselves in the folder `adapter`.

    Args:
        begin: makes of the numbers of training and validation pairs, and of what a run that goes on
            had, by flag, the story that is told instead of the trainer's own lines; its `updates`
            are made.

    Returns:
        the folder of the fine-tuned model, which `from_pretrained` loads.

    Raises:
        InputError: for input that cannot work, and a full disk.
    """
    assert args.output_dir is not None
    folder = Path(args.output_dir)
    with contextlib.ExitStack() as stack:
        stack.enter_context(full_disk_told(folder))
        if last_checkpoint(folder) is None:
            _check_new(folder)
        if args.process_index == 0:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked_folder(folder))
        _finetune(job, args, folder, begin)
    return folder


def _finetune(
    job: Job,
    args: SimileRiskArguments,
    folder: Path,
    begin: Callable[[int, int, dict[str, str]], RunStory] | None,
) -> None:
    last = last_checkpoint(folder)
    set_seed(args.seed)
    model, tokenizer = load(job)
    if doubt := prefix_warning(tokenizer, job.prefix):
        logger.warning(doubt)
    most = min(positions(model, side) for side in ("encoder", "decoder"))
    train = read_pairs(job, tokenizer, job.train, "--train", most)
    valid = read_pairs(job, tokenizer, job.valid, "--valid", most) if job.valid else None
    more = None
    if job.monolingual:
        more = read_pairs(job, tokenizer, [job.monolingual], "--monolingual", most)
    files = {"--train": train, "--valid": valid, "--monolingual": more}
    had = {} if last is None else _objective_of(last)
    begun = _begun(job, args, model, files)
    begun["--learning-rate"] = had.get("--learning-rate", str(args.learning_rate))  # it keeps it
    if job.lora:
        model = with_adapters(model, job)
    if last is not None:
        _check_begun(Path(last), job, begun)
    # An epoch has all pairs once, and the other sources beside them.
    sentences = len(train) if more is None else round(len(train) / (1 - job.monolingual_share))
    story = None
    if begin is not None:
        story = begin(sentences, 0 if valid is None else len(valid), had)
        args.max_steps = story.updates
    dataset = train if more is None else mixed(train, more, job.monolingual_share)
    trainer = SimileRiskTrainer(
        model, args, processing_class=tokenizer, train_dataset=dataset, eval_dataset=valid
    )
    if more is not None:
        trainer.reward.refuse_missing_references("--monolingual")
    _check_reward(trainer, folder, had)
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
    try:
        trainer.train(resume_from_checkpoint=last)
    except InputError as error:
        if trainer.risk_state.training:  # not at its end: the best model is not loaded
            raise
        _save(trainer, job, folder)
        raise InputError(f"{error}; {folder} has the best model by validation") from error
    _save(trainer, job, folder)


def _check_reward(trainer: SimileRiskTrainer, folder: Path, had: dict[str, str]) -> None:
    """Refuse to go on with another reward: one table would have the costs of both."""
    reward = trainer.risk_state.objective["--reward"]
    if had.get("--reward", reward) != reward:
        raise InputError(
            f"--reward: the run in {folder} has {had['--reward']}, got {reward}; give the same, or "
            "name another folder"
        )


def with_adapters(model: Any, job: Job) -> Any:
    """Return a model with peft's adapters of rank ``job.lora`` in all its linear layers.

    They say which model they are of so that they load from any folder.
    """
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(task_type="SEQ_2_SEQ_LM", r=job.lora, target_modules="all-linear")
    found = get_peft_model(model, settings)
    path = Path(job.model)
    found.peft_config["default"].base_model_name_or_path = (
        str(path.resolve()) if path.is_dir() else job.model
    )
    return found


def _save(trainer: SimileRiskTrainer, job: Job, folder: Path) -> None:
    """Save the best model by validation, which is the last one where there was none."""
    if trainer.starts_best:
        best = load(job)[0]
        if job.lora:  # adapters that were not trained change nothing
            best = with_adapters(best, job)
        trainer.model.load_state_dict(best.state_dict())
        first = next(log for log in trainer.state.log_history if log["step"] == 0)
        trainer.state.best_metric, trainer.state.best_global_step = first["eval_bleu"], 0
        trainer.state.best_model_checkpoint = None
    if job.lora:
        if trainer.is_world_process_zero():
            trainer.model.save_pretrained(folder / ADAPTER)
        trainer.model = trainer.model.merge_and_unload()
    trainer.save_model()
    trainer.save_state()


@contextlib.contextmanager
def full_disk_told(folder: Path) -> Iterator[None]:
    """Make one line of what is raised where a disk is full; each library has its own errors."""
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        raise InputError(
            f"--output: the disk of {folder} is full, or its quota; make room and repeat the "
            "command, which goes on from the last checkpoint that is whole"
        ) from error


# OSError's, safetensors' and tokenizers' words, and what torch.save says of a file cut short.
FULL = ("No space left on device", "Disk quota exceeded", "os error 28", "enforce fail at inline_c")


def _is_full(error: BaseException | None) -> bool:
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return True
        if not isinstance(error, InputError) and any(words in str(error) for words in FULL):
            return True
        error = error.__cause__ or error.__context__
    return False

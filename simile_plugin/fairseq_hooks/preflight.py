"""What fairseq would find out late, in its own words, or never, is found before training starts."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from typing import Any

import numpy
import torch

from simile_plugin.fairseq_hooks.checkpoints import WANTED
from simile_plugin.fairseq_hooks.watch import is_risk
from simile_plugin.files import InputError

LAUNCHED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")  # what torchrun says
NAG_RATE = 0.25  # fairseq's default
LARGEST_SEED = 4_000_000_000  # numpy's end at 2**32; fairseq adds epochs and updates
HIGHER_IS_BETTER = {"bleu", "sim", "simile"}
LOWER_IS_BETTER = {"cost", "cost_bleu", "cost_simile", "loss", "nll_loss", "ppl", "repetition"}
DAMAGED = "it is cut short or damaged: copy it again, or run fairseq-preprocess again"
# An index of fairseq-preprocess: 9 bytes of magic, version, code of the type, number of sentences;
# then a length (4 bytes) and a position (8 bytes) for each sentence.
HEADER = struct.Struct("<9sQBQ")
A_SENTENCE = 12


def check_flags(original: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """``distributed.utils.call_main``: the flags of a risk run, before any process is started.

    Raises:
        InputError: naming the flag.
    """
    if is_risk(cfg):
        seed, given = cfg.common.seed, getattr(cfg.task, "data", None) or "."
        data = given.split(os.pathsep)[0]
        if not 0 <= seed <= LARGEST_SEED:
            raise InputError(f"--seed: got {seed}, expected 0 to {LARGEST_SEED}")
        if data != given and os.path.isdir(given):
            raise InputError(
                f"DATA {given}: fairseq takes what a '{os.pathsep}' parts for several folders; "
                "rename it"
            )
        if "://" not in data and not os.path.isdir(data):
            raise InputError(f"DATA {data}: no such folder; expected one of fairseq-preprocess")
        check_settings(cfg)
        check_processes(cfg)
        check_precision(cfg.common)
    return original(cfg, *args, **kwargs)


def check_settings(cfg: Any) -> None:
    """The flags that can be checked from the configuration alone, at any time before training.

    Raises:
        InputError: naming the flag.
    """
    check_direction(cfg.checkpoint)
    check_rate(cfg)
    check_start(cfg.checkpoint)
    check_dump(cfg)


def check_direction(flags: Any) -> None:
    """Whether the best value is the highest: with the wrong one fairseq keeps the worst model.

    Raises:
        InputError: naming both flags.
    """
    metric, highest = flags.best_checkpoint_metric, flags.maximize_best_checkpoint_metric
    if metric in HIGHER_IS_BETTER and not highest:
        raise InputError(
            f"--best-checkpoint-metric {metric}: higher is better; expected "
            "--maximize-best-checkpoint-metric beside it"
        )
    if metric in LOWER_IS_BETTER and highest:
        raise InputError(
            f"--best-checkpoint-metric {metric}: lower is better; leave out "
            "--maximize-best-checkpoint-metric"
        )


def check_rate(cfg: Any) -> None:
    """Whether --lr was given: fairseq's default is for nag, and destroys a model under Adam.

    Raises:
        InputError: naming both flags.
    """
    optimizer = getattr(cfg.optimizer, "_name", None)
    if optimizer == "adam" and list(cfg.optimization.lr) == [NAG_RATE]:
        raise InputError(
            f"--lr: got {NAG_RATE}, fairseq's default, with --optimizer adam; expected about 1e-4 "
            "to fine-tune"
        )


def check_start(flags: Any) -> None:
    """The checkpoint from which fairseq is told to start, where it has none of its own yet.

    fairseq trains from random weights, and does not say so, where the path is a folder.

    Raises:
        InputError: naming the flag and the file.
    """
    path = flags.finetune_from_model
    last = os.path.join(flags.save_dir, "checkpoint_last.pt")
    if path is None or "://" in path or os.path.exists(last):
        return
    if not os.path.isfile(path):
        found = "a folder" if os.path.isdir(path) else "no such file"
        raise InputError(f"--finetune-from-model {path}: {found}; {WANTED}")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(f"--finetune-from-model {path}: {error.strerror}") from error


def check_dump(cfg: Any) -> None:
    """Whether there is a validation whose lists can be written.

    Raises:
        InputError: naming both flags.
    """
    if cfg.criterion.risk_dump and cfg.dataset.disable_validation:
        raise InputError(
            f"--risk-dump {cfg.criterion.risk_dump}: given with --disable-validation, whose lists "
            "it would write; leave one of them out"
        )


def check_processes(cfg: Any) -> None:
    """The flags of several processes: with the wrong ones fairseq starts none, and does not say so,
    or each of those that were started trains on its own.

    Raises:
        InputError: naming the flag.
    """
    flags = cfg.distributed_training
    size, launched = flags.distributed_world_size, set(LAUNCHED) <= os.environ.keys()
    if launched and size == 1 < int(os.environ["WORLD_SIZE"]):
        raise InputError(
            f"--distributed-world-size: got 1, but torchrun has started {os.environ['WORLD_SIZE']} "
            "processes; expected that number, else each of them trains on its own"
        )
    if size == 1 or not without_gpu(cfg.common):
        return
    if not (launched or flags.distributed_no_spawn):
        raise InputError(
            f"--distributed-world-size: got {size} without a GPU, where fairseq starts no "
            "processes by itself; start them by torchrun, or each with --distributed-no-spawn, "
            "--distributed-rank and --distributed-init-method"
        )
    if flags.ddp_backend in ("c10d", "pytorch_ddp"):
        raise InputError(
            f"--ddp-backend: got {flags.ddp_backend}, which fairseq runs on GPUs only; expected "
            "legacy_ddp"
        )
    if not launched and flags.distributed_backend == "nccl":
        raise InputError("--distributed-backend: got nccl without a GPU, expected gloo")


def check_precision(common: Any) -> None:
    """Half precision for which fairseq asks a GPU: --fp16, whose gradients it puts in one tensor.

    Raises:
        InputError: naming the flag.
    """
    if common.fp16 and not common.memory_efficient_fp16 and without_gpu(common):
        raise InputError("--fp16: got it without a GPU; leave it out")


def without_gpu(common: Any) -> bool:
    """Whether a run computes on the CPU."""
    return common.cpu or not torch.cuda.is_available()


def check_save_dir(original: Callable[..., None], save_dir: str) -> None:
    """``verify_checkpoint_directory``, which makes the folder and a file in it.

    Raises:
        InputError: naming the folder and the reason.
    """
    try:
        original(save_dir)
    except OSError as error:
        raise InputError(
            f"--save-dir {save_dir}: {error.strerror}; name a folder that can be written, or make "
            "room"
        ) from error


def check_room(
    original: Callable[..., None], trainer: Any, cfg: Any, task: Any, model: Any, *args: Any
) -> None:
    """``Trainer.__init__``: is there room for one checkpoint, were it of the parameters alone?

    Raises:
        InputError: naming the folder and both numbers of bytes.
    """
    if is_risk(cfg):
        check_settings(cfg)  # again: fairseq-hydra-train imports --user-dir after `call_main`
    original(trainer, cfg, task, model, *args)
    folder = cfg.checkpoint.save_dir
    if not is_risk(cfg) or cfg.checkpoint.no_save or not os.path.isdir(folder):
        return
    wanted = sum(p.numel() * p.element_size() for p in model.parameters())
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise InputError(
            f"--save-dir {folder}: {free:,} bytes free; a checkpoint of this model has more than "
            f"{wanted:,}: make room, or name a folder on another disk"
        )


def check_metric(original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """``Trainer.valid_step``: is --best-checkpoint-metric among what the first batch has logged?

    Raises:
        InputError: with the names that there are.
    """
    from fairseq.logging import metrics

    found = original(trainer, *args, **kwargs)
    wanted = trainer.cfg.checkpoint.best_checkpoint_metric
    known = {"num_updates"}.union(*(meters.keys() for meters in metrics.get_active_aggregators()))
    if is_risk(trainer.cfg) and wanted not in known:
        names = ", ".join(sorted(name for name in known if not name.startswith("_")))
        raise InputError(f"--best-checkpoint-metric: got {wanted!r}, expected one of {names}")
    return found


def check_dictionary(original: Callable[..., None], dictionary: Any, file: Any) -> None:
    """``Dictionary.add_from_file``; fairseq names neither the file nor what to do.

    Raises:
        InputError: naming the file.
    """
    try:
        original(dictionary, file)
    except OSError:
        raise
    except Exception as error:
        if not isinstance(file, str):  # fairseq calls itself with the opened file
            raise
        first = " ".join(str(error).split(". ")[0].split())[:160]
        raise InputError(
            f"{file}: not a dictionary of fairseq-preprocess ({first}); copy it again, or run "
            "fairseq-preprocess again"
        ) from error


def check_data(
    original: Callable[..., Any], path: str, impl: Any, *args: Any, **kwargs: Any
) -> Any:
    """``indexed_dataset.make_dataset``: are path.idx and path.bin whole, and of this dictionary?

    Raises:
        InputError: naming the file and what is wrong with it.
    """
    dictionary = kwargs.get("dictionary")
    if os.path.isfile(f"{path}.idx") and os.path.isfile(f"{path}.bin"):
        tokens = tokens_of(path)
        largest = int(tokens.max()) if tokens is not None and len(tokens) else -1
        if dictionary is not None and largest >= len(dictionary):
            folder, name = os.path.split(path)
            beside = os.path.join(folder, f"dict.{name.rsplit('.', 1)[-1]}.txt")
            raise InputError(
                f"{path}.bin: holds token number {largest}, but {beside} makes only "
                f"{len(dictionary)}; give the dictionary with which it was binarised"
            )
    return original(path, impl, *args, **kwargs)


def check_shards(
    original: Callable[..., None], dataset: Any, datasets: Any, sample_ratios: Any = 1
) -> None:
    """``ConcatDataset.__init__``: of train, train1, ... fairseq repeats the first -1 times.

    Raises:
        InputError: naming the flag.
    """
    if isinstance(sample_ratios, list) and sample_ratios[0] < 0:
        raise InputError(
            f"--upsample-primary: got {sample_ratios[0]} with training data in several parts "
            "(train, train1, ...); expected how often train counts: give --upsample-primary 1"
        )
    original(dataset, datasets, sample_ratios)


def tokens_of(path: str) -> Any:
    """All token numbers in path.bin as one array of numpy, or None for fairseq's older formats.

    Raises:
        InputError: if the files' sizes are not what the index says.
    """
    from fairseq.data import indexed_dataset

    index, data = f"{path}.idx", f"{path}.bin"
    size, stored = os.path.getsize(index), os.path.getsize(data)
    with open(index, "rb") as stream:
        head = stream.read(HEADER.size)
    if not head.startswith(indexed_dataset.MMapIndexedDataset.Index._HDR_MAGIC):
        if indexed_dataset.infer_dataset_impl(path) is None:
            raise InputError(f"{index}: no index of fairseq-preprocess ({size} bytes); {DAMAGED}")
        return None
    if len(head) < HEADER.size:
        raise InputError(f"{index}: {size} bytes; {DAMAGED}")
    _, _, code, count = HEADER.unpack(head)
    if size != HEADER.size + A_SENTENCE * count or code not in indexed_dataset._code_to_dtype:
        raise InputError(f"{index}: {size} bytes for {count:,} sentences; {DAMAGED}")
    if not count:
        return None
    dtype = numpy.dtype(indexed_dataset._code_to_dtype[code])
    lengths = numpy.memmap(index, numpy.int32, "r", HEADER.size, (count,))
    wanted = int(lengths.sum(dtype=numpy.int64)) * dtype.itemsize
    if stored != wanted:
        raise InputError(f"{data}: {stored} bytes, {index} counts {wanted}; {DAMAGED}")
    return numpy.memmap(data, dtype, "r")

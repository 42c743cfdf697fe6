"""Checks before training of what fairseq would say late, in words of its own, or never.

Each function raises InputError that names the flag or the file.
"""

from __future__ import annotations

import filecmp
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch

from simile_plugin.fairseq_hooks.torch_load import read_checkpoint
from simile_plugin.fairseq_hooks.watch import is_risk
from simile_plugin.files import InputError

LAUNCHED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")  # what torchrun says
NAG_RATE = 0.25  # fairseq's default
LARGEST_SEED = 4_000_000_000  # numpy's end at 2**32; fairseq adds epochs and updates
HIGHER_IS_BETTER = {"bleu", "chrf", "sim", "simile"}
LOWER_IS_BETTER = {
    *("cost", "cost_bleu", "cost_simile", "loss", "nll_loss", "ppl"),
    *("repetition", "nonfinite", "empty"),
}
# An index of fairseq-preprocess: 9 bytes of magic, version, code of the type, number of sentences;
# then a length (4 bytes) and a position (8 bytes) for each sentence.
HEADER = struct.Struct("<9sQBQ")
A_SENTENCE = 12


def check_flags(original: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap ``distributed.utils.call_main``: the flags, before any process is started."""
    if is_risk(cfg):
        seed, data = cfg.common.seed, getattr(cfg.task, "data", None) or "."
        folder = data.split(os.pathsep)[0]  # fairseq takes several
        if not 0 <= seed <= LARGEST_SEED:
            raise InputError(f"--seed: got {seed}, expected 0 to {LARGEST_SEED}")
        if "://" not in folder and not os.path.isdir(folder):
            raise InputError(f"DATA {folder}: no such folder; expected one of fairseq-preprocess")
        check_processes(cfg)
        check_model_stays(cfg.checkpoint)
        for subset in (cfg.dataset.train_subset, cfg.dataset.valid_subset):
            check_sides(Path(folder), subset.split(","))
        if cfg.common.fp16 and not cfg.common.memory_efficient_fp16 and without_gpu(cfg.common):
            raise InputError("--fp16: got it without a GPU; leave it out")
    return original(cfg, *args, **kwargs)


def check_settings(
    original: Callable[..., None], trainer: Any, cfg: Any, *args: Any, **kwargs: Any
) -> None:
    """Wrap ``Trainer.__init__``: flags that fairseq takes, and then trains something else."""
    if is_risk(cfg):
        check_direction(cfg.checkpoint)
        optimizer = getattr(cfg.optimizer, "_name", None)
        if optimizer == "adam" and list(cfg.optimization.lr) == [NAG_RATE]:  # destroys a model
            raise InputError(
                f"--lr: got {NAG_RATE}, fairseq's default, with --optimizer adam; expected about "
                "1e-4 to fine-tune"
            )
    original(trainer, cfg, *args, **kwargs)


def check_direction(flags: Any) -> None:
    """Check that the best value is the highest where it should be, else the worst model is kept."""
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


def check_model_stays(flags: Any) -> None:
    """Check that no checkpoint that a run saves or removes is the model that it begins from."""
    model = flags.finetune_from_model
    if flags.no_save or not model:
        return
    if (path := written_over(Path(flags.save_dir), model)) is not None:
        raise InputError(
            f"--save-dir: --finetune-from-model {model} is {path}, which the training would write "
            "over; name a new folder (a run in that folder goes on without --finetune-from-model)"
        )
    there = sorted(Path(flags.save_dir).glob("checkpoint*.pt"))
    if any(path.name.startswith("checkpoint_last") for path in there):
        return  # the run goes on from it
    for path in there:
        if not saved_by(path, flags):
            raise InputError(
                f"--save-dir: {path} is not of a run from {model}, and the training would write "
                "over it; name a new folder"
            )


def saved_by(path: Path, flags: Any) -> bool:
    """Return whether a run of the same --save-dir and --finetune-from-model saved a checkpoint.

    Such a run, killed before its first checkpoint_last.pt, begins again by the same command.
    """
    try:
        saved = read_checkpoint(str(path))["cfg"]["checkpoint"]
    except (InputError, KeyError, TypeError):  # damaged, or of another program
        return False
    return all(
        os.path.realpath(str(saved.get(name))) == os.path.realpath(str(getattr(flags, name)))
        for name in ("save_dir", "finetune_from_model")
    )


def written_over(run: Path, model: str) -> Path | None:
    """Return the file of a --save-dir that is ``model``, among those that fairseq writes over.

    fairseq replaces checkpoint_best.pt and checkpoint_last.pt, removes older
    checkpoint_EPOCH_UPDATES.pt, and writes through links.
    """
    if not os.path.exists(model):
        return None
    there = (path for path in sorted(run.glob("checkpoint*.pt")) if path.exists())
    return next((path for path in there if path.samefile(model)), None)


def check_sides(folder: Path, subsets: list[str]) -> None:
    """Check that no data set has the same text as source and as target.

    Raises:
        InputError: where token numbers are equal, and the dictionaries, which say what they mean.
    """
    for source in (path for name in subsets for path in folder.glob(f"{name}.*-*.*.bin")):
        start, _, language = source.stem.rpartition(".")  # train.de-en, de
        first, _, other = start.rpartition(".")[2].partition(f"{language}-")
        target = source.with_name(f"{start}.{other}.bin")
        words, other_words = (folder / f"dict.{name}.txt" for name in (language, other))
        if first or not other or not all(map(Path.is_file, (target, words, other_words))):
            continue  # the side of the targets, or another layout
        if not source.stat().st_size:
            continue
        if filecmp.cmp(source, target, False) and filecmp.cmp(words, other_words, False):
            raise InputError(
                f"DATA {folder}: {source.name} and {target.name} have the same text; expected "
                "sources and their translations"
            )


def check_processes(cfg: Any) -> None:
    """Check that torchrun's processes make one training, and do not each train on its own."""
    started = int(os.environ["WORLD_SIZE"]) if set(LAUNCHED) <= os.environ.keys() else 1
    if cfg.distributed_training.distributed_world_size == 1 < started:
        raise InputError(
            f"--distributed-world-size: got 1, but torchrun has started {started} processes; "
            "expected that number, else each of them trains on its own"
        )


def without_gpu(common: Any) -> bool:
    """Return whether a run computes on the CPU."""
    return common.cpu or not torch.cuda.is_available()


def check_metric(original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap ``Trainer.valid_step``: --best-checkpoint-metric is in what the first batch logged."""
    from fairseq.logging import metrics

    logged = original(trainer, *args, **kwargs)
    wanted = trainer.cfg.checkpoint.best_checkpoint_metric
    known = {"num_updates"}.union(*(meters.keys() for meters in metrics.get_active_aggregators()))
    if is_risk(trainer.cfg) and wanted not in known:
        names = ", ".join(sorted(name for name in known if not name.startswith("_")))
        raise InputError(f"--best-checkpoint-metric: got {wanted!r}, expected one of {names}")
    return logged


def check_data(
    original: Callable[..., Any], path: str, impl: Any, *args: Any, **kwargs: Any
) -> Any:
    """Wrap ``indexed_dataset.make_dataset``: path.idx and path.bin are whole, of this dictionary.

    A cut path.bin would be found at the batch that needs it, a wrong dictionary never.
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


def tokens_of(path: str) -> Any:
    """Return all token numbers in path.bin as one array, or None for fairseq's older formats."""
    from fairseq.data import indexed_dataset

    index, data = f"{path}.idx", f"{path}.bin"
    if indexed_dataset.infer_dataset_impl(path) in ("cached", "huffman"):
        return None
    sizes = os.path.getsize(index), os.path.getsize(data)
    try:
        with open(index, "rb") as stream:
            _, _, code, count = HEADER.unpack(stream.read(HEADER.size))
        if count == 0:
            return None
        dtype = numpy.dtype(indexed_dataset._code_to_dtype[code])
        lengths = numpy.memmap(index, numpy.int32, "r", HEADER.size, (count,))
        stored = int(lengths.sum(dtype=numpy.int64)) * dtype.itemsize
        if sizes == (HEADER.size + A_SENTENCE * count, stored):
            return numpy.memmap(data, dtype, "r")
    except (struct.error, KeyError, ValueError, OverflowError):
        pass
    raise InputError(
        f"{index} ({sizes[0]:,} bytes) and .bin ({sizes[1]:,}) do not fit: one of them is cut "
        "short or damaged; copy both again, or run fairseq-preprocess again"
    )


def check_shards(
    original: Callable[..., None], dataset: Any, datasets: Any, sample_ratios: Any = 1
) -> None:
    """Wrap ``ConcatDataset.__init__``: of train, train1, ... fairseq repeats the first -1 times."""
    if isinstance(sample_ratios, list) and sample_ratios[0] < 0:
        raise InputError(
            f"--upsample-primary: got {sample_ratios[0]} with training data in several parts "
            "(train, train1, ...); expected how often train counts: give --upsample-primary 1"
        )
    original(dataset, datasets, sample_ratios)


def count_sentences(data: str, split: str) -> int:
    """Return the sentence pairs of a split in a folder of fairseq-preprocess; 0 if it has none.

    Raises:
        InputError: for a folder that is not there, or an index that cannot be read.
    """
    if not Path(data).is_dir():
        raise InputError(f"DATA-BIN: no such folder: {data}; expected one of fairseq-preprocess")
    for index in sorted(Path(data).glob(f"{split}.*.idx")):
        with index.open("rb") as stream:
            head = stream.read(HEADER.size)
        if len(head) < HEADER.size:
            raise InputError(f"{index}: cut short; run fairseq-preprocess again")
        return int(HEADER.unpack(head)[3])
    return 0

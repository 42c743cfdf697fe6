"""fairseq's checkpoints: written whole or not at all, and read with one clear line.

fairseq writes the first file of a save beside its name and renames it, but copies it over
checkpoint_last.pt and checkpoint_best.pt in place: a kill or a full disk there destroys the file
that the run resumes from. A checkpoint of a risk run also holds a record of ours,

    extra_state["simile_risk"] = {"format_version": 1, "simile_plugin": "0.1.0",
        "objective": {flag: value}, "metric": --best-checkpoint-metric,
        "patience": [best, validations without improvement] or None,
        "length_control": LengthControl.state(),
        **GamingWatch.state()}

so that a resumed run goes on as if it had not been interrupted, and says what was changed.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import shutil
import traceback
from collections.abc import Callable
from typing import Any

import torch

import simile_plugin
from simile_plugin.fairseq_hooks import watch
from simile_plugin.fairseq_hooks.patching import train_modules
from simile_plugin.fairseq_hooks.torch_load import WANTED
from simile_plugin.files import InputError, atomic_write, flag_name
from simile_plugin.risk import REMOVED

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
RECORD = "simile_risk"
DAMAGED = ("PytorchStreamReader", "unexpected EOF", "Invalid magic number", "zip archive")
REFUSED = "Weights only load failed"
NOT_LOADED = "Cannot load model parameters from checkpoint"
# What a cost is; and what a loss is beside it.
COST_FLAGS = {"--reward", "--risk-normalise", "--simile-encoder", "--simile-alpha"}
LOSS_FLAGS = COST_FLAGS | {"--mle-weight", "--label-smoothing", "--risk-cost-scale"}
LOSS_FLAGS |= {"--risk-objective", "--risk-kl-weight"}


def same_batches_in_every_epoch(
    original: Callable[..., Any], trainer: Any, epoch: int, *args: Any, **kwargs: Any
) -> Any:
    """Wrap ``Trainer.get_train_iterator``: a resumed run has the batches of the first epoch, too.

    fairseq draws which sentences share a batch from the seed and the epoch in which it starts, and
    keeps these batches for all epochs: a run that resumes in another epoch would get others.
    """
    cached = not kwargs.get("disable_iterator_cache") and not args
    if not cached or epoch == 1 or trainer.task.dataset_to_epoch_iter:
        return original(trainer, epoch, *args, **kwargs)
    if trainer.cfg.dataset.update_epoch_batch_itr:
        return original(trainer, epoch, **kwargs)
    first = original(trainer, 1, **kwargs)
    if first not in trainer.task.dataset_to_epoch_iter.values():  # a dataset that is not reused
        return original(trainer, epoch, **kwargs)
    return original(trainer, epoch, **kwargs | {"load_dataset": False})


def save_whole(original: Callable[..., Any], obj: Any, filename: str, *args: Any, **kw: Any) -> Any:
    """Save to a hidden name, then rename: there is the old file or the new one.

    Raises InputError naming the file, the reason and what is left.
    """
    if "://" in filename or kw.get("async_write") or (args and args[0]):
        return original(obj, filename, *args, **kw)
    try:
        with atomic_write(filename, "wb") as stream:
            return torch.save(obj, stream)
    except (OSError, RuntimeError) as error:
        raise unwritten(filename, error) from error


def copy_whole(original: Callable[..., Any], src: str, dst: str, *args: Any, **kw: Any) -> Any:
    """Copy a file so that ``dst`` is the old file or the new one; raises as `save_whole` does."""
    if "://" in src or "://" in dst:
        return original(src, dst, *args, **kw)
    try:
        with open(src, "rb") as source, atomic_write(dst, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except OSError as error:
        raise unwritten(dst, error) from error
    return dst


def unwritten(filename: str, error: BaseException) -> InputError:
    """Return the error that says which file, why, and what to do."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):  # torch hides it in its own error
        cause = cause.__context__
    reason = str(error)
    if isinstance(cause, OSError) and cause.errno is not None:
        reason = os.strerror(cause.errno)
    return InputError(
        f"{filename}: cannot be written: {reason}; the checkpoints that were there are whole: make "
        "room and run the same command again"
    )


def load_or_explain(original: Callable[..., Any], path: str, *args: Any, **kwargs: Any) -> Any:
    """Wrap ``load_checkpoint_to_cpu``: InputError for a damaged file, or one of another kind.

    A file that torch refuses because it could run something raises torch's own error.
    """
    try:
        return without_removed_flags(original(path, *args, **kwargs), path)
    except (KeyError, AttributeError, TypeError, IndexError) as error:
        if last_file(error).endswith("checkpoint_utils.py"):  # it was read: a list, a tensor, ...
            raise InputError(f"{path}: no checkpoint of fairseq's; {WANTED}") from error
        if not isinstance(error, KeyError):
            raise
        raise damaged(path, error) from error
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        refused = isinstance(error, pickle.UnpicklingError) and REFUSED in str(error)
        other = isinstance(error, RuntimeError) and not any(t in str(error) for t in DAMAGED)
        if refused or other:
            raise
        raise damaged(path, error) from error


def without_removed_flags(state: dict[str, Any], path: str) -> dict[str, Any]:
    """Leave flags that are gone out of a checkpoint's: fairseq-validate would refuse them."""
    from fairseq.dataclass.utils import open_dict

    criterion: Any = (state.get("cfg") or {}).get("criterion")
    if getattr(criterion, "_name", None) != watch.CRITERION:
        return state
    with open_dict(criterion):
        criterion.pop("finetune_from_model", None)  # the trainer's, which a KL term once read
        for name, usual in REMOVED.items():
            if criterion.pop(name, usual) != usual:
                logger.warning(f"{path} was trained with {flag_name(name)}, which is gone: ignored")
    return state


def last_file(error: BaseException) -> str:
    """Return the source file in which ``error`` was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename if frames else ""


def damaged(path: str, error: BaseException) -> InputError:
    """Return the error that says which file, how long it is, and what to do."""
    return InputError(
        f"{path}: cut short or damaged ({os.path.getsize(path)} bytes; {_first_words(error)}); "
        "copy it again, or copy another checkpoint_*.pt over it, and run again"
    )


def _first_words(error: BaseException) -> str:
    text = str(error).split(". ")[0].strip()
    return text[:100] if text else type(error).__name__


def save_with_record(
    original: Callable[..., Any], trainer: Any, filename: str, extra_state: dict[str, Any]
) -> Any:
    """Wrap ``Trainer.save_checkpoint``: a risk run puts our record into ``extra_state``."""
    objective = watch.objective_of(trainer)
    if objective is not None:
        stopped = train_modules()[-1].should_stop_early
        best = getattr(stopped, "best", None)
        extra_state[RECORD] = {
            "format_version": FORMAT_VERSION,
            "simile_plugin": simile_plugin.__version__,
            "objective": objective,
            "metric": trainer.cfg.checkpoint.best_checkpoint_metric,
            "patience": None if best is None else [float(best), int(stopped.num_runs)],
            "length_control": trainer.get_criterion().length_control.state(),
            **watch.watch_of(trainer).state(),
        }
    return original(trainer, filename, extra_state)


def load_with_record(
    original: Callable[..., Any], trainer: Any, filename: str, *args: Any, **kwargs: Any
) -> Any:
    """Wrap ``Trainer.load_checkpoint``: a run that resumes gets its record back.

    Raises InputError if the model does not fit, if nothing was loaded where a checkpoint was named,
    or if the record is of a newer format.
    """
    try:
        extra_state = original(trainer, filename, *args, **kwargs)
    except Exception as error:
        if NOT_LOADED not in str(error):
            raise
        raise InputError(f"{named(trainer, filename)}: {misfit(error, filename)}") from error
    if filename == trainer.cfg.checkpoint.finetune_from_model:
        trainer._previous_training_time = 0  # --stop-time-hours would count that of the other run
    objective = watch.objective_of(trainer)
    if objective is None:
        return extra_state
    asked = named(trainer, filename) != f"--save-dir {filename}" or os.path.lexists(filename)
    if extra_state is None and asked:  # fairseq would train from random weights
        raise InputError(f"{named(trainer, filename)}: no such file; {WANTED}")
    record = (extra_state or {}).get(RECORD)
    if record is None or not trainer.get_num_updates():
        return extra_state
    check_version(record, filename)
    before = record["objective"]
    changed = {name for name in objective.keys() & before.keys() if objective[name] != before[name]}
    for name in sorted(changed):
        logger.warning(
            f"{name}: the run in {filename} had {before[name]}, it goes on with {objective[name]}"
        )
    if "length_control" in record:  # version 0.1.0 had none
        trainer.get_criterion().length_control.restore(record["length_control"])
    if kwargs.get("reset_meters"):  # validations begin anew, what is optimised goes on
        return extra_state
    _restore_interval(extra_state)
    watch.watch_of(trainer).restore(record)
    if changed & COST_FLAGS:
        watch.watch_of(trainer).first = None  # its cost is not comparable
    metric = trainer.cfg.checkpoint.best_checkpoint_metric
    had = record.get("metric", metric)
    if had != metric or changed & {"cost": COST_FLAGS, "loss": LOSS_FLAGS}.get(metric, set()):
        logger.warning(
            f"--best-checkpoint-metric {metric}: its best begins anew; the run in {filename} had "
            f"{had}{' of other flags' * (had == metric)}"
        )
        extra_state.pop("best", None)
    elif record["patience"]:
        for module in train_modules():
            module.should_stop_early.best, module.should_stop_early.num_runs = record["patience"]
    return extra_state


def named(trainer: Any, filename: str) -> str:
    """Return the flag by which the user named a checkpoint, and the file."""
    flags = trainer.cfg.checkpoint
    if filename == flags.finetune_from_model:
        return f"--finetune-from-model {filename}"
    default = flags.restore_file == "checkpoint_last.pt"
    return f"{'--save-dir' if default else '--restore-file'} {filename}"


def misfit(error: BaseException, filename: str) -> str:
    """Return why the parameters in a checkpoint are not those of the model, from torch's words."""
    said = str(error.__context__)
    shapes = r"size mismatch for (\S*embed_tokens\S*): .*?\[(\d+), (\d+)\].*?\[(\d+), (\d+)\]"
    table = re.search(shapes, said)
    if table and table[3] == table[5]:
        return (
            f"its vocabulary has {table[2]} entries, the dictionary in DATA makes {table[4]} "
            f"({table[1]}); give the folder of fairseq-preprocess that the model was trained on, "
            "or binarise your text with its dictionaries (--srcdict, --tgtdict)"
        )
    first = re.search(r"size mismatch for [^\n]+|(?:Missing|Unexpected) key\(s\).*?\".*?\"", said)
    if first is None:
        return f"holds no parameters of a model ({_first_words(error.__context__ or error)})"
    return (
        f"a model of another shape ({first[0][:200]}); give --arch and the other flags with which "
        f"it was trained (simile model-flags {filename} prints them)"
    )


def _restore_interval(extra_state: dict[str, Any]) -> None:
    """Bring back the numbers since the last log line: fairseq forgets them where an epoch ended."""
    from fairseq.logging import metrics

    inner = extra_state.get("metrics", {}).get("train_inner")
    if inner is not None and extra_state["train_iterator"]["iterations_in_epoch"] == 0:
        metrics.load_state_dict({"train_inner": inner})


def check_version(record: dict[str, Any], path: str) -> None:
    """Raise InputError for a record that this version cannot read."""
    version = record.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"{path}: its {RECORD} record has format_version {version}, newer than "
            f"{FORMAT_VERSION}, the newest this version reads; update simile-plugin (the file was "
            f"written by {record.get('simile_plugin')}, this is {simile_plugin.__version__})"
        )

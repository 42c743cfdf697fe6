"""fairseq's checkpoints: written whole or not at all, and read with one clear line.

fairseq writes the first file of a save beside its name and renames it, but copies it over
checkpoint_last.pt and checkpoint_best.pt in place: a kill or a full disk there destroys the file
that the run resumes from. A checkpoint of a risk run also holds a record of ours,

    extra_state["simile_risk"] = {"format_version": 1, "simile_plugin": "0.1.0",
        "objective": {flag: value}, "metric": --best-checkpoint-metric,
        "patience": [best, validations without improvement] or None,
        "length_control": LengthControl.state(),
        **RunWatch.state()}

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
from simile_plugin.files import InputError, atomic_write

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
RECORD = "simile_risk"
DAMAGED = ("PytorchStreamReader", "unexpected EOF", "Invalid magic number", "zip archive")
REFUSED = "Weights only load failed"
UNPICKLER = "_weights_only_unpickler.py"  # torch's, which a cut file can make fail in any way
NOT_LOADED = "Cannot load model parameters from checkpoint"
# What a cost is; and what a loss is beside it.
COST_FLAGS = {"--reward", "--simile-encoder", "--simile-alpha"}
LOSS_FLAGS = COST_FLAGS | {"--mle-weight", "--label-smoothing", "--risk-cost-scale"}


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
    """Wrap ``load_checkpoint_to_cpu``: InputError for a file that is damaged or of another kind, or
    that torch refuses because it could run something."""
    try:
        return original(path, *args, **kwargs)
    except Exception as error:
        line = unread(path, error)
        if line is None:
            raise
        raise InputError(line) from error


def unread(path: str, error: Exception) -> str | None:
    """Return why a checkpoint could not be read, or None where the file is not to blame."""
    raised_in, text = last_file(error), str(error)
    if isinstance(error, pickle.UnpicklingError) and REFUSED in text:
        return refused(path, error)
    if isinstance(error, KeyError | AttributeError | TypeError | IndexError) and (
        raised_in.endswith("checkpoint_utils.py")  # it was read: a list, a tensor, ...
    ):
        return f"{path}: no checkpoint of fairseq's; {WANTED}"
    cut_short = isinstance(error, RuntimeError) and any(words in text for words in DAMAGED)
    if cut_short or isinstance(error, KeyError | EOFError | pickle.UnpicklingError):
        return damaged(path, error)
    if raised_in.endswith(UNPICKLER):
        return refused(path, error)
    return None


def refused(path: str, error: BaseException) -> str:
    """Return what was refused in a checkpoint; torch's advice is to switch the check off."""
    named = [f" ({line.strip()[:160]})" for line in str(error).splitlines() if "GLOBAL" in line]
    return (
        f"{path}: not read: it is damaged, or holds more than tensors, plain containers, settings "
        f"and numpy arrays, which could run anything{''.join(named[:1])}; get the file from whom "
        "you trust, or have them save it again with fairseq"
    )


def last_file(error: BaseException) -> str:
    """Return the source file in which ``error`` was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename if frames else ""


def damaged(path: str, error: BaseException) -> str:
    """Return which file is damaged, how long it is, and what to do."""
    return (
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
    if watch.objective_of(trainer) is not None:
        if extra_state is None:
            refuse_missing(trainer, filename)
        elif RECORD in extra_state and trainer.get_num_updates():
            resume(trainer, filename, extra_state, bool(kwargs.get("reset_meters")))
    return extra_state


def refuse_missing(trainer: Any, filename: str) -> None:
    """Raise InputError for a checkpoint that was asked for: fairseq begins from random weights.

    One of --save-dir need not be there.
    """
    if named(trainer, filename) != f"--save-dir {filename}" or os.path.lexists(filename):
        raise InputError(f"{named(trainer, filename)}: no such file; {WANTED}")


def resume(trainer: Any, filename: str, extra_state: dict[str, Any], reset_meters: bool) -> None:
    """Go on from the record of a checkpoint, and warn of what was changed.

    Args:
        reset_meters: validations begin anew; what is optimised goes on.
    """
    record = extra_state[RECORD]
    check_version(record, filename)
    changed = changed_flags(trainer, filename, record["objective"])
    trainer.get_criterion().length_control.restore(record["length_control"])
    if reset_meters:
        return
    _restore_interval(extra_state)
    watched = watch.watch_of(trainer)
    watched.restore(record)
    if changed & COST_FLAGS:
        watched.first = None  # its cost is not comparable
    restore_best(trainer, filename, extra_state, changed)


def changed_flags(trainer: Any, filename: str, before: dict[str, str]) -> set[str]:
    """Return the flags whose value is another than in a run's checkpoint, and warn of each."""
    objective = watch.objective_of(trainer) or {}
    changed = {name for name in objective.keys() & before.keys() if objective[name] != before[name]}
    for name in sorted(changed):
        logger.warning(
            f"{name}: the run in {filename} had {before[name]}, it goes on with {objective[name]}"
        )
    return changed


def restore_best(
    trainer: Any, filename: str, extra_state: dict[str, Any], changed: set[str]
) -> None:
    """Bring back the best validation and the patience, where this run's values compare with them.

    Args:
        changed: flags of the objective that were changed.
    """
    record, metric = extra_state[RECORD], trainer.cfg.checkpoint.best_checkpoint_metric
    had = record["metric"]
    if had != metric or changed & {"cost": COST_FLAGS, "loss": LOSS_FLAGS}.get(metric, set()):
        logger.warning(
            f"--best-checkpoint-metric {metric}: its best begins anew; the run in {filename} had "
            f"{had}{' of other flags' * (had == metric)}"
        )
        extra_state.pop("best", None)
    elif record["patience"]:
        for module in train_modules():
            module.should_stop_early.best, module.should_stop_early.num_runs = record["patience"]


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

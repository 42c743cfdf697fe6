"""The changes of a process that trains or translates: all of them stand in this file."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from simile_plugin.fairseq_hooks import (
    byte_pieces,
    checkpoints,
    errors,
    preflight,
    ranks,
    safe_eval,
    watch,
)
from simile_plugin.fairseq_hooks.patching import replace, to_undo, train_modules, undo, wrap
from simile_plugin.fairseq_hooks.torch_load import allow_fairseq_checkpoints
from simile_plugin.files import InputError
from simile_plugin.risk import attention_without_plans

_installed = False


def install() -> None:
    """Make fairseq load its checkpoints, validate before update 0 and explain itself in one line.

    Safe to call again; touches nothing outside this process.
    """
    global _installed
    if _installed:
        return
    _installed = True
    allow_fairseq_checkpoints()
    importlib.import_module("fairseq.models")  # imports all of them
    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq."):
            replace(module, "eval", safe_eval.evaluate)  # found before the built-in one
    let_mbart_find_its_settings()
    changed = ExitStack()
    changed.enter_context(attention_without_plans())
    to_undo(changed.close)
    for owner, name, around in wraps():
        wrap(owner, name, around)


def uninstall() -> None:
    """Take everything back; the inverse of :func:`install`, for tests."""
    global _installed
    undo()
    _installed = False


def wraps() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield (owner, name, function of ours); of two around one name, the later is outside."""
    from fairseq import checkpoint_utils, options, trainer
    from fairseq.data import ConcatDataset, data_utils, indexed_dataset
    from fairseq.distributed import utils
    from fairseq.file_io import PathManager
    from fairseq.optim.amp_optimizer import AMPOptimizer

    yield sys, "excepthook", errors.show
    yield options, "parse_args_and_arch", show_flags_with_help
    yield options, "parse_args_and_arch", let_bf16_run_on_a_gpu
    yield options, "parse_args_and_arch", name_a_missing_task_or_arch

    yield checkpoint_utils, "torch_persistent_save", checkpoints.save_whole
    yield checkpoint_utils, "load_checkpoint_to_cpu", checkpoints.load_or_explain
    yield PathManager, "copy", checkpoints.copy_whole
    yield trainer.Trainer, "save_checkpoint", checkpoints.save_with_record
    yield trainer.Trainer, "load_checkpoint", checkpoints.load_with_record
    yield trainer.Trainer, "get_train_iterator", checkpoints.same_batches_in_every_epoch

    yield data_utils, "post_process", byte_pieces.undo_bytes

    yield utils, "call_main", preflight.check_flags
    yield indexed_dataset, "make_dataset", preflight.check_data
    yield ConcatDataset, "__init__", preflight.check_shards
    yield trainer.Trainer, "__init__", preflight.check_settings
    yield trainer.Trainer, "valid_step", preflight.check_metric

    yield AMPOptimizer, "step", step_unscaled_once

    yield utils, "_broadcast_object_slow", ranks.broadcast
    yield utils, "_infer_torch_distributed_launch_init", ranks.launch_on_cpu_too
    yield trainer.Trainer, "train_step", ranks.fail_where_memory_ends
    yield trainer.Trainer, "train_step", ranks.without_empty_batches

    yield trainer, "NanDetector", watch.detect_forward_only
    yield trainer.Trainer, "__init__", watch.begin
    yield trainer.Trainer, "clip_grad_norm", watch.clip_or_skip
    yield trainer.Trainer, "_reduce_and_log_stats", watch.after_update
    for module in train_modules():
        yield module, "get_valid_stats", watch.judge_validation
        yield module, "validate_and_save", watch.stop_if_told
        yield module, "train", watch.train_watched


def let_mbart_find_its_settings() -> None:
    """Let ``translation_from_pretrained_bart`` load data: what it asks for is now ``cfg``."""
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

    replace(TranslationFromPretrainedBARTTask, "args", property(lambda task: task.cfg))


def step_unscaled_once(original: Callable[..., None], optimizer: Any) -> None:
    """Replace ``AMPOptimizer.step`` of --amp, which divides gradients by the loss scale twice.

    Clipping tells the scaler of torch's optimizer, and fairseq's step of its own wrapper.
    """
    optimizer.scaler.step(optimizer.optimizer)
    optimizer.scaler.update()


def let_bf16_run_on_a_gpu(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Wrap ``options.parse_args_and_arch``, which takes --bf16 for a TPU."""
    from fairseq import utils

    found = original(*args, **kwargs)
    parsed = found[0] if isinstance(found, tuple) else found
    if getattr(parsed, "bf16", False) and utils.xm is None:
        parsed.tpu = False
    return found


def name_a_missing_task_or_arch(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Wrap ``options.parse_args_and_arch``: name a missing --arch or --task."""
    try:
        return original(*args, **kwargs)
    except KeyError as error:
        if error.args != (None,):
            raise
        raise InputError(
            "--task: not given; expected translation, or the task that the model was trained with"
        ) from error
    except RuntimeError as error:
        if error.args:
            raise
        raise InputError(
            "--arch: not given; expected that of the model, and its other flags "
            "(simile model-flags CHECKPOINT prints them)"
        ) from error


def show_flags_with_help(
    original: Callable[..., Any], parser: argparse.ArgumentParser, *args: Any, **kwargs: Any
) -> Any:
    """Wrap ``options.parse_args_and_arch``: --criterion simile_risk --help explains its flags.

    fairseq answers --help before it adds the flags of the chosen criterion.
    """
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    known = CRITERION_DATACLASS_REGISTRY.get(watch.CRITERION)
    chosen = {watch.CRITERION, f"--criterion={watch.CRITERION}"} & set(sys.argv)
    if known and chosen and {"-h", "--help"} & set(sys.argv):
        parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
        group = parser.add_argument_group(f"flags of --criterion {watch.CRITERION}")
        gen_parser_from_dataclass(group, known())
    return original(parser, *args, **kwargs)

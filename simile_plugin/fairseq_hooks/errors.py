"""What fairseq 0.12 needs on current Python and torch; each fix stands beside its reason."""

from __future__ import annotations

import argparse
import atexit
import errno
import importlib
import os
import pickle
import sys
import traceback
from types import TracebackType
from typing import Any

import torch

from simile_plugin.fairseq_hooks import checkpoints, ranks, watch
from simile_plugin.fairseq_hooks.literal import evaluate
from simile_plugin.files import InputError

PACKAGE = os.path.dirname(os.path.dirname(__file__))
TRACEBACK_VARIABLE = "SIMILE_TRACEBACK"
TOO_LONG = "--skip-invalid-size-inputs-valid-test"
NO_WRITING = (errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT)
UNSAFE_VARIABLE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def install() -> None:
    """Make fairseq load its checkpoints, validate before update 0 and explain itself in one line.

    Safe to call again; touches nothing outside this process.
    """
    allow_fairseq_checkpoints()
    evaluate_literals_only()
    allow_fairseq_broadcasts()
    let_mbart_find_its_settings()
    validate_before_first_update()
    checkpoints.install()
    ranks.install()
    watch.install()
    explain_in_one_line()


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load`` read fairseq's checkpoints while it keeps refusing everything else.

    torch >= 2.6 loads tensors and plain containers only. fairseq's checkpoints also hold the
    parsed command line (argparse.Namespace) and, where a task logged arrays (``--eval-bleu``),
    numpy arrays in the meters. These types cannot run code when they are built. The variable
    TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD, a common way around torch's refusal, would let any file run
    anything; it is not needed here and is taken out of this process's environment.
    """
    import numpy

    if os.environ.pop(UNSAFE_VARIABLE, None) is not None:
        print(f"{UNSAFE_VARIABLE} is not needed and has been unset", file=sys.stderr)

    multiarray = getattr(numpy, "_core", None) or numpy.core  # renamed in numpy 2
    reconstruct = multiarray.multiarray._reconstruct
    scalar = multiarray.multiarray.scalar
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            numpy.ndarray,
            numpy.dtype,
            *(type(numpy.dtype(kind)) for kind in ("float64", "float32", "int64", "int32")),
            # Checkpoints written under numpy 1 name the same functions by the old module path.
            reconstruct,
            (reconstruct, "numpy.core.multiarray._reconstruct"),
            scalar,
            (scalar, "numpy.core.multiarray.scalar"),
        ]
    )


def evaluate_literals_only() -> None:
    """Make fairseq read settings such as fconv's ``[(512, 3)] * 4`` without running them.

    A checkpoint names its architecture and holds the settings as strings, and fairseq-generate
    builds the model by ``eval`` of some of them: a file of tensors and plain containers could run
    anything. Every module of fairseq gets a reader of literals under the name ``eval``.
    """
    importlib.import_module("fairseq.models")  # imports all of them
    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq."):
            vars(module)["eval"] = evaluate  # found before the built-in one


def allow_fairseq_broadcasts() -> None:
    """Let several processes start from one checkpoint.

    The first process reads it and sends it on through ``torch.load``, with a parsed command line
    (omegaconf) in it that the others' torch >= 2.6 refuses: they die and the first one waits.
    Here it goes through torch's own exchange of objects; it comes from the same job, not from a
    file.
    """
    from fairseq.distributed import utils

    def broadcast(obj: Any, src_rank: int, group: Any, dist_device: torch.device) -> Any:
        held = [obj]
        torch.distributed.broadcast_object_list(held, src_rank, group, dist_device)
        return held[0]

    utils._broadcast_object_slow = broadcast


def let_mbart_find_its_settings() -> None:
    """Let ``translation_from_pretrained_bart`` load data: what it asks for is now ``cfg``."""
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

    if not hasattr(TranslationFromPretrainedBARTTask, "args"):
        TranslationFromPretrainedBARTTask.args = property(lambda task: task.cfg)


def validate_before_first_update() -> None:
    """Make fairseq-train validate once at update 0 of a simile_risk run.

    Fine-tuning starts from a trained model, and a validation curve without its first point hides
    what the fine-tuning changed; fairseq validates only after updates.
    """
    from fairseq_cli import train as fairseq_train

    _validate_first(fairseq_train)
    main = sys.modules["__main__"]
    if hasattr(main, "validate_and_save"):  # python -m fairseq_cli.train, torchrun: a second copy
        _validate_first(main)


def _validate_first(module: Any) -> None:
    original = module.train
    if getattr(original, "validates_first", False):
        return

    def train(cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
        criterion = getattr(cfg.criterion, "_name", None)
        wanted = criterion == "simile_risk" and not cfg.dataset.disable_validation
        if wanted and trainer.get_num_updates() == 0:
            subsets = cfg.dataset.valid_subset.split(",")
            module.validate(cfg, trainer, task, epoch_itr, subsets)
        return original(cfg, trainer, task, epoch_itr)

    train.validates_first = True  # type: ignore[attr-defined]
    module.train = train


def show_flags_with_help(criterion: str, config: Any) -> None:
    """Let ``fairseq-train --criterion NAME --help`` end with the criterion's own flags.

    fairseq answers --help before it adds the flags of the chosen criterion, so that they stay
    unexplained.

    Args:
        criterion: registered name.
        config: an instance of its dataclass.
    """
    if criterion not in sys.argv or not {"-h", "--help"} & set(sys.argv):
        return
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    parser = argparse.ArgumentParser(
        prog="", usage=argparse.SUPPRESS, description=f"flags of --criterion {criterion}:",
        add_help=False, allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )  # fmt: skip
    gen_parser_from_dataclass(parser, config)
    atexit.register(parser.print_help)


def explain_in_one_line() -> None:
    """Print errors of bad input as one line; ``SIMILE_TRACEBACK=1`` shows the traceback again."""
    previous = sys.excepthook
    if getattr(previous, "one_line", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        line = None if os.environ.get(TRACEBACK_VARIABLE) else one_line(error)
        if line is None:
            previous(kind, error, trace)
        else:
            print(f"{os.path.basename(sys.argv[0])}: error: {line}", file=sys.stderr)

    hook.one_line = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def one_line(error: BaseException) -> str | None:
    """The line that says what a user did wrong, or None if ``error`` is not a user's mistake."""
    if isinstance(error, pickle.UnpicklingError) or _in_unpickler(error):
        return refused_checkpoint(error)
    frames = traceback.extract_tb(error.__traceback__)
    ours = bool(frames) and PACKAGE in frames[-1].filename
    if isinstance(error, InputError) or (isinstance(error, OSError) and ours):
        return str(error)
    if isinstance(error, FloatingPointError):
        return f"{error}" if ours else f"{error} For risk training: {watch.ADVICE}"
    if isinstance(error, FileNotFoundError) and "dict." in os.path.basename(error.filename or ""):
        return (
            f"{error.filename}: no such dictionary; expected a folder made by fairseq-preprocess "
            "with dict.SRC.txt and dict.TGT.txt (check DATA, --source-lang and --target-lang)"
        )
    if isinstance(error, OSError) and error.errno in NO_WRITING and error.filename:
        path = str(error.filename)
        if os.path.basename(path) == "dummy":  # fairseq tries whether it can write there
            path = f"--save-dir {os.path.dirname(path)}"
        return f"{path}: {error.strerror}; name a folder that can be written, or make room"
    if TOO_LONG in str(error):
        return f"a sentence of a validation set is too long for the model: {error}"
    return ranks.explain(error)


def _in_unpickler(error: BaseException) -> bool:
    """Of torch's restricted unpickler, which a cut file can make fail in any way."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.endswith("_weights_only_unpickler.py")


def refused_checkpoint(error: BaseException) -> str:
    """What was refused in which checkpoint; torch's own advice is to switch the check off."""
    trace, path = error.__traceback__, "checkpoint"
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "load_checkpoint_to_cpu":
            path = str(trace.tb_frame.f_locals.get("path", path))
        trace = trace.tb_next
    named = [f" ({line.strip()[:160]})" for line in str(error).splitlines() if "GLOBAL" in line]
    return (
        f"{path}: not read: it is damaged, or holds more than tensors, plain containers, settings "
        f"and numpy arrays, which could run anything{''.join(named[:1])}; get the file from whom "
        "you trust, or have them save it again with fairseq"
    )

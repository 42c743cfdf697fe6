"""One line for an error that a user can mend; ``SIMILE_TRACEBACK=1`` shows the traceback."""

from __future__ import annotations

import errno
import os
import pickle
import re
import sys
from collections.abc import Callable
from types import TracebackType

from simile_plugin.fairseq_hooks import ranks, watch
from simile_plugin.fairseq_hooks.checkpoints import last_file, refused
from simile_plugin.files import InputError

PACKAGE = os.path.dirname(os.path.dirname(__file__))
TRACEBACK_VARIABLE = "SIMILE_TRACEBACK"
NO_WRITING = (errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR)
# fairseq's own words -> ours; {0} is its message, {1} and {2} are the groups.
FAIRSEQ_SAYS = {
    "--skip-invalid-size-inputs-valid-test": (
        "a sentence of a validation set is too long for the model: {0}"
    ),
    r"Dataset not found: (\S+) \((.*)\)": (
        "{2}: no data {1}.SRC-TGT.SRC.idx and .bin; expected a folder made by fairseq-preprocess "
        "(check DATA, --train-subset and --valid-subset; --disable-validation needs no valid data)"
    ),
    "Model file not found: (.*)": "--path {1}: no such file; expected one that fairseq-train saved",
    "Could not infer language pair": (
        "DATA: no file in it is called like train.SRC-TGT.SRC.idx; expected a folder made by "
        "fairseq-preprocess, or --source-lang and --target-lang"
    ),
    r"(?:Criterion|Optimizer) does not match.* (\S+) vs (\S+)": (
        "--save-dir or --restore-file: the checkpoint there is of a run with {1}, this one has "
        "{2}; name another --save-dir and give the checkpoint to --finetune-from-model"
    ),
    "The dataset is empty": (
        "DATA: no sentence is left to train on, or to validate; expected some that are within "
        "--max-tokens, --max-source-positions and --max-target-positions, and not empty"
    ),
    "Incorrect dictionary format|Incorrect encoding detected|Duplicate word found": (
        "DATA: a dict.*.txt is not a dictionary of fairseq-preprocess ({0}); copy it again, or run "
        "fairseq-preprocess again"
    ),
    # What it says of flags is clear by itself; all settings may follow.
    r"^((?:Must specify|Valid paths|--[a-z])[^\n{]*)": "{1}",
}


def show(
    original: Callable[..., None],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Wrap ``sys.excepthook``."""
    line = None if os.environ.get(TRACEBACK_VARIABLE) else one_line(error)
    if line is None:
        original(kind, error, trace)
    else:
        print(f"{os.path.basename(sys.argv[0])}: error: {line}", file=sys.stderr)


def one_line(error: BaseException) -> str | None:
    """Return the line that says what a user can do about ``error``, or None if it is a bug."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, pickle.UnpicklingError):  # of a file that is no checkpoint of fairseq's
        return refused("torch.load", error)
    if isinstance(error, FloatingPointError):
        return f"{error} For risk training: {watch.ADVICE}"
    if isinstance(error, OSError) and (line := _file_error(error)):
        return line
    for words, line in FAIRSEQ_SAYS.items():
        if found := re.search(words, str(error)):
            return line.format(" ".join(str(error).split()), *found.groups())
    return ranks.explain(error)


def _file_error(error: OSError) -> str | None:
    name = str(error.filename or "")
    if isinstance(error, FileNotFoundError) and "dict." in os.path.basename(name):
        return (
            f"{name}: no such dictionary; expected a folder made by fairseq-preprocess "
            "with dict.SRC.txt and dict.TGT.txt (check DATA, --source-lang and --target-lang)"
        )
    if error.errno in NO_WRITING and name:
        return f"{name}: {error.strerror}; name a folder that can be written, or make room"
    return str(error) if last_file(error).startswith(PACKAGE) else None

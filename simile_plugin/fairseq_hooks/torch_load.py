"""fairseq's checkpoints under torch >= 2.6, which reads tensors and plain containers only."""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from typing import Any

import numpy
import torch

from simile_plugin.fairseq_hooks.patching import to_undo
from simile_plugin.files import InputError

UNSAFE_VARIABLE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load`` read fairseq's checkpoints while it keeps refusing everything else.

    fairseq's checkpoints also hold the parsed command line (argparse.Namespace) and, where a task
    logged arrays (``--eval-bleu``), numpy arrays in the meters. These types cannot run code when
    they are built. The variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD, a common way around torch's
    refusal, would let any file run anything; it is not needed here and is taken out of this
    process's environment.
    """
    unsafe = os.environ.pop(UNSAFE_VARIABLE, None)
    if unsafe is not None:
        print(f"{UNSAFE_VARIABLE} is not needed and has been unset", file=sys.stderr)
        to_undo(lambda: os.environ.update({UNSAFE_VARIABLE: unsafe}))
    before = torch.serialization.get_safe_globals()
    # What pickle calls to build an array and a number of numpy's.
    reconstruct: Any = numpy.zeros(0).__reduce__()[0]
    scalar: Any = numpy.float64(0).__reduce__()[0]
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
    to_undo(lambda: torch.serialization.add_safe_globals(before))
    to_undo(torch.serialization.clear_safe_globals)


WANTED = "expected a file that fairseq-train has saved"


def read_checkpoint(path: str) -> dict[str, Any]:
    """Return a checkpoint as fairseq wrote it: nothing in it is run, and nothing upgraded.

    Call :func:`allow_fairseq_checkpoints` before. Tensors stay in the file until they are used.

    Raises:
        InputError: for a file that cannot be read, or that holds something else.
    """
    try:
        mapped = zipfile.is_zipfile(path)  # torch < 1.6 wrote no zip files
        state = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; {WANTED}") from error
    except Exception as error:
        hub = "; a Hugging Face model is trained by simile finetune-hf"
        raise InputError(
            f"{path}: not a fairseq checkpoint ({type(error).__name__}); {WANTED}"
            f"{hub if path.endswith(('.safetensors', '.bin')) else ''}"
        ) from error
    return state if isinstance(state, dict) else {}

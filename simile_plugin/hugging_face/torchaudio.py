"""transformers imports torchaudio, unasked, wherever it is installed."""

import contextlib
import importlib
import sys


def leave_out_if_broken() -> None:
    """Hide a torchaudio whose import fails, as every import of a model would with it."""
    with contextlib.suppress(ImportError):  # there is none
        try:
            importlib.import_module("torchaudio")
        except OSError:  # fairseq brings it along, and it was built for another torch (CUDA or not)
            sys.modules["torchaudio"] = None  # type: ignore[assignment]

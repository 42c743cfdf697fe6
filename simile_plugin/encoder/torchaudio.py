"""transformers, and so sentence-transformers, imports torchaudio wherever it is installed."""

import importlib
import sys


def hide_broken_torchaudio() -> None:
    """Hide a torchaudio whose import fails, as every import of a model would with it.

    fairseq brings it along, and it may have been built for another torch (CUDA or not: OSError;
    for another CUDA: RuntimeError).
    """
    try:
        importlib.import_module("torchaudio")
    except Exception:
        sys.modules["torchaudio"] = None  # type: ignore[assignment]

"""fairseq brings torchaudio along, of which transformers imports what it never uses for text."""

import importlib
import sys


def leave_out_if_broken() -> None:
    """Let transformers do without a torchaudio that was built for another torch.

    Its import fails with an OSError then (a CUDA build beside a CPU torch), and every model's with
    it. A torchaudio that works stays as it is.
    """
    try:
        importlib.import_module("torchaudio")
    except OSError:
        sys.modules["torchaudio"] = None  # type: ignore[assignment]
    except ImportError:
        pass

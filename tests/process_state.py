"""What a process is made of, as far as the plugin could change it."""

import atexit
import os
import sys
from typing import Any

import torch

FAIRSEQ = ("fairseq", "torch.distributed.distributed_c10d")
MADE_BY_PYTHON = {"__abstractmethods__", "_abc_impl"}


def state() -> dict[Any, Any]:
    """Every attribute of fairseq's modules and classes, and what else stands in a process."""
    found: dict[Any, Any] = {
        "hook": sys.excepthook,
        "argv": list(sys.argv),
        "environment": dict(os.environ),
        "safe": {str(one) for one in torch.serialization.get_safe_globals()},
        "at exit": atexit._ncallbacks(),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith(FAIRSEQ):
            for key, value in list(vars(module).items()):
                found[name, key] = value
                if isinstance(value, type) and value.__module__.startswith("fairseq"):
                    found |= {(name, key, part): inner for part, inner in vars(value).items()}
    return found


def changed(before: dict[Any, Any], after: dict[Any, Any]) -> list[Any]:
    """The keys whose value is another: objects by identity, what was copied by value."""

    def same(key: Any) -> bool:
        if key not in before or key not in after:
            return False
        if isinstance(key, tuple) or key == "hook":
            return before[key] is after[key]
        return bool(before[key] == after[key])

    keys = sorted(before.keys() | after.keys(), key=str)
    return [key for key in keys if not same(key) and key[-1] not in MADE_BY_PYTHON]

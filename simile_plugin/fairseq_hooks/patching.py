"""Puts a function of ours around one of fairseq's, once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace ``owner.name`` by a function that calls ``around(original, *arguments)``.

    A second wrap by the same function changes nothing.
    """
    original = getattr(owner, name)
    done: tuple[str, ...] = getattr(original, "simile_wraps", ())
    mark = f"{around.__module__}.{around.__qualname__}"
    if mark in done:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    wrapped.simile_wraps = (*done, mark)  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)


def train_modules() -> list[ModuleType]:
    """fairseq-train's module, and its second copy where it runs as the main program."""
    from fairseq_cli import train

    main = sys.modules["__main__"]
    return [train, main] if hasattr(main, "validate_and_save") else [train]

"""The one way in which fairseq is changed here: an attribute is replaced, and put back by undo."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MISSING = object()
_undo: list[Callable[[], object]] = []


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace ``owner.name`` by a function that calls ``around(original, *arguments)``."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    static = isinstance(vars(owner)[name], staticmethod)
    replace(owner, name, staticmethod(wrapped) if static else wrapped)


def replace(owner: Any, name: str, value: Any) -> None:
    """Set ``owner.name``, of a module or a class, until :func:`undo`."""
    before = vars(owner).get(name, _MISSING)
    if before is _MISSING:
        to_undo(functools.partial(delattr, owner, name))
    else:
        to_undo(functools.partial(setattr, owner, name, before))
    setattr(owner, name, value)


def to_undo(step: Callable[[], object]) -> None:
    """Let :func:`undo` call ``step``, for changes that are no attribute."""
    _undo.append(step)


def undo() -> None:
    """Take back all changes, the last one first."""
    while _undo:
        _undo.pop()()


def train_modules() -> list[ModuleType]:
    """Return fairseq-train's module, and its second copy where it is the main program."""
    from fairseq_cli import train

    main = sys.modules["__main__"]
    return [train, main] if hasattr(main, "validate_and_save") else [train]

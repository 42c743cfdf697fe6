"""Faces of rooms of which a part is slow to import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def imported_later(room: str, modules: Sequence[str], names: Sequence[str]) -> Callable[[str], Any]:
    """Return a face's ``__getattr__``, which imports modules when one of their names is asked for.

    Args:
        room: the face's ``__name__``.
        modules: of the room.
        names: the face's ``__all__``.
    """

    def find(name: str) -> Any:
        if name in names:
            for module in modules:
                found = vars(import_module(f"{room}.{module}"))
                if name in found:
                    return found[name]
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    return find

"""The kinds of encoders by name, and the tokens that each of them reads."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simile_plugin.encoder.tokens import MIX
from simile_plugin.files import InputError


@dataclass(frozen=True)
class Kind:
    """A kind of encoder.

    Attributes:
        tokens: names of the tokens it can read, see tokens.TOKENS; the first is the default.
        make: embedding length and settings -> its Composer; None for the average.
        mixes: True if it can be a part of a mixture, which adds vectors of bags of tokens.
    """

    tokens: tuple[str, ...]
    make: Callable[[int, dict[str, Any]], Any] | None = None
    mixes: bool = True


KINDS = {name: Kind((name,)) for name in ("sp", "word", "trigram")}
PACKAGE_KINDS = tuple(KINDS)
# Kinds outside the package come from the module that the user names, which calls register_kind,
# and from installed entry points, named as the kind, whose object is a Kind.
KINDS_MODULE = "SIMILE_KINDS"
ENTRY_POINTS = "simile.encoder_kinds"


def register_kind(name: str, kind: Kind) -> None:
    """Add a kind of encoder, or replace the kind of that name.

    Raises:
        ValueError: for the name of a kind of the package, or a name with the sign of mixtures.
    """
    if name in PACKAGE_KINDS or not name or MIX in name:
        raise ValueError(
            f"register_kind: got {name!r}, expected a name without {MIX!r} that is none of "
            f"{', '.join(PACKAGE_KINDS)}"
        )
    KINDS[name] = kind


def import_named_kinds() -> None:
    """Import the module that SIMILE_KINDS names, which registers its kinds.

    Raises:
        InputError: for a module that is not on the path of Python.
    """
    module = os.environ.get(KINDS_MODULE, "")
    if not module:
        return
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        # If the named module exists, and imports another that does not, that is its bug: traceback.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InputError(
            f"{KINDS_MODULE}: got {module!r}, expected a module on PYTHONPATH that calls "
            "register_kind, as those under recipes/papers do"
        ) from None


def register_installed(name: str) -> None:
    """Register the kind of that name from the entry points of installed packages, if any."""
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS, name=name):
        register_kind(name, entry.load())


def find_kind(name: str) -> Kind:
    """Return the kind of that name, or the mixture of several kinds (`sp+trigram`).

    Raises:
        InputError: for a name that is no kind, and no mixture of kinds.
    """
    parts = name.split(MIX)
    if not set(parts) <= set(KINDS):
        import_named_kinds()
        for part in set(parts) - set(KINDS):
            register_installed(part)
    for part in parts:
        if part not in KINDS:
            raise InputError(
                f"kind: got {part!r}, expected one of {', '.join(KINDS)}; a kind of "
                f"recipes/papers needs {KINDS_MODULE}=MODULE, the module that registers it"
            )
        if len(parts) > 1 and (not KINDS[part].mixes or parts.count(part) > 1):
            raise InputError(
                f"kind: got {name!r}, expected a mixture of different ones of "
                f"{', '.join(kind for kind in KINDS if KINDS[kind].mixes)}"
            )
    if len(parts) == 1:
        return KINDS[name]
    kinds = [KINDS[part] for part in parts]
    tokens = MIX.join(kind.tokens[0] for kind in kinds)
    return Kind((tokens,), next((kind.make for kind in kinds if kind.make is not None), None))

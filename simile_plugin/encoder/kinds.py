"""The kinds of encoders by name, and the tokens that each of them reads."""

from __future__ import annotations

import importlib
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
        mixes: whether it can be a part of a mixture, which adds vectors of bags of tokens.
    """

    tokens: tuple[str, ...]
    make: Callable[[int, dict[str, Any]], Any] | None = None
    mixes: bool = True


KINDS = {name: Kind((name,)) for name in ("sp", "word", "trigram")}
# Its KINDS, attributes of each, are added when a kind is named that is none of the above, so that
# folders of the papers' other kinds are read wherever a folder is. By name: the core does not
# import it.
OTHER_KINDS = "simile_plugin.contrib.encoder_kinds"


def find_kind(name: str) -> Kind:
    """Return the kind of that name, or what a mixture of kinds is (`sp+trigram`).

    Raises:
        InputError: for what is no kind, and no mixture of kinds.
    """
    parts = name.split(MIX)
    if not set(parts) <= set(KINDS):
        others = importlib.import_module(OTHER_KINDS).KINDS
        KINDS.update({kind: Kind(*attributes) for kind, attributes in others.items()})
    for part in parts:
        if part not in KINDS:
            raise InputError(f"kind: got {part!r}, expected one of {', '.join(KINDS)}")
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

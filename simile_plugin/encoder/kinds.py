"""The kinds of encoders by name, and what each of them reads."""

from __future__ import annotations

from simile_plugin.encoder.tokens import MIX
from simile_plugin.files import InputError

COMBINE = ("mean", "concat")
MIXTURES = ("add", "concat")
# Kind of encoder -> what it splits sentences into; None: as --tokens says.
KINDS: dict[str, str | None] = {
    "sp": "sp",
    "word": "word",
    "trigram": "trigram",
    "charagram": "ngram",
    "lstm": None,
    "blstm": None,
    "gran": None,
    "transformer": "sp",
}
TRANSFORMER = "transformer"  # made by simile_plugin.contrib.bgt, not by simile train-encoder
RECURRENT = tuple(kind for kind, tokens in KINDS.items() if tokens is None)
UNMIXED = (*RECURRENT, TRANSFORMER)  # they read tokens in turn, a mixture adds bags
SEQUENCE_TOKENS = ("sp", "word", "trigram")


def check_kind(kind: str) -> None:
    """Raise InputError for what is no kind, and no mixture of kinds."""
    parts = kind.split(MIX)
    for part in parts:
        if part not in KINDS:
            raise InputError(f"kind: got {part!r}, expected one of {', '.join(KINDS)}")
        if len(parts) > 1 and (part in UNMIXED or parts.count(part) > 1):
            raise InputError(
                f"kind: got {kind!r}, expected a mixture of different ones of "
                f"{', '.join(name for name in KINDS if name not in UNMIXED)}"
            )


def possible_tokens(kind: str) -> tuple[str, ...]:
    """The kinds of tokens that a kind of encoder, or a mixture, can read."""
    if kind in RECURRENT:
        return SEQUENCE_TOKENS
    return (MIX.join(str(KINDS[part]) for part in kind.split(MIX)),)

"""Pieces <0x00> to <0xFF>, as sentencepiece with byte fallback writes rare characters, as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

_is_byte = re.compile(r"<0x[0-9A-F]{2}>").fullmatch


def join_bytes(tokens: Iterable[str]) -> str:
    """Join the pieces of a sentence; those of bytes in a row are UTF-8, U+FFFD where they are not.

    >>> join_bytes(["a", "<0xC5>", "<0x81>"])
    'a\\u0141'
    """
    tokens = list(tokens)
    found = "".join(tokens)
    if "<0x" not in found:  # as nearly every sentence
        return found
    found = ""
    for of_bytes, some in groupby(tokens, lambda token: bool(_is_byte(token))):
        if of_bytes:
            found += bytes(int(token[3:5], 16) for token in some).decode("utf-8", "replace")
        else:
            found += "".join(some)
    return found


def undo_bytes(original: Callable[..., str], sentence: str, symbol: Any) -> str:
    """Wrap ``data_utils.post_process``, which leaves them in what fairseq-generate writes."""
    if symbol == "sentencepiece" and "<0x" in sentence:
        sentence = join_bytes(sentence.split(" "))
    return original(sentence, symbol)

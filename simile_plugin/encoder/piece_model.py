"""Pieces, scores and normaliser of a sentencepiece model file.

Read off the file (a protocol buffer, https://protobuf.dev/programming-guides/encoding) because
sentencepiece's own reader needs the package protobuf, and its processor does not tell most of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from simile_plugin.files import InputError

SPACE_MARK = "\u2581"  # sentencepiece writes a word's leading space as this character
UNIGRAM, BPE = 1, 2  # TrainerSpec.ModelType
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # SentencePiece.Type

Value = int | bytes


@dataclass(frozen=True)
class PieceModel:
    """Parts of sentencepiece's ModelProto; defaults are those of its definition.

    Attributes:
        pieces, scores, types: of each id.
        model_type: UNIGRAM, BPE or another number.
        charsmap: the normaliser's compiled rules; empty for none.
    """

    pieces: list[str]
    scores: list[float]
    types: list[int]
    model_type: int = UNIGRAM
    whitespace_as_suffix: bool = False
    charsmap: bytes = field(default=b"", repr=False)
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True

    @property
    def segments_words_apart(self) -> bool:
        """True where a word's pieces do not depend on its neighbours, but for rounding of scores.

        For this every word must begin with a mark that is a piece by itself, no piece and no rule
        of the normaliser may reach over a space, and nothing else may happen at a word's edges.
        """
        if self.model_type not in (UNIGRAM, BPE) or self.whitespace_as_suffix:
            return False
        if not (self.add_dummy_prefix and self.remove_extra_whitespaces):
            return False
        reaches_over = any(SPACE_MARK in piece[1:] or " " in piece for piece in self.pieces)
        mark_is_normal = any(
            piece == SPACE_MARK and kind == NORMAL
            for piece, kind in zip(self.pieces, self.types, strict=True)
        )
        return (
            self.escape_whitespaces
            and mark_is_normal
            and not reaches_over
            and not rules_reach_over_spaces(self.charsmap)
        )


def read_piece_model(data: bytes) -> PieceModel:
    """Read the bytes of a sentencepiece model.

    Raises:
        InputError: if they are of another kind.
    """
    pieces: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    settings: dict[str, int | bytes | bool] = {}
    try:
        for number, value in _fields(data):
            if number == 1:
                parts = dict(_fields(_bytes(value)))
                pieces.append(_bytes(parts.get(1, b"")).decode())
                scores.append(struct.unpack("<f", _bytes(parts.get(2, bytes(4))))[0])
                types.append(_int(parts.get(3, NORMAL)))
            elif number == 2:
                trainer = dict(_fields(_bytes(value)))
                settings["model_type"] = trainer.get(3, UNIGRAM)
                settings["whitespace_as_suffix"] = bool(trainer.get(24, 0))
            elif number == 3:
                rules = dict(_fields(_bytes(value)))
                settings["charsmap"] = rules.get(2, b"")
                settings["add_dummy_prefix"] = bool(rules.get(3, 1))
                settings["remove_extra_whitespaces"] = bool(rules.get(4, 1))
                settings["escape_whitespaces"] = bool(rules.get(5, 1))
    except (IndexError, struct.error, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"not a sentencepiece model ({error})") from error
    return PieceModel(pieces, scores, types, **settings)  # type: ignore[arg-type]


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message: number, and an integer or the bytes of anything else."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        wire = key & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if wire == 2:
            size, position = _varint(data, position)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise TypeError(f"wire type {wire}")
        if position + size > len(data):
            raise IndexError("truncated")
        yield key >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a number where bytes are expected")
    return value


def _int(value: Value) -> int:
    if not isinstance(value, int):
        raise TypeError("bytes where a number is expected")
    return value


def rules_reach_over_spaces(charsmap: bytes) -> bool:
    """Return True where a normaliser rule replaces a space, alone or with its neighbours.

    The rules are a size, a double-array trie of that many bytes (darts-clone) with the replaced
    UTF-8 texts as keys, and their replacements. A false alarm is possible (a unit of
    the array that belongs to no key), a miss is not.
    """
    if not charsmap:
        return False
    size = int.from_bytes(charsmap[:4], "little")
    units = np.frombuffer(charsmap[4 : 4 + size], dtype="<u4").astype(np.int64)
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    labels = units & ((1 << 31) | 0xFF)

    space = ord(" ")
    children = np.arange(len(units)) ^ offsets ^ space
    inside = children < len(units)
    followed = inside & (labels[np.where(inside, children, 0)] == space)
    # A unit whose label is above 255 is the end of a key, not a byte of one.
    return bool((followed & (labels < 256)).any())

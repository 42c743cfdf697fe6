"""Paraphrase pairs: lines of a TSV -> preprocessed sentences -> flat arrays of their tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder import Preprocessing, Tokenizer, types_of
from simile_plugin.encoder_training.tokenizers import of_prepared, say
from simile_plugin.encoder_training.tsv import FIRST_TWO, Block, Columns, TsvInput
from simile_plugin.files import InputError

SHOWN = 5  # bad lines that are reported; the rest is only counted
NO_PIECE = "side without a known piece"


@dataclass
class BadLines:
    """Lines without a pair: their number by reason, and the first few as file:line."""

    strict: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def add(self, name: str, line: int, reason: str) -> None:
        """Count a line; with ``strict`` raise InputError instead."""
        message = f"{name}:{line}: {reason}"
        if self.strict:
            raise InputError(f"{message}; expected sentence TAB paraphrase (--strict)")
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(self.examples) < SHOWN:
            self.examples.append(message)

    @property
    def total(self) -> int:
        """The number of bad lines."""
        return sum(self.counts.values())

    def summary(self) -> str:
        """Return a line of text: total, count of each reason, first examples."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.counts.items())
        more = ", ..." if self.total > len(self.examples) else ""
        return f"{self.total} lines skipped ({reasons}): {', '.join(self.examples)}{more}"

    def warn(self) -> None:
        """Print the summary on standard error, if lines were skipped."""
        if self.total:
            say(f"warning: {self.summary()}")

    def no_pair(self, paths: Sequence[str]) -> InputError:
        """Return the error for input without a pair."""
        skipped = f"; {self.summary()}" if self.total else ""
        return InputError(
            f"{', '.join(paths)}: no pair found, expected lines of sentence TAB paraphrase{skipped}"
        )


@dataclass(frozen=True)
class TextBlock:
    """The pairs of a block of lines, as text."""

    numbers: list[int]  # line of each pair
    sentences: list[str]  # preprocessed; the sides of a pair follow each other
    hashes: NDArray[np.uint64]  # (2n,) of the sentences; equal ones have equal hashes
    accepted: bytes  # the lines that enter the data's digest


@dataclass(frozen=True)
class TextPairs:
    """All pairs of small input, as text."""

    blocks: list[TextBlock]
    digest: str  # 16 hex digits of sha256 over the accepted lines: the training data's hash
    skipped: int  # lines that gave no pair

    def __len__(self) -> int:
        return sum(len(block.numbers) for block in self.blocks)

    @cached_property
    def sentences(self) -> list[str]:
        """Each distinct preprocessed sentence once."""
        return list(dict.fromkeys(chain.from_iterable(block.sentences for block in self.blocks)))


class Tokens(NamedTuple):
    """Sentences as tokens."""

    ids: NDArray[np.integer]  # (P,) known tokens of all sentences, concatenated
    lengths: NDArray[np.int64]  # (S,) number of them of each sentence
    hashes: NDArray[np.uint64]  # (S,)


@dataclass(frozen=True)
class Pairs:
    """Pairs as tokens, ready for training: in memory, or mapped from a folder on disk.

    Sentences 2i and 2i + 1 are the sides of pair i.
    """

    ids: NDArray[np.integer]  # (P,) uint16 or uint32, known tokens, sentence after sentence
    offsets: NDArray[np.int64]  # (S + 1,) sentence s is ids[offsets[s]:offsets[s + 1]]
    hashes: NDArray[np.uint64]  # (S,) of the preprocessed sentences; equal ones have equal hashes
    digest: str  # the training data's hash

    def __len__(self) -> int:
        return len(self.hashes) // 2

    def pair_rows(self, chosen: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return sentences (m, 2) of the chosen pairs (m,)."""
        return 2 * chosen.astype(np.int64)[:, None] + np.arange(2)

    def bags(self, sentences: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the pieces of the given sentences: flat ids (P,), the start of each bag."""
        begin = self.offsets[sentences]
        lengths = self.offsets[sentences + 1] - begin
        ends = np.cumsum(lengths)
        starts = ends - lengths
        positions = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - starts, lengths)
        return self.ids[positions].astype(np.int64), starts


def sentence_hash(prepared: str) -> int:
    """Return a 64-bit hash of a preprocessed sentence, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(prepared.encode(), digest_size=8).digest(), "little")


def read_block(
    block: Block, columns: Columns, preprocessing: Preprocessing, report: Callable[[int, str], None]
) -> TextBlock:
    """Return the pairs of a block; call report(line number, reason) for lines without a pair."""
    numbers: list[int] = []
    raw: list[str] = []
    sentences: list[str] = []
    for number, line in block.lines(report):
        pairs, reason = columns.pairs(line)
        if reason is not None:
            report(number, reason)
        for pair in pairs:
            left, right = map(preprocessing.apply, pair)
            if left and right:
                numbers.append(number)
                raw += pair
                sentences += left, right
            else:
                report(number, "empty side")
    hashes = np.fromiter(map(sentence_hash, sentences), np.uint64, count=len(sentences))
    accepted = "".join(map("{}\t{}\n".format, raw[::2], raw[1::2])).encode()
    return TextBlock(numbers, sentences, hashes, accepted)


def read_pairs(
    paths: Sequence[str],
    preprocessing: Preprocessing,
    bad: BadLines | None = None,
    columns: Columns = FIRST_TWO,
) -> TextPairs:
    """Read TSV files (plain, .gz, .zst, "-") whole.

    Args:
        preprocessing: decides which sentences are equal, and which are empty.
        bad: collects the lines that are skipped.

    Raises:
        InputError: for a damaged file, files without a pair, or a bad line if ``bad.strict``.
    """
    bad = BadLines() if bad is None else bad
    blocks, digest = [], hashlib.sha256()
    for block in TsvInput(paths, columns=columns).blocks():
        blocks.append(read_block(block, columns, preprocessing, partial(bad.add, block.name)))
        digest.update(blocks[-1].accepted)
    pairs = TextPairs(blocks, digest.hexdigest()[:16], bad.total)
    if not len(pairs):
        raise bad.no_pair(paths)
    return pairs


def segment_block(text: TextBlock, tokenizer: Tokenizer) -> tuple[Tokens, NDArray[np.bool_]]:
    """Return the tokens of the pairs of a block, without unknown ones, as in the encoder's mean.

    Returns:
        the tokens, and a mask (n,) of the pairs with a known token on both sides; the tokens of
        other pairs are left out.
    """
    ids, offsets = tokenizer.encode_flat(text.sentences)
    known = tokenizer.known(ids)
    before = np.concatenate([[0], np.cumsum(known)])
    lengths = np.diff(before[np.append(offsets, len(ids))])
    usable = np.asarray((lengths.reshape(-1, 2) > 0).all(1))
    keep = np.repeat(usable, 2)
    ids = ids[known][np.repeat(keep, lengths)].astype(ids_dtype(tokenizer))
    return Tokens(ids, lengths[keep], text.hashes[keep]), usable


def ids_dtype(tokenizer: Tokenizer) -> str:
    """Return the smaller type that holds the ids."""
    return "<u2" if len(tokenizer) <= 1 << 16 else "<u4"


def segment_pairs(text: TextPairs, tokenizer: Tokenizer) -> Pairs:
    """Return the tokens of all pairs, without those of which a side has no known token."""
    prepared = of_prepared(tokenizer)
    ids, lengths, hashes = map(
        np.concatenate,
        zip(*(segment_block(block, prepared)[0] for block in text.blocks), strict=True),
    )
    if not len(lengths):
        flag = "--sentencepiece" if tokenizer.name == "sp" else "--kind"
        raise InputError(
            f"{flag}: none of the {len(text)} pairs has a known {types_of(tokenizer.name)[:-1]} "
            "on both sides; the model is of other text"
        )
    return Pairs(ids, np.concatenate([[0], np.cumsum(lengths)]), hashes, text.digest)

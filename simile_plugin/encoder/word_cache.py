"""Words that are remembered with the ids of their tokens, as a corpus repeats its words."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

AT_ONCE = 512  # sentences that are split before their words are looked up
KNOWN_IDS = 2**20  # that are remembered; some 50 MB with their words
KNOWN_LETTERS = 2**23  # of the words: without spaces a word is a clause or a sentence


def flat_rows(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return ragged rows of ids as a single array (P,), and the length of each row, (U,)."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), lengths


def as_rows(ids: Ints, offsets: Ints) -> list[list[int]]:
    """Return the rows of flat ids (P,), each of which begins at its offset (U,)."""
    flat, ends = ids.tolist(), [*offsets.tolist(), len(ids)]
    return [flat[start:end] for start, end in pairwise(ends)]


class Words(dict[str, int]):
    """A cache from a word to its row of ids, which threads may share.

    Args:
        ids_of: ids of each word's tokens, for many words.
    """

    def __init__(self, ids_of: Callable[[list[str]], Iterable[Iterable[int]]]) -> None:
        super().__init__()
        self._ids_of = ids_of
        self._lock = threading.Lock()
        self._new: list[str] = []
        self._letters = 0
        self._ids, self._starts = array("q"), array("q", [0])

    def __missing__(self, word: str) -> int:
        self._new.append(word)
        row = self[word] = len(self)
        return row

    def _learn(self) -> None:
        """Look up the ids of new words: all at once, as text without spaces has many."""
        try:
            for ids in self._ids_of(self._new):
                self._ids.extend(ids)
                self._starts.append(len(self._ids))
        except BaseException:
            self.forget()  # otherwise rows without ids would stay
            raise
        self._letters += sum(map(len, self._new))
        self._new.clear()

    def overfull(self) -> bool:
        """Return True where the words have too many ids or letters to be remembered."""
        return len(self._ids) > KNOWN_IDS or self._letters > KNOWN_LETTERS

    def flat(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Return all ids (P,) of the sentences' words, split at white space, and lengths (U,)."""
        with self._lock:
            if self.overfull():
                self.forget()
            # A part at a time: Python's garbage collector looks through all lists there are.
            parts = [
                self._looked_up(sentences[start : start + AT_ONCE])
                for start in range(0, max(1, len(sentences)), AT_ONCE)
            ]
            rows, counts = map(np.concatenate, zip(*parts, strict=True))
            if self._new:
                self._learn()
            starts = np.frombuffer(self._starts, dtype=np.int64)
            first, lengths = starts[rows], starts[rows + 1] - starts[rows]
            ends = np.concatenate([[0], lengths.cumsum()])
            at = np.arange(ends[-1]) + (first - ends[:-1]).repeat(lengths)
            # numpy refuses a buffer of length 0.
            ids = np.frombuffer(self._ids, dtype=np.int64)[at] if len(at) else at
            return ids, np.diff(ends[counts.cumsum()], prepend=0)

    def _looked_up(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the row of each word of the sentences, and the words of each sentence."""
        split = [sentence.split() for sentence in sentences]
        counts = np.fromiter(map(len, split), dtype=np.int64, count=len(split))
        words = map(self.__getitem__, chain.from_iterable(split))
        return np.fromiter(words, dtype=np.int64, count=int(counts.sum())), counts

    def forget(self) -> None:
        """Empty the cache."""
        self.clear()
        self._new.clear()
        self._letters = 0
        self._ids, self._starts = array("q"), array("q", [0])

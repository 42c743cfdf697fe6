"""When the finished sentences of a batch leave it: at once, or when half of it is finished."""

from __future__ import annotations

from typing import Protocol

LEAST = 8  # sentences: fewer take no less time on a GPU


class Compaction(Protocol):
    """When finished sentences leave a batch, and how many sentences a step is computed for."""

    def sentences(self, count: int) -> int:
        """Return the sentences that the first step of ``count`` is computed for."""

    def fewer(self, going: int, sentences: int) -> int | None:
        """Return how many the next step is computed for, if ``going`` of them are not finished;
        None: as many as before."""


class AtOnce:
    """Finished sentences leave at once: the fewest products."""

    def sentences(self, count: int) -> int:
        """Return ``count``."""
        return count

    def fewer(self, going: int, sentences: int) -> int | None:
        """Return ``going`` where a sentence is finished."""
        return going if going < sentences else None


class Halves:
    """Finished sentences stay until half of a batch is finished: steps of few shapes, so that each
    can be recorded once and replayed."""

    def sentences(self, count: int) -> int:
        """Return ``count``, filled up to one of few shapes."""
        # There are eight shapes in each power of two, so that at most an eighth is filling.
        width = max(2, 1 << max(0, count.bit_length() - 4))
        return max(LEAST, -(-count // width) * width)

    def fewer(self, going: int, sentences: int) -> int | None:
        """Return half of the sentences, or half of that and so on, that holds all that go on."""
        half = sentences // 2
        if going > half or half < LEAST:
            return None
        while going <= half // 2 and half // 2 >= LEAST:
            half //= 2
        return half

"""Words that are remembered with the ids of their tokens, as a corpus repeats its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

KNOWN_WORDS = 2**18  # words that are remembered; some 40 MB


class Words(dict[str, tuple[int, ...]]):
    """word -> ids from 1 of its tokens, comparable until `trim`.

    Args:
        split: a word's tokens.
    """

    def __init__(self, split: Callable[[str], Sequence[str]]) -> None:
        super().__init__()
        self.split = split
        self.tokens: dict[str, int] = {}

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = self[word] = tuple(self.token_ids(self.split(word)))
        return found

    def token_ids(self, tokens: Sequence[str]) -> list[int]:
        """Ids of tokens, old and new."""
        return [self.tokens.setdefault(token, len(self.tokens) + 1) for token in tokens]

    def ids(self, sentence: str) -> list[int]:
        """Ids of the tokens of a sentence's words, which white space separates."""
        return [*chain.from_iterable(map(self.__getitem__, sentence.split()))]

    def trim(self) -> None:
        """Forget everything where it has become much."""
        if len(self) + len(self.tokens) > KNOWN_WORDS:
            self.clear()
            self.tokens.clear()

"""Words and sentences as numbers of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from simile_plugin.encoder import Words

KNOWN_TOKENS = 2**18  # remembered by default; some 40 MB


class TokenWords(Words):
    """Words whose tokens are numbered from 1 as they are met; comparable until `trim`.

    Args:
        split: a word's tokens.
    """

    def __init__(self, split: Callable[[str], Sequence[str]]) -> None:
        super().__init__(lambda words: map(self.token_ids, map(split, words)))
        self.split = split
        self.tokens: dict[str, int] = {}

    def token_ids(self, tokens: Sequence[str]) -> list[int]:
        """Ids of tokens, old and new."""
        return [self.tokens.setdefault(token, len(self.tokens) + 1) for token in tokens]

    def trim(self, most: int | None = None) -> bool:
        """Forget all if there are more tokens than `most` or too many letters; whether so."""
        many = len(self.tokens) > (KNOWN_TOKENS if most is None else most)
        much = many or self.overfull()
        if much:
            self.forget()
            self.tokens.clear()
        return much


def repetition(words: Sequence[Sequence[str]]) -> float:
    """Return the sum over sentences of the share of their bigrams that they have said before.

    Averaged per sentence: pooled over all of them, a few that loop would dominate the count.
    """
    return sum(
        1 - len(set(pairwise(sentence))) / (len(sentence) - 1) for sentence in words if sentence[1:]
    )

"""Texts as numbers of their words, and the n-grams that they share: the counts of BLEU and chrF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder import Words

Ids = NDArray[np.int64]

KNOWN_TOKENS = 2**18  # remembered by default; some 40 MB
# Entries of a table, 128 MB: ordinary batches have fewer. Of a line's words it grows with the
# square; beyond this what it would hold is searched among sorted keys.
TABLE = 2**24


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


def common_ngrams(units: Ids, sentences: Ids, refs: int, order: int) -> tuple[Ids, Ids]:
    """Count the n-grams that each candidate has in common with its reference.

    Each n-gram counts at most as often as the reference has it.

    Args:
        units: numbers from 1 of the texts' words or characters, 0 after each text; the first
            `refs` texts are references.
        sentences: for each text, which reference is its own.
        order: of the longest n-grams.

    Returns:
        Matches (candidates, order), and how many n-grams each text has (texts, order).
    """
    lengths = np.diff(np.flatnonzero(units == 0), prepend=-1)  # with the 0
    matches = _matches(units, lengths, sentences, refs, order)
    return matches, np.maximum(lengths[:, None] - 1 - np.arange(order), 0)


def _matches(units: Ids, lengths: Ids, sentences: Ids, refs: int, order: int) -> Ids:
    # Sorting all n-grams would take most of the time. Instead an n-gram is known by the place of
    # its last occurrence in its reference; that place and the next unit look up the longer n-gram
    # in a table with a line for each place, and a column for each unit of the reference. Of the
    # reference "a b a c" (places 0 to 3) the unigram a is place 2, its last one. "a c" is found in
    # line 2, column c, and is place 3; "a b" in line 2, column b, and is place 1.
    size = int(lengths[:refs].sum())  # places of the references
    ref_start = lengths[:refs].cumsum() - lengths[:refs]
    unit, kinds = _numbered(units, sentences.repeat(lengths), refs, size)
    columns = kinds.repeat(lengths[:refs])
    line = columns.cumsum() - columns  # of the table, for each place of a reference
    entries = int(columns.sum())
    table = np.full(entries, -1) if entries <= TABLE else None
    # A candidate's counts lie in slots of its own, one for each place of its reference, so that
    # one bincount is enough for all candidates.
    own = sentences[refs:]
    slots = lengths[own]
    first_slot = slots.cumsum() - slots
    shift = first_slot - ref_start[own]
    place_of_slot = np.arange(slots.sum()) - shift.repeat(slots)
    shift = shift.repeat(lengths[refs:])
    matches = np.zeros((len(own), order), dtype=np.int64)
    at = np.arange(len(units))
    grams = ref_start[sentences].repeat(lengths)
    for n in range(order):
        following = unit[at + n]
        keys = line[grams] + following
        in_refs = int(np.searchsorted(at, size))
        new = np.flatnonzero(following[:in_refs])
        if table is None:
            grams = _search(keys[new], at[new], keys)
        else:
            table[keys[new]] = at[new]
            grams = table[keys]
            table[keys[new]] = -1
        # What the reference does not have, it has no longer form of: it is left out from here on.
        at, grams = at[grams >= 0], grams[grams >= 0]
        in_refs = int(np.searchsorted(at, size))
        in_ref = np.bincount(grams[:in_refs], minlength=size)
        in_row = np.bincount(shift[at[in_refs:] - size] + grams[in_refs:], minlength=slots.sum())
        matches[:, n] = np.add.reduceat(np.minimum(in_row, in_ref[place_of_slot]), first_slot)
    return matches


def _numbered(units: Ids, sentences: Ids, refs: int, size: int) -> tuple[Ids, Ids]:
    """Number each place's unit within its sentence's reference, 0 where that has it not.

    Args:
        sentences: of each place.
        size: places of the references.

    Returns:
        The numbers, and how many there are in each reference, 0 among them.
    """
    known = np.unique(units[:size])  # 0 comes first
    numbers = np.zeros(units.max() + 1, dtype=np.int64)
    numbers[known] = np.arange(len(known))
    keys = sentences * len(known) + numbers[units]
    wanted = np.unique(keys[:size])
    kinds = np.bincount(wanted // len(known), minlength=refs)
    own = np.arange(len(wanted)) - (kinds.cumsum() - kinds).repeat(kinds)
    if refs * len(known) > TABLE:
        return np.maximum(_search(wanted, own, keys), 0), kinds
    table = np.zeros(refs * len(known), dtype=np.int64)
    table[wanted] = own
    return table[keys], kinds


def _search(keys: Ids, values: Ids, wanted: Ids) -> Ids:
    """Return the value of each wanted key, of equal keys that of the last; -1 for one not there."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    places = np.searchsorted(keys, wanted, side="right") - 1
    return np.where(keys[places] == wanted, values[places], -1)


def repetition(words: Sequence[Sequence[str]]) -> float:
    """Return the sum over sentences of the share of their bigrams that they have said before.

    Averaged per sentence: pooled over all of them, a few that loop would dominate the count.
    """
    return sum(
        1 - len(set(pairwise(sentence))) / (len(sentence) - 1) for sentence in words if sentence[1:]
    )

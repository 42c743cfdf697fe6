"""Buckets of sentences: by length, by their rarest word, by domain or document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simile_plugin.report.inputs.texts import Sentences

FREQUENCIES = (1, 2, 6, 11, 101, 1001)  # the paper's
# compare-mt's, so that its numbers are to be found here
LENGTHS = (10, 20, 30, 40, 50, 60)
LENGTH_DIFFERENCES = (-20, -10, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 11, 21)
MOST_GROUPS = 40


@dataclass(frozen=True)
class Buckets:
    """A way to part N sentences.

    Attributes:
        key: short name of the way, in tags.
        names: of the buckets, in their order.
        places: (N,) the bucket of each sentence.
    """

    key: str
    title: str
    names: Sequence[str]
    places: NDArray[np.int64]

    def tag(self, place: int) -> str:
        """Name a bucket for links: length-2."""
        return f"{self.key}-{place}"


def cutoff_names(cutoffs: Sequence[int]) -> list[str]:
    """Name the buckets below, between and from the last of cutoffs on: <1, 1, 2-5, 6+."""
    names = [f"<{cutoffs[0]}"]
    for low, high in pairwise(cutoffs):
        to = "-" if low >= 0 else " to "
        names.append(str(low) if high == low + 1 else f"{low}{to}{high - 1}")
    return [*names, f"{cutoffs[-1]}+"]


def cut(
    key: str, title: str, numbers: Sequence[int] | NDArray[np.int64], cutoffs: Sequence[int]
) -> Buckets:
    """Part sentences by a number each has."""
    return Buckets(key, title, cutoff_names(cutoffs), np.digitize(numbers, cutoffs))


def sentence_buckets(
    refs: Sentences, frequencies: Mapping[str, int], groups: Sequence[str] | None
) -> list[Buckets]:
    """Part sentences by the tokens of their references, and by their groups, the largest first.

    Groups beyond MOST_GROUPS are one bucket.
    """
    rarest = [min((frequencies.get(word, 0) for word in ref), default=0) for ref in refs]
    ways = [
        cut("length", "Reference's length, tokens", list(map(len, refs)), LENGTHS),
        cut("rarest", "Frequency of its rarest word", rarest, FREQUENCIES),
    ]
    if groups is not None:
        kinds, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        names = [*kinds[order[:MOST_GROUPS]]]
        if len(kinds) > MOST_GROUPS:
            names.append(f"the {len(kinds) - MOST_GROUPS} smallest groups")
        new = np.minimum(np.argsort(order), MOST_GROUPS)
        ways.append(Buckets("group", "Domain or document", names, new[places]))
    return ways

"""What filters would remove, by decile of a score (the ten folds of ParaNMT's section 6.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FOLDS = 10


@dataclass(frozen=True)
class Decile:
    """A tenth of all pairs by one score, the lowest first.

    Attributes:
        low, high: of the scores in it, exactly.
        pairs: how many there are; equal scores stay together, so that the tenths may differ.
        removed: pairs that each filter would remove, were it the only one.
    """

    low: float
    high: float
    pairs: int
    removed: dict[str, int]


@dataclass
class Tally:
    """Pairs, and those that each filter would remove, by a score rounded to three digits.

    So the memory does not grow with the pairs: there are 900 such numbers a power of ten.
    """

    counts: dict[float, list[int]] = field(default_factory=dict)  # score -> pairs, removed by each
    bounds: dict[float, tuple[float, float]] = field(default_factory=dict)  # -> before rounding

    def _extend(self, rounded: float, low: float, high: float) -> None:
        lowest, highest = self.bounds.get(rounded, (low, high))
        self.bounds[rounded] = min(low, lowest), max(high, highest)

    def add(self, score: float, removed: Sequence[bool]) -> None:
        """One pair, and whether each filter would remove it."""
        rounded = float(f"{score:.3g}")
        self._extend(rounded, score, score)
        row = self.counts.setdefault(rounded, [0] * (1 + len(removed)))
        row[0] += 1
        for place, gone in enumerate(removed, start=1):
            row[place] += gone

    def merge(self, other: Tally) -> None:
        """The pairs of another tally of the same filters."""
        for score, row in other.counts.items():
            own = self.counts.setdefault(score, [0] * len(row))
            own[:] = map(sum, zip(own, row, strict=True))
            self._extend(score, *other.bounds[score])

    def deciles(self, filters: Sequence[str]) -> list[Decile]:
        """At most ten folds of equal size: a score is in that of the middle of its pairs."""
        total, before = sum(row[0] for row in self.counts.values()), 0
        folds: dict[int, list[float]] = {}
        for score in sorted(self.counts):
            pairs = self.counts[score][0]
            folds.setdefault(FOLDS * (2 * before + pairs) // (2 * total), []).append(score)
            before += pairs
        return [self._decile(scores, filters) for _, scores in sorted(folds.items())]

    def _decile(self, scores: Sequence[float], filters: Sequence[str]) -> Decile:
        pairs, *removed = map(sum, zip(*(self.counts[score] for score in scores), strict=True))
        low, high = self.bounds[scores[0]][0], self.bounds[scores[-1]][1]
        return Decile(low, high, pairs, dict(zip(filters, removed, strict=True)))


def merge_tallies(into: dict[str, Tally], tallies: Mapping[str, Tally]) -> None:
    """Add the tallies of a block, by the score that they are sorted by."""
    for name, tally in tallies.items():
        into.setdefault(name, Tally()).merge(tally)

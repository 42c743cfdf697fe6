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
    bounds: dict[float, list[float]] = field(default_factory=dict)  # -> low, high as they were

    def add(self, score: float, removed: Sequence[bool]) -> None:
        """One pair, and whether each filter would remove it."""
        row, bounds = self._of(float(f"{score:.3g}"), len(removed), score)
        if score < bounds[0]:
            bounds[0] = score
        elif score > bounds[1]:
            bounds[1] = score
        row[0] += 1
        for place, gone in enumerate(removed, start=1):
            row[place] += gone

    def _of(self, rounded: float, filters: int, score: float) -> tuple[list[int], list[float]]:
        row = self.counts.get(rounded)
        if row is None:
            row = self.counts[rounded] = [0] * (1 + filters)
            self.bounds[rounded] = [score, score]
        return row, self.bounds[rounded]

    def merge(self, other: Tally) -> None:
        """The pairs of another tally of the same filters."""
        for score, theirs in other.counts.items():
            low, high = other.bounds[score]
            row, bounds = self._of(score, len(theirs) - 1, low)
            row[:] = map(sum, zip(row, theirs, strict=True))
            bounds[:] = min(bounds[0], low), max(bounds[1], high)

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

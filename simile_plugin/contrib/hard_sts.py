"""STS pairs that words decide worst: a negation, or much overlap and little similarity.

The subsets of Wieting et al. 2020, "A Bilingual Generative Transformer for Semantic Sentence
Embedding" (thesis, 5.6.3 and Table 49): pairs are ordered by their symmetric word error rate. The
tokens (13a, lower case) are ours. The paper calls one half of its Hard STS Hard+ in the text and
Hard- in Table 47, so that the subsets here are named by what is in them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation import StsSet, correlate_metrics, correlate_sts
from simile_plugin.files import InputError
from simile_plugin.significance import Floats, text_table

NEGATION = re.compile(r"\bnot\b|['’]t\b", re.IGNORECASE)  # on one side alone (footnote 19)
OVERLAP = "1 - SWER"
ALL, NEGATED = "all distinct pairs", "negation"


@dataclass(frozen=True)
class HardSubset:
    """Pairs from one end of the order by symmetric word error rate, with gold in a range.

    Attributes:
        share: of all distinct pairs, from this end.
        lowest: whether the end of least word error rate (most common words) is meant.
        gold: smallest and largest gold score.
        kind: "Hard STS" (Table 48), "hard" or "easy" (Table 49).
    """

    share: float
    lowest: bool
    gold: tuple[float, float]
    kind: str

    @property
    def name(self) -> str:
        """Say which pairs are in it."""
        end = "lowest" if self.lowest else "highest"
        low, high = self.gold
        return f"{self.kind}: {end} {self.share:.0%} SWER, gold {low:g} to {high:g}"


SUBSETS = (
    HardSubset(0.2, True, (0, 1), "Hard STS"),
    HardSubset(0.2, False, (4, 5), "Hard STS"),
    HardSubset(0.2, True, (0, 2), "hard"),
    HardSubset(0.1, True, (0, 1), "hard"),
    HardSubset(0.2, False, (3, 5), "hard"),
    HardSubset(0.1, False, (4, 5), "hard"),
    HardSubset(0.2, False, (0, 2), "easy"),
    HardSubset(0.2, True, (3, 5), "easy"),
)


def symmetric_word_error_rate(left: Sequence[str], right: Sequence[str]) -> float:
    """SWER = (WER(a | b) + WER(b | a)) / 2 = d (1 / |a| + 1 / |b|) / 2, d the edit distance.

    Args:
        left, right: tokens; two empty sentences have 0, one empty sentence infinity.
    """
    if not left or not right:
        return 0.0 if not left and not right else math.inf
    row = list(range(len(right) + 1))
    for i, token in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            change = diagonal + (token != other)
            diagonal = row[j]
            row[j] = min(change, diagonal + 1, row[j - 1] + 1)
    return row[-1] * (1 / len(left) + 1 / len(right)) / 2


def hard_sets(sets: Sequence[StsSet]) -> tuple[list[StsSet], dict[str, Floats]]:
    """The subsets of the distinct pairs of all sets, and the SWER of their pairs.

    Of pairs that are there twice, in either order, the first counts. Subsets of fewer than two
    pairs are left out.
    """
    from sacrebleu.metrics import BLEU

    tokenize = BLEU().tokenizer
    distinct: dict[frozenset[str], tuple[str, str, float]] = {}
    for part in sets:
        for pair in zip(part.left, part.right, part.gold.tolist(), strict=True):
            distinct.setdefault(frozenset(pair[:2]), pair)
    pairs = list(distinct.values())
    swer = np.array(
        [
            symmetric_word_error_rate(*(tokenize(side.lower()).split() for side in pair[:2]))
            for pair in pairs
        ]
    )
    gold = np.array([pair[2] for pair in pairs])
    highest = min((part.gold.max() for part in sets), default=math.inf)
    if highest <= 1:
        raise InputError(
            f"--sts: the highest gold score of a set is {highest:g}, expected 0 to 5: the "
            "subsets are of that scale; multiply scores of 0 to 1 by 5"
        )
    negations = [[bool(NEGATION.search(side)) for side in pair[:2]] for pair in pairs]
    negated = np.array([left != right for left, right in negations], dtype=bool)
    chosen = {ALL: np.ones(len(pairs), dtype=bool), NEGATED: negated}
    order = np.argsort(swer, kind="stable")
    for subset in SUBSETS:
        count = round(subset.share * len(pairs))
        end = order[:count] if subset.lowest else order[len(order) - count :]
        here = np.zeros(len(pairs), dtype=bool)
        here[end] = True
        chosen[subset.name] = here & (gold >= subset.gold[0]) & (gold <= subset.gold[1])
    found, rates = [], {}
    for name, mask in chosen.items():
        rows = np.flatnonzero(mask)
        if len(rows) >= 2:
            left = [pairs[row][0] for row in rows]
            right = [pairs[row][1] for row in rows]
            found.append(StsSet(name, left, right, gold[rows]))
            rates[name] = swer[rows]
    return found, rates


@dataclass(frozen=True)
class HardQuality:
    """Correlations, in percent, on each subset.

    Attributes:
        pairs: subset -> number of pairs.
        pearson, spearman: subset -> metric -> correlation; 1 - SWER is one of the metrics.
    """

    pairs: dict[str, int]
    pearson: dict[str, dict[str, float]]
    spearman: dict[str, dict[str, float]]


def evaluate_hard(
    encoders: Mapping[str, RewardEncoder], sets: Sequence[StsSet], alpha: float
) -> HardQuality:
    """Correlate SIM, SIMILE, surface metrics and plain word overlap with gold on the subsets.

    Raises:
        InputError: for fewer than two distinct pairs.
    """
    parts, rates = hard_sets(sets)
    if not parts:
        raise InputError("--sts: all pairs are the same two sentences; expected others")
    scores, _ = correlate_metrics(encoders, "hard", parts, alpha)
    finite = [np.where(np.isfinite(rate), 1 - rate, -1e3) for rate in rates.values()]
    scores[OVERLAP] = correlate_sts("hard", parts, finite)
    return HardQuality(
        {part.name: len(part.gold) for part in parts},
        {p.name: {name: found.pearson[p.name] for name, found in scores.items()} for p in parts},
        {p.name: {name: found.spearman[p.name] for name, found in scores.items()} for p in parts},
    )


def format_hard(hard: HardQuality) -> str:
    """Two tables, a row a subset and a column a metric."""
    tables = []
    for kind, found in (("Pearson", hard.pearson), ("Spearman", hard.spearman)):
        metrics = list(next(iter(found.values())))
        rows = [
            [name, str(hard.pairs[name]), *(f"{row[metric]:.1f}" for metric in metrics)]
            for name, row in found.items()
        ]
        tables.append(text_table([[kind, "pairs", *metrics], *rows]))
    return "\n\n".join(tables)

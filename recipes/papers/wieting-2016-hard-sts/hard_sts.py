"""Correlate encoders with people on the STS pairs that words decide worst, and in bins.

python hard_sts.py NAME=ENCODER... --sts FOLDER... [--vocabulary ENCODER]

Tables of Pearson x 100 with 95 % bootstrap intervals: Hard STS and its relatives (Wieting et al.
2020; thesis 5.6.3, tables 48 and 49), bins of length (tables 7 and 21) and, with --vocabulary, bins
of words that this encoder does not know (table 20). 1 - SWER is plain word overlap.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU

from simile_plugin.encoder import RewardEncoder, load_encoder
from simile_plugin.evaluation import StsSet, read_sts, similarities
from simile_plugin.files import InputError, as_script
from simile_plugin.significance import Floats, bootstrap_correlations, estimate, markdown_table

Masks = dict[str, NDArray[np.bool_]]  # which pairs (n,) are in a subset

NEGATION = re.compile(r"\bnot\b|['’]t\b", re.IGNORECASE)  # on one side alone (footnote 19)
# Name, share of all distinct pairs, whether of the end with most common words, range of gold.
SUBSETS = (
    ("Hard STS: lowest 20 % SWER, gold 0-1", 0.2, True, (0, 1)),
    ("Hard STS: highest 20 % SWER, gold 4-5", 0.2, False, (4, 5)),
    ("hard: lowest 20 % SWER, gold 0-2", 0.2, True, (0, 2)),
    ("hard: lowest 10 % SWER, gold 0-1", 0.1, True, (0, 1)),
    ("hard: highest 20 % SWER, gold 3-5", 0.2, False, (3, 5)),
    ("hard: highest 10 % SWER, gold 4-5", 0.1, False, (4, 5)),
    ("easy: highest 20 % SWER, gold 0-2", 0.2, False, (0, 2)),
    ("easy: lowest 20 % SWER, gold 3-5", 0.2, True, (3, 5)),
)
# Words of the longer sentence, both ends in: the bins of table 21, the last of table 7, all.
LENGTHS = (
    *((0, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (10, 10), (11, 15), (16, 20), (21, math.inf)),
    *((10, math.inf), (0, math.inf)),
)
UNKNOWN = ((0, 0), (1, 1), (2, 2), (1, math.inf), (0, math.inf))  # of both sentences, table 20
RESAMPLES, SEED = 1000, 1


def word_error_rate(left: Sequence[str], right: Sequence[str]) -> float:
    """Return SWER = (WER(a | b) + WER(b | a)) / 2 = d (1 / |a| + 1 / |b|) / 2, d the edit distance.

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


def joined(sets: Sequence[StsSet], distinct: bool) -> StsSet:
    """Return all pairs as one set; of pairs that stand there twice, in either order, the first."""
    rows = [
        row for part in sets for row in zip(part.left, part.right, part.gold.tolist(), strict=True)
    ]
    if distinct:
        rows = list({frozenset(row[:2]): row for row in reversed(rows)}.values())[::-1]
    if len(rows) < 2:
        raise InputError(f"--sts: got {len(rows)} distinct pairs, expected 2 or more")
    left, right, gold = zip(*rows, strict=True)
    return StsSet("all", list(left), list(right), np.array(gold))


def hard_subsets(pairs: StsSet, swer: Floats) -> Masks:
    """Choose pairs by negation, and by the order of their word error rates (n,) and gold scores."""
    one_sided = [
        bool(NEGATION.search(left)) != bool(NEGATION.search(right))
        for left, right in zip(pairs.left, pairs.right, strict=True)
    ]
    chosen = {"all distinct pairs": np.ones(len(swer), dtype=bool), "negation": np.array(one_sided)}
    order = np.argsort(swer, kind="stable")
    for name, share, lowest, (low, high) in SUBSETS:
        count = round(share * len(order))
        mask = np.zeros(len(order), dtype=bool)
        mask[order[:count] if lowest else order[len(order) - count :]] = True
        chosen[name] = mask & (pairs.gold >= low) & (pairs.gold <= high)
    return chosen


def bins(values: NDArray[np.int64], bounds: Sequence[tuple[float, float]]) -> Masks:
    """Name the bins of counts (n,) by their bounds, both of which are in them."""
    masks = {}
    for low, high in bounds:
        name = f"{low:g}" if low == high else f"{low:g}-{high:g}"
        if high == math.inf:
            name = f"{low:g} and more" if low else "all"
        masks[name] = (values >= low) & (values <= high)
    return masks


def table(title: str, masks: Masks, scores: Mapping[str, Floats], gold: Floats) -> str:
    """Lay out a row a subset: its pairs, and Pearson of each metric (n,) with gold (n,)."""
    grid = [[title, "pairs", *scores]]
    for name, mask in masks.items():
        cells = ["-"] * len(scores)
        if mask.sum() > 1:
            within = {metric: values[mask] for metric, values in scores.items()}
            found = bootstrap_correlations(within, gold[mask], RESAMPLES, SEED, kinds=("pearson",))
            estimates = [estimate(rows[0]) for rows in found.values()]
            cells = [
                "-" if math.isnan(of.value) else f"{of.value:.1f} [{of.low:.1f}, {of.high:.1f}]"
                for of in estimates
            ]
        grid.append([name, f"{mask.sum():,}", *cells])
    return markdown_table(grid)


def tables(
    encoders: Mapping[str, RewardEncoder], sets: Sequence[StsSet], vocabulary: RewardEncoder | None
) -> list[str]:
    """Compute all tables of encoders, by name, on all pairs of the sets together."""
    tokenize = BLEU().tokenizer  # 13a
    pairs, every = joined(sets, distinct=True), joined(sets, distinct=False)

    def words(sentences: Sequence[str]) -> list[list[str]]:
        return [tokenize(sentence.lower()).split() for sentence in sentences]

    def sims(of: StsSet) -> dict[str, Floats]:
        return {
            name: similarities(encoder, of.left, of.right) for name, encoder in encoders.items()
        }

    sides = zip(words(pairs.left), words(pairs.right), strict=True)
    swer = np.array([word_error_rate(left, right) for left, right in sides])
    overlap = np.where(np.isfinite(swer), 1 - swer, -1e3)
    found = [
        table("subset", hard_subsets(pairs, swer), {"1 - SWER": overlap, **sims(pairs)}, pairs.gold)
    ]
    longer = [
        max(len(left), len(right))
        for left, right in zip(words(every.left), words(every.right), strict=True)
    ]
    scores = sims(every)
    by_length = bins(np.array(longer), LENGTHS)
    found.append(table("words of the longer sentence", by_length, scores, every.gold))
    if vocabulary:
        left, right = (vocabulary.embed_counted(side) for side in (every.left, every.right))
        by_unknown = bins((left.unknown + right.unknown).numpy(), UNKNOWN)
        found.append(table("unknown words of a pair", by_unknown, scores, every.gold))
    return found


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("encoders", nargs="+", metavar="NAME=ENCODER", help="encoder folders")
    parser.add_argument("--sts", nargs="+", required=True, metavar="FOLDER", help="STS folders")
    parser.add_argument("--vocabulary", metavar="ENCODER", help="what it does not know is unknown")
    args = parser.parse_args(argv)
    encoders = {}
    for word in args.encoders:
        name, equals, folder = word.partition("=")
        if not equals or name in encoders:
            raise InputError(f"ENCODER: got '{word}', expected NAME=FOLDER, each name once")
        encoders[name] = load_encoder(folder)
    sets = [part for folder in args.sts for part in read_sts(Path(folder))]
    vocabulary = load_encoder(args.vocabulary) if args.vocabulary else None
    print("\n\n".join(tables(encoders, sets, vocabulary)))


if __name__ == "__main__":
    sys.exit(main())

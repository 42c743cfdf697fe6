"""STS by sentence length and by unknown words: where is an encoder weak?

Wieting's thesis, tables 7 and 21 (length) and 20 (unknown words): the pairs of all sets together,
in bins, Pearson within each bin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation import StsSet, similarities
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    SEED,
    Estimate,
    Floats,
    bootstrap_correlations,
    estimate,
    text_table,
)

Masks = dict[str, NDArray[np.bool_]]  # name of a bin -> which pairs (n,) are in it

# Words of the longer sentence, both ends in: table 21, table 7's last row, all.
LENGTHS = (
    *((0, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (10, 10), (11, 15), (16, 20), (21, math.inf)),
    *((10, math.inf), (0, math.inf)),
)
UNKNOWN = ((0, 0), (1, 1), (2, 2), (1, math.inf), (0, math.inf))  # of both sentences, table 20
SHARES = (0.0, 0.1, 0.25, 1.0)  # bounds of the share of unknown tokens in a pair, ours


@dataclass(frozen=True)
class StsBin:
    """Pairs that have something in common.

    Attributes:
        name: of the bin.
        pairs: metric -> number of pairs; what is unknown depends on the encoder.
        pearson: metric -> Pearson of SIM with the gold scores in percent, and its 95% bootstrap
            interval; NaN of fewer than two pairs, or of equal scores.
    """

    name: str
    pairs: dict[str, int]
    pearson: dict[str, Estimate]


def length_bins(left: Sequence[int], right: Sequence[int]) -> Masks:
    """Bins by the length of the longer sentence of each pair.

    Args:
        left, right: (n) words.
    """
    longer = np.maximum(np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64))
    return _between(longer, LENGTHS)


def unknown_bins(unknown: NDArray[np.int64], tokens: NDArray[np.int64]) -> Masks:
    """Bins by the number of unknown tokens of a pair, and by their share.

    Args:
        unknown, tokens: (n,) of both sentences together.
    """
    share = unknown / np.maximum(tokens, 1)
    masks = _between(unknown, UNKNOWN)
    for low, high in pairwise(SHARES):
        masks[f"{low:.0%} < share <= {high:.0%}"] = (share > low) & (share <= high)
    return masks


def _between(values: NDArray[np.int64], bounds: Sequence[tuple[float, float]]) -> Masks:
    masks = {}
    for low, high in bounds:
        if low == high:
            name = f"{low:g}"
        elif high == math.inf:
            name = f">= {low:g}" if low else "all"
        else:
            name = f"{low:g}-{high:g}" if low else f"<= {high:g}"
        masks[name] = (values >= low) & (values <= high)
    return masks


def evaluate_bins(
    encoders: Mapping[str, RewardEncoder],
    sets: Sequence[StsSet],
    by: Sequence[str],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
) -> dict[str, list[StsBin]]:
    """Pearson of SIM with the gold scores in the bins of all pairs of all sets.

    Args:
        encoders: by name; with several, the metrics are "SIM of NAME".
        by: "length", in words of the tokeniser 13a, punctuation counted; "unknown", tokens that the
            encoder does not know: words of a word encoder, pieces or n-grams of others.
        resamples, seed: of the intervals; pairs are resampled within each bin.

    Returns:
        what was asked for -> its bins.
    """
    left = [text for part in sets for text in part.left]
    right = [text for part in sets for text in part.right]
    gold = np.concatenate([part.gold for part in sets])
    masks = {"length": length_bins(_words(left), _words(right))} if "length" in by else {}
    found: dict[str, dict[str, StsBin]] = {what: {} for what in by}
    for name, encoder in encoders.items():
        metric = f"SIM of {name}" if len(encoders) > 1 else "SIM"
        sims = similarities(encoder, left, right)
        if "unknown" in by:
            one, other = encoder.embed_counted(left), encoder.embed_counted(right)
            unknown, tokens = one.unknown + other.unknown, one.tokens + other.tokens
            masks["unknown"] = unknown_bins(unknown.numpy(), tokens.numpy())
        for what, bins in found.items():
            for title, mask in masks[what].items():
                own = bins.setdefault(title, StsBin(title, {}, {}))
                own.pairs[metric] = int(mask.sum())
                own.pearson[metric] = _pearson(sims[mask], gold[mask], resamples, seed)
    return {what: list(bins.values()) for what, bins in found.items()}


def _pearson(sims: Floats, gold: Floats, resamples: int, seed: int) -> Estimate:
    if len(gold) < 2:
        return Estimate(math.nan, math.nan, math.nan)
    found = bootstrap_correlations({"SIM": sims}, gold, resamples, seed, kinds=("pearson",))
    return estimate(found["SIM"][0])


def _words(sentences: Sequence[str]) -> list[int]:
    from sacrebleu.metrics import BLEU

    tokenize = BLEU().tokenizer
    return [len(tokenize(sentence).split()) for sentence in sentences]


TITLES = {"length": "words of the longer sentence", "unknown": "unknown tokens of a pair"}


def format_bins(found: Mapping[str, Sequence[StsBin]]) -> str:
    """A table for each of what was asked for: bins by pairs and Pearson of each metric."""
    tables = []
    for name, bins in found.items():
        metrics = list(bins[0].pearson)
        grid = [[TITLES[name], *(cell for metric in metrics for cell in ("pairs", metric))]]
        for one in bins:
            cells = [
                cell
                for metric in metrics
                for cell in (f"{one.pairs[metric]:,}", _cell(one.pearson[metric]))
            ]
            grid.append([one.name, *cells])
        tables.append(text_table(grid))
    return "\n\n".join(tables)


def _cell(found: Estimate) -> str:
    if math.isnan(found.value):
        return "-"
    return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"

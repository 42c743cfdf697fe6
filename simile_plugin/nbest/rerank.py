"""Reranking: the candidate with the highest weighted sum of features, and how weights are tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
import torch

from simile_plugin.encoder import RewardEncoder, cosine
from simile_plugin.files import InputError
from simile_plugin.nbest.mbr import STRINGS_AT_ONCE, Utility, choose
from simile_plugin.nbest.readers import NbestList
from simile_plugin.significance import Floats

STEPS = 20  # weights are tried in steps of a twentieth of their sum


def score_feature(lists: Sequence[NbestList], where: str) -> list[Floats]:
    """The model's scores: (N,) for each list; raises InputError for a list without."""
    lacking = next((found for found in lists if len(found.scores) < len(found.hyps)), None)
    if lacking is not None:
        raise InputError(f"{where}: the list of sentence {lacking.sentence} has no scores")
    return [np.array(found.scores) for found in lists]


def cosine_feature(
    lists: Sequence[NbestList],
    srcs: Sequence[str],
    encoder: RewardEncoder,
    progress: Callable[[int], object] | None = None,
) -> list[Floats]:
    """Cosine of source and candidate under an encoder of both languages; no reference is needed.

    Args:
        srcs: the source of each list.

    Returns:
        (N,) in [-1, 1] for each list.
    """
    found = []
    for src, one in zip(srcs, lists, strict=True):
        vectors = encoder.embed_text([src, *one.hyps])
        found.append(cosine(vectors[0], vectors[1:]).double().cpu().numpy())
        if progress is not None:
            progress(1)
    return found


def reward_feature(
    lists: Sequence[NbestList],
    refs: Sequence[str],
    utility: Utility,
    progress: Callable[[int], object] | None = None,
) -> list[Floats]:
    """The reward of each candidate against its reference, the one of training: (N,) a list."""
    found: list[Floats] = []
    for rows in _blocks(lists):
        block = lists[rows]
        width = max(1, *(len(one.hyps) for one in block))
        hyps = [[*one.hyps, *[""] * (width - len(one.hyps))] for one in block]
        mask = torch.tensor([[n < len(one.hyps) for n in range(width)] for one in block])
        srcs = [one.src or "" for one in block]
        settings = utility.encoder, utility.alpha, utility.tokenize
        values = utility.reward.values(hyps, refs[rows], srcs, mask, *settings)
        table = values.double().cpu().numpy()
        found += [row[: len(one.hyps)] for row, one in zip(table, block, strict=True)]
        if progress is not None:
            progress(len(block))
    return found


def _blocks(lists: Sequence[NbestList]) -> Iterator[slice]:
    """Lists after each other, padded to the longest at most STRINGS_AT_ONCE strings."""
    start = width = 0
    for place, one in enumerate(lists):
        width = max(width, len(one.hyps))
        if place > start and (place + 1 - start) * width > STRINGS_AT_ONCE:
            yield slice(start, place)
            start, width = place, len(one.hyps)
    if lists:
        yield slice(start, len(lists))


def weighted(features: Sequence[Sequence[Floats]], weights: Sequence[float]) -> list[Floats]:
    """sum over k of w_k f_k of every candidate: (N,) for each list.

    Args:
        features: K features of the same lists.
    """
    return [
        np.asarray(sum(w * f for w, f in zip(weights, row, strict=True)))
        for row in zip(*features, strict=True)
    ]


def choose_all(lists: Sequence[NbestList], values: Sequence[Floats]) -> list[int | None]:
    """`choose` in each list: the highest value, of a tie the model's choice."""
    return [choose(one, row) for one, row in zip(lists, values, strict=True)]


def tune_weights(
    lists: Sequence[NbestList], features: Sequence[Sequence[Floats]], rewards: Sequence[Floats]
) -> tuple[float, ...]:
    """The weights whose choices have the highest mean reward.

    A feature's unit is its mean standard deviation within lists; in these units the weights are
    all fractions k / STEPS that add up to 1. Few and coarse, so that they cannot learn the set by
    heart; of equal ones the first, which leans on the first feature.

    Args:
        features: K features of the lists.
        rewards: of each candidate, against references; one that is not finite counts as 0.

    Returns:
        K weights >= 0 of the features in their own units.

    Raises:
        InputError: if no list has candidates, or a feature is the same for all of every list.
    """
    if not any(one.hyps for one in lists):
        raise InputError("--tune: no list has a candidate; expected lists with candidates")
    spreads = [np.mean([row.std() for row in feature if len(row)]) for feature in features]
    if not min(spreads) > 0:
        raise InputError("--tune: a feature is the same for all candidates of each list")
    rewards = [np.where(np.isfinite(row), row, 0.0) for row in rewards]
    best: float = -np.inf
    best_weights: tuple[float, ...] = ()
    for shares in _simplex(len(features)):
        weights = tuple(share / spread for share, spread in zip(shares, spreads, strict=True))
        chosen = choose_all(lists, weighted(features, weights))
        value = mean_reward(rewards, chosen)
        if value > best + 1e-9:
            best, best_weights = value, weights
    return best_weights


def mean_reward(rewards: Sequence[Floats], chosen: Sequence[int | None]) -> float:
    """Mean over lists of the chosen candidate's reward; a list without one has 0."""
    values = [
        0.0 if place is None else row[place] for row, place in zip(rewards, chosen, strict=True)
    ]
    return float(np.mean(values))


def _simplex(features: int) -> Iterator[tuple[float, ...]]:
    """All K fractions of STEPS that add up to 1, those of the first feature falling."""
    for bars in combinations(range(1, STEPS + features), features - 1):
        edges = [0, *bars, STEPS + features]
        parts = [(high - low - 1) / STEPS for low, high in pairwise(edges)]
        yield tuple(reversed(parts))

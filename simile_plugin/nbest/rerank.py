"""Reranking: the candidate with the highest weighted sum of features, and how weights are tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from simile_plugin.encoder import RewardEncoder, cosine
from simile_plugin.files import InputError
from simile_plugin.nbest.mbr import STRINGS_AT_ONCE, Utility, choose
from simile_plugin.nbest.readers import NbestList
from simile_plugin.significance import Floats

STEPS = 20  # weights are tried in steps of a twentieth of their sum


def score_feature(lists: Sequence[NbestList], where: str) -> list[Floats]:
    """Return the model's scores: (N,) for each list; raises InputError for a list without."""
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
    """Return the cosine of source and candidate under an encoder of both languages.

    Args:
        srcs: the source of each list.

    Returns:
        (N,) in [-1, 1] for each list.
    """
    found = []
    for src, one in zip(srcs, lists, strict=True):
        of_src, of_hyps = encoder.embed_sources([src]), encoder.embed_text(one.hyps)
        found.append(cosine(of_src, of_hyps).double().cpu().numpy())
        if progress is not None:
            progress(1)
    return found


def reward_feature(
    lists: Sequence[NbestList],
    refs: Sequence[str],
    utility: Utility,
    progress: Callable[[int], object] | None = None,
) -> list[Floats]:
    """Return the reward of training of each candidate against its reference: (N,) a list."""
    values: list[Floats] = []
    step = max(1, STRINGS_AT_ONCE // max(1, *(len(one.hyps) for one in lists)))
    for start in range(0, len(lists), step):
        block = lists[start : start + step]
        width = max(1, *(len(one.hyps) for one in block))
        hyps = [[*one.hyps, *[""] * (width - len(one.hyps))] for one in block]
        mask = torch.tensor([[n < len(one.hyps) for n in range(width)] for one in block])
        srcs = [one.src or "" for one in block]
        settings = utility.encoder, utility.alpha, utility.tokenize
        found = utility.reward.values(hyps, refs[start : start + step], srcs, mask, *settings)
        table = found.double().cpu().numpy()
        values += [row[: len(one.hyps)] for row, one in zip(table, block, strict=True)]
        if progress is not None:
            progress(len(block))
    return values


def weighted(features: Sequence[Sequence[Floats]], weights: Sequence[float]) -> list[Floats]:
    """Return sum over k of w_k f_k of every candidate: (N,) for each list.

    Args:
        features: K features of the same lists.
    """
    return [
        np.asarray(sum(w * f for w, f in zip(weights, row, strict=True)))
        for row in zip(*features, strict=True)
    ]


def choose_all(lists: Sequence[NbestList], values: Sequence[Floats]) -> list[int | None]:
    """Return `choose` of each list: the highest value, of a tie the model's choice."""
    return [choose(one, row) for one, row in zip(lists, values, strict=True)]


def tune_weights(
    lists: Sequence[NbestList], features: Sequence[Sequence[Floats]], rewards: Sequence[Floats]
) -> tuple[float, ...]:
    """Return the weights of two features whose choices have the highest mean reward.

    A feature's unit is its mean standard deviation within lists; in these units the weights are
    fractions k / STEPS that add up to 1. Few and coarse, so that they cannot learn the set by
    heart; of equal ones the first, which leans on the first feature.

    Args:
        features: two features of the lists.
        rewards: of each candidate, against references; one that is not finite counts as 0.

    Returns:
        Two weights >= 0 of the features in their own units.

    Raises:
        InputError: if no list has candidates, or a feature is the same for all of every list.
    """
    if not any(one.hyps for one in lists):
        raise InputError("--tune: no list has a candidate; expected lists with candidates")
    first, second = (np.mean([row.std() for row in f if len(row)]) for f in features)
    if not min(first, second) > 0:
        raise InputError("--tune: a feature is the same for all candidates of each list")
    rewards = [np.where(np.isfinite(row), row, 0.0) for row in rewards]
    best, best_weights = -np.inf, (0.0, 0.0)
    for k in range(STEPS + 1):
        weights = float((STEPS - k) / STEPS / first), float(k / STEPS / second)
        value = mean_reward(rewards, choose_all(lists, weighted(features, weights)))
        if value > best + 1e-9:
            best, best_weights = value, weights
    return best_weights


def mean_reward(rewards: Sequence[Floats], chosen: Sequence[int | None]) -> float:
    """Return the mean over lists of the chosen candidate's reward; a list without one has 0."""
    values = [
        0.0 if place is None else row[place] for row, place in zip(rewards, chosen, strict=True)
    ]
    return float(np.mean(values))

"""Rewards that say nothing of a translation: the controls of an experiment.

A constant reward is none of them: over a list sum_u Q(u|x) = 1, so that sum_u c Q(u|x) = c has no
gradient, and what is left of L is its likelihood (Choshen et al. 2020 ask for it of REINFORCE).
"""

from __future__ import annotations

import hashlib
import random

import torch
from torch import Tensor

from simile_plugin.files import InputError
from simile_plugin.risk.distribution import masked_std

SHUFFLED = "shuffled:"  # and a reward
NOISE, MODEL = "noise", "model"
# Mean and standard deviation, within a list, of rewards that are made up: sentence BLEU's deviation
# in 8-best lists of Multi30k, so that a cost scale means the same.
MIDDLE, SPREAD = 0.5, 0.08


def read_control(spec: str) -> tuple[str, str]:
    """Split ``--reward`` into a control, "" for none, and the reward that is computed beside it.

    Raises:
        InputError: for a control of a control, or of nothing.
    """
    if spec in (NOISE, MODEL):
        return spec, "bleu"
    if not spec.startswith(SHUFFLED):
        return "", spec
    reward = spec.removeprefix(SHUFFLED)
    if reward in (NOISE, MODEL, "") or reward.startswith(SHUFFLED):
        raise InputError(
            f"--reward: got '{spec}'; expected a reward behind {SHUFFLED}, such as {SHUFFLED}bleu"
        )
    return SHUFFLED, reward


def noise(hyps: list[list[str]], seed: int) -> Tensor:
    """Return a fixed random value for each pair of candidate and reference: (B, 1 + N) float32.

    Uniform around MIDDLE with the deviation SPREAD; the same wherever a run meets the pair again.

    Args:
        hyps: B lists of 1 + N strings, the reference first.
        seed: of the run.
    """
    values = [[_hashed(seed, row[0], hyp) / 2**64 - 0.5 for hyp in row] for row in hyps]
    return MIDDLE + SPREAD * 12**0.5 * torch.tensor(values, dtype=torch.float32)


def exchange(members: list[list[bool]], hyps: list[list[str]], seed: int) -> Tensor:
    """Return whose reward each row gets: a random permutation of each list's members.

    It depends on the seed and the list alone, so that batches, ranks and a resumed run agree.

    Args:
        members: (B, 1 + N), the risk set; other rows keep what they have.
        hyps: B lists of 1 + N strings.

    Returns:
        (B, 1 + N) int64, for ``gather``.
    """
    found = []
    for row, strings in zip(members, hyps, strict=True):
        places, index = [i for i, member in enumerate(row) if member], [*range(len(row))]
        order = random.Random(_hashed(seed, *strings)).sample(places, len(places))
        for place, other in zip(places, order, strict=True):
            index[place] = other
        found.append(index)
    return torch.tensor(found, dtype=torch.int64)


def _hashed(seed: int, *strings: str) -> int:
    """Return 64 bits."""
    digest = hashlib.blake2b("\0".join((str(seed), *strings)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def rank_reward(scores: Tensor, members: Tensor) -> Tensor:
    """Reward the rank that the model itself gives: its favourite most, in equal steps.

    Args:
        scores: (B, 1 + N) of the model, a constant here.
        members: (B, 1 + N) bool, the risk set.

    Returns:
        (B, 1 + N) of mean MIDDLE and deviation SPREAD over each list; equal scores share a reward,
        and where all are equal it is MIDDLE.
    """
    scores = scores.detach()
    pairs = members.unsqueeze(-1) & members.unsqueeze(-2)
    below = torch.sign(scores.unsqueeze(-1) - scores.unsqueeze(-2))
    ranks = torch.where(pairs, below, 0.0).sum(-1)  # sums to 0 over a list
    deviation = masked_std(ranks, members).clamp(min=1e-6).unsqueeze(-1)
    return MIDDLE + SPREAD * ranks / deviation

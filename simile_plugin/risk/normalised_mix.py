"""A mix of rewards in which each part has the same spread, whatever its unit.

Within 8-best lists BLEU varies 1.6 times as much as SIMILE, and so half of each is 1.6 times as
much BLEU. Each part is divided by its mean absolute deviation from its list's mean (MAD; Donato et
al. 2022), and what comes out is given the spread of the plain mix, so that a cost scale means the
same.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

# A part that varies less within lists is divided by this, lest noise become a reward.
FLOOR = 0.01


def normalised_mix(
    parts: Mapping[str, Tensor], weights: Mapping[str, float], members: Tensor, over: str
) -> tuple[Tensor, Tensor]:
    """Mix rewards: sum_k w_k (mean_k + S (x_k - mean_k) / max(M_k, FLOOR)), S = sum_k w_k M_k.

    mean_k is of the part's list. M_k is its MAD in that list ("list"), or the mean of all lists'
    MADs ("batch"), with which a sentence's loss depends on its batch.

    Args:
        parts, weights: rewards (B, 1 + N), and their weights, by name.
        members: (B, 1 + N) bool, the risk set.

    Returns:
        (B, 1 + N) reward; (B,) the first part's weight in a plain mix that would be the same: its
        w_k / max(M_k, FLOOR) over the sum of all parts'.
    """
    count = members.sum(-1, keepdim=True).clamp(min=1)
    mixed, spread = torch.zeros(members.shape, device=members.device), torch.zeros(())
    centred, factors = {}, {}
    for name, part in parts.items():
        part = part.to(members.device)
        mean = torch.where(members, part, 0.0).sum(-1, keepdim=True) / count
        centred[name] = torch.where(members, part - mean, 0.0)
        deviation = centred[name].abs().sum(-1, keepdim=True) / count
        if over == "batch":
            deviation = deviation.mean(0, keepdim=True)
        factors[name] = weights[name] / deviation.clamp(min=FLOOR)
        spread = spread + weights[name] * deviation
        mixed = mixed + weights[name] * mean
    for name, part in centred.items():
        mixed = mixed + spread * factors[name] * part
    first = next(iter(factors))
    share = factors[first] / torch.stack([*factors.values()]).sum(0)
    return mixed, share.squeeze(-1).expand(len(members))

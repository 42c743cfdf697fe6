"""Rows whose score or reward is NaN or infinite leave the risk set; lists without a member.

Shapes: B sentences, 1 + N rows (the reference first), T target positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FiniteRows:
    """The second scoring and the reward, where they are finite.

    Attributes:
        token_lprobs: (B, 1 + N, T), 0 in rows that are not finite.
        mean_lprobs: (B, T) of the reference, 0 where its row is not finite.
        reward: (B, 1 + N), 0 where it is not finite.
        members: (B, 1 + N) bool, the risk set without rows that are not finite.
        references: (B,) bool, sentences whose reference has a finite score.
        dropped: (B,) rows left out: members of the risk set, and the reference.
    """

    token_lprobs: Tensor
    mean_lprobs: Tensor
    reward: Tensor
    members: Tensor
    references: Tensor
    dropped: Tensor


def finite_rows(
    token_lprobs: Tensor, mean_lprobs: Tensor, reward: Tensor, members: Tensor
) -> FiniteRows:
    """Leave out rows with a NaN or infinite log-probability or reward; no gradient enters them.

    What the reference's row lacks is kept from the token loss; it stays out of the risk set too.

    Args:
        token_lprobs: (B, 1 + N, T).
        mean_lprobs: (B, T) of the reference.
        reward: (B, 1 + N); only the values at members count.
        members: (B, 1 + N) bool, the risk set.
    """
    scored = token_lprobs.isfinite().all(-1)
    references = scored[:, 0] & mean_lprobs.isfinite().all(-1)
    rewarded = reward.isfinite().to(members.device)
    kept = members & scored & rewarded
    return FiniteRows(
        torch.where(scored.unsqueeze(-1), token_lprobs, 0.0),
        torch.where(references.unsqueeze(-1), mean_lprobs, 0.0),
        torch.where(rewarded, reward.to(members.device), 0.0),
        kept,
        references,
        (members & ~kept).sum(-1) + ~references,
    )


def cost_without_members(members: Tensor) -> Tensor:
    """Return 1, the worst cost, for a list without members, which is added to its cost; else 0.

    A search that finds nothing would otherwise cost nothing, and look like the best model.

    Args:
        members: (B, 1 + N) bool.

    Returns:
        (B,) float32.
    """
    return (~members.any(-1)).float()

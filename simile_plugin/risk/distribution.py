"""Minimum risk training as pure tensor functions: finite rows -> scores -> Q -> expected cost.

Shapes: B sentences, N candidates, T target positions; 1 + N rows with the reference first.
``mask`` is (B, N) bool, True at the members of the risk set; what stands elsewhere never reaches a
value or a gradient.
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


def candidate_scores(token_lprobs: Tensor, token_mask: Tensor, normalize: bool) -> Tensor:
    """Compute each candidate's score: sum_t log p(u_t | u_<t, x), or its mean over tokens.

    Args:
        token_lprobs: (..., T) log-probabilities of the candidates' own tokens.
        token_mask: (..., T) bool, False at padding.
        normalize: divide by the number of tokens (eos counts).

    Returns:
        (...) scores; 0 for a row of padding only.
    """
    total = torch.where(token_mask, token_lprobs, 0.0).sum(-1)
    return total / token_mask.sum(-1).clamp(min=1) if normalize else total


def candidate_distribution(scores: Tensor, mask: Tensor, sharpness: float = 1.0) -> Tensor:
    """Q(u|x) = exp(a s(u)) / sum_u' exp(a s(u')) over each list (Shen et al. 2016, eq. 8).

    Args:
        scores: (B, N) model scores.
        mask: (B, N) bool, members of the risk set.
        sharpness: a, ``--risk-alpha``.

    Returns:
        (B, N), summing to 1 over the members; all 0 for a list without members.
    """
    logits = (sharpness * scores).masked_fill(~mask, -torch.inf)
    # A list without members would be softmax of -inf only, which is NaN in value and gradient.
    logits = torch.where(mask.any(-1, keepdim=True), logits, torch.zeros_like(logits))
    return torch.softmax(logits, dim=-1).masked_fill(~mask, 0.0)


def beyond_bleu_distribution(mean_scores: Tensor, mask: Tensor) -> Tensor:
    """Q = softmax(exp(mean log p)), as the code released with Wieting et al. 2019 computes it.

    Each exp(mean log p) lies in (0, 1), so no candidate has more than e times another's mass.
    """
    return candidate_distribution(mean_scores.exp(), mask)


def expected_cost(distribution: Tensor, cost: Tensor) -> Tensor:
    """L_Risk of each sentence: sum_u Q(u|x) cost(t, u) (Wieting et al. 2019, section 2.1).

    Args:
        distribution: (B, N), 0 outside the risk set.
        cost: (B, N), finite everywhere.

    Returns:
        (B,) expected costs, in the cost's unit.
    """
    return (distribution * cost).sum(-1)


def cost_without_members(members: Tensor) -> Tensor:
    """Return 1, the worst cost, for a list without members, which is added to its cost; else 0.

    A search that finds nothing would otherwise cost nothing, and look like the best model.

    Args:
        members: (B, 1 + N) bool.

    Returns:
        (B,) float32.
    """
    return (~members.any(-1)).float()


def entropy(distribution: Tensor) -> Tensor:
    """Return the entropy of Q in nats: 0 for one candidate, log N for a uniform list."""
    terms: Tensor = torch.special.xlogy(distribution, distribution)
    return -terms.sum(-1)


def masked_std(values: Tensor, mask: Tensor) -> Tensor:
    """Return the standard deviation (of the population) of each list's members; 0 without members.

    Args:
        values, mask: (B, N).
    """
    count = mask.sum(-1).clamp(min=1)
    mean = torch.where(mask, values, 0.0).sum(-1) / count
    deviations = torch.where(mask, values - mean.unsqueeze(-1), 0.0)
    return ((deviations**2).sum(-1) / count).sqrt()

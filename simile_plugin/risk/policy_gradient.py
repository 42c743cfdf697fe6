"""Policy gradients over sampled candidates, as language models are trained: REINFORCE and GRPO.

Shapes as in `distribution`: B sentences, 1 + N rows of which the members are samples of the model,
T target positions. Both are on-policy: a list is used for one update, so that GRPO's ratio of
probabilities is 1 and its clipping never acts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from simile_plugin.risk.distribution import candidate_scores
from simile_plugin.risk.temporary_changes import evaluation_mode

MRT, GRPO, RLOO = "mrt", "grpo", "rloo"
EPSILON = 1e-4  # beside a list's deviation, as in TRL


def leave_one_out(reward: Tensor, members: Tensor) -> Tensor:
    """A_i = r_i - mean_{j != i} r_j (Kool et al. 2019; Ahmadian et al. 2024): (B, 1 + N).

    0 outside the members, and for a member that is alone.
    """
    count = members.sum(-1, keepdim=True)
    others = torch.where(members, reward, 0.0).sum(-1, keepdim=True) - reward
    advantage = reward - others / (count - 1).clamp(min=1)
    return torch.where(members & (count > 1), advantage, 0.0)


def group_relative(reward: Tensor, members: Tensor) -> Tensor:
    """A_i = (r_i - mean r) / (std r + 1e-4) over each list (Shao et al. 2024, 4.1.2): (B, 1 + N).

    The deviation is the sample's (N - 1), as in TRL; 0 outside the members.
    """
    count = members.sum(-1, keepdim=True)
    mean = torch.where(members, reward, 0.0).sum(-1, keepdim=True) / count.clamp(min=1)
    centred = torch.where(members, reward - mean, 0.0)
    variance = (centred**2).sum(-1, keepdim=True) / (count - 1).clamp(min=1)
    return centred / (variance.sqrt() + EPSILON)


def reinforce(
    token_lprobs: Tensor, token_mask: Tensor, advantages: Tensor, members: Tensor
) -> Tensor:
    """Return -1/n sum_i A_i log p(u_i|x) of each list's n samples: (B,).

    Args:
        token_lprobs, token_mask: (B, 1 + N, T).
        advantages, members: (B, 1 + N); no gradient enters the advantages.
    """
    scores = candidate_scores(token_lprobs, token_mask, normalize=False)
    return -(advantages * scores).sum(-1) / members.sum(-1).clamp(min=1)


def grpo(
    token_lprobs: Tensor,
    token_mask: Tensor,
    advantages: Tensor,
    members: Tensor,
    start_lprobs: Tensor | None = None,
    kl_weight: float = 0.0,
) -> Tensor:
    """Return the mean over a list's tokens of -A_i ratio + beta KL(model, start): (B,).

    Divided by the tokens of the whole list, as DAPO and TRL's default do: in the mean of each
    candidate's own mean (Shao et al. 2024, eq. 3) a token of a longer one counts less.

    Args:
        token_lprobs, token_mask: (B, 1 + N, T).
        advantages, members: (B, 1 + N); no gradient enters the advantages.
        start_lprobs: (B, 1 + N, T) of the model that the training began from; needed for beta > 0.
        kl_weight: beta.
    """
    counted = token_mask & members.unsqueeze(-1)
    lprobs = torch.where(counted, token_lprobs, 0.0)
    ratio = (lprobs - lprobs.detach()).exp()
    loss = -advantages.unsqueeze(-1) * ratio
    if kl_weight and start_lprobs is not None:
        loss = loss + kl_weight * kl_of_samples(lprobs, torch.where(counted, start_lprobs, 0.0))
    return torch.where(counted, loss, 0.0).sum((-1, -2)) / counted.sum((-1, -2)).clamp(min=1)


def kl_of_samples(lprobs: Tensor, start_lprobs: Tensor) -> Tensor:
    """Return p'/p - log(p'/p) - 1, whose mean over samples of p is KL(p, p') (Schulman 2020).

    Args:
        lprobs, start_lprobs: log-probabilities of the same tokens, log p and log p'.
    """
    difference = start_lprobs - lprobs
    return difference.exp() - difference - 1.0


@contextmanager
def weights_of_start(model: nn.Module, start: Mapping[str, Tensor]) -> Iterator[None]:
    """Within the block the model, in eval mode, has the weights that a training began from.

    Enter it before anything is computed of which a gradient is wanted.

    Args:
        model: without wrappers.
        start: its parameters by name.
    """
    own = [(parameter, parameter.data) for _, parameter in model.named_parameters()]
    try:
        for name, parameter in model.named_parameters():
            parameter.data = start[name].to(parameter.data)
        with torch.no_grad(), evaluation_mode(model):
            yield
    finally:
        for parameter, data in own:
            parameter.data = data

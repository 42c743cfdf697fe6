"""From logits to the continuations that a search or a draw goes on with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from simile_plugin.risk import triton_works

# Vocabulary entries of a block of the top-k: the k best entries lie in the k blocks with the
# largest maxima, and a maximum is far cheaper than a selection.
BLOCK = 64
BLOCK_CUDA = 128
# Entries of a row that our kernels choose at most.
MOST = 64


def best_of_rows(logits: Tensor, k: int, left_out: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The k best log-probabilities of rows of logits (R, V), best first, and their tokens.

    Args:
        logits: may be changed.
        left_out: tokens that are not chosen, but that the others are normalised with.

    Returns:
        (R, k), at least float32, and int64; -inf where a row has no more, or is NaN.
    """
    if k <= MOST and len(left_out) <= 2 and (own := kernels_for(logits)):
        found: tuple[Tensor, Tensor] = own.best_of_rows(logits, k, (*left_out, -1, -1)[:2])
        return found
    precise = torch.promote_types(logits.dtype, torch.float32)
    logits = logits.to(precise)
    sums = logits.logsumexp(-1, keepdim=True)
    leave_out(logits, left_out)
    best, tokens = block_topk(logits, k)
    return (best - sums).nan_to_num(nan=-torch.inf, neginf=-torch.inf), tokens


def leave_out(logits: Tensor, tokens: tuple[int, ...]) -> None:
    """Write -inf in place of some tokens."""
    for token in tokens:
        logits[:, token] = -torch.inf


def kernels_for(values: Tensor) -> Any:
    """Return the module of our kernels, None where they do not run on these values."""
    if not triton_works(values.device, values.dtype):
        return None
    from simile_plugin.search import kernels

    return kernels


def best_continuations(
    best: Tensor, tokens: Tensor, scores: Tensor, wanted: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best continuations of each sentence's beams, best first.

    Args:
        best, tokens: (S x beams, k) the best of each beam's, k at least ``wanted`` if there are.
        scores: (S, beams) log-probabilities of the beams so far.
        wanted: continuations a sentence.

    Returns:
        (S, wanted) scores, tokens, and beams that they continue.
    """
    best = best.view(*scores.shape, -1) + scores.unsqueeze(-1)
    width = best.size(-1)
    best, index = best.flatten(1).topk(wanted, dim=1)
    tokens = tokens.view(len(scores), -1).gather(1, index)
    return best, tokens, index.div(width, rounding_mode="floor")


def block_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """``values.topk(k)`` of (R, V) rows, by the maxima of blocks first."""
    rows, width = values.shape
    block = BLOCK if values.device.type == "cpu" else BLOCK_CUDA
    blocks = width // block
    if blocks <= 4 * k:
        return values.topk(k, dim=1)
    # Each of the k best is the maximum of its block or stands beside a larger one in it, so that
    # their blocks are among the k with the largest maxima; the entries after the last whole block
    # are always looked at.
    whole = values[:, : blocks * block].unflatten(1, (blocks, block))
    chosen = whole.amax(-1).topk(k, dim=1, sorted=False).indices
    index = chosen.unsqueeze(-1) * block + torch.arange(block, device=values.device)
    rest = torch.arange(blocks * block, width, device=values.device).expand(rows, -1)
    index = torch.cat([index.flatten(1), rest], dim=1)
    best, places = values.gather(1, index).topk(k, dim=1)
    return best, index.gather(1, places)


def draw(weights: Tensor, draws: int) -> Tensor:
    """Draw from each row of weights (R, V), with replacement: (R, draws) int64."""
    if weights.device.type == "cpu":
        return torch.multinomial(weights, draws, replacement=True)
    # The first of exponential clocks to ring: multinomial would wait for a check of the weights.
    weights = weights.unsqueeze(1).expand(-1, draws, -1)
    return (weights / torch.empty_like(weights).exponential_()).argmax(-1)

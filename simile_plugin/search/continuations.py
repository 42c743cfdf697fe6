"""From logits to the continuations that a search or a draw goes on with."""

from __future__ import annotations

import torch
from torch import Tensor

# Vocabulary entries of a block of the top-k: the k best entries lie in the k blocks with the
# largest maxima, and a maximum is far cheaper than a selection.
BLOCK = 64
BLOCK_CUDA = 128


def best_continuations(
    logits: Tensor, sums: Tensor, scores: Tensor, wanted: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best continuations of each sentence's beams, best first.

    Args:
        logits: (S x beams, V); ``sums``: (S x beams, 1) their log-sum-exp, at least float32.
        scores: (S, beams) log-probabilities of the beams so far.
        wanted: continuations a sentence; there are at most beams x V - 1.

    Returns:
        (S, wanted) scores, tokens, and beams that they continue.
    """
    # The best k continuations of a sentence are among the best k of each of its beams: a top-k by
    # beam, without normalising the rest of the vocabulary, then one over the beams.
    vocabulary = logits.size(-1)
    wanted = min(wanted, scores.size(1) * vocabulary - 1)
    best, tokens = block_topk(logits, min(wanted, vocabulary))
    best = (best - sums).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
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

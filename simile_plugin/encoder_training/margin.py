"""The margin loss of a minibatch, its gradient written out, and the signs of a collapse."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

# Collapsed encoders sit at 1.00 of both, healthy ones far below: the thresholds are not delicate.
COLLAPSED_LOSS = 0.9  # share of 2 * margin, the loss when all cosines are equal
COLLAPSED_COSINE = 0.9  # mean cosine of random pairs
COLLAPSED_GAP = 0.05  # mean cosine of the pairs less that of random pairs
COLLAPSE_ADVICE = (
    "slow the annealing (larger --megabatch-anneal), lower --megabatch, "
    "or raise --init-std or --lr, and train again"
)


def margin_loss(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    """Return both hinges of each pair (Wieting et al. 2019, eq. 3; the second is its mirror image).

    max(0, d - cos(s, t) + cos(s, t')) and max(0, d - cos(s, t) + cos(t, s')).

    Args:
        positive: (B,) cos(s, t).
        negative: (B, 2) cos(s, t') and cos(t, s').
        margin: d.
    """
    return (margin - positive[:, None] + negative).clamp(min=0)


def margin_step(vectors: Tensor, exists: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return margin_loss of a minibatch and its gradient, in half the time of autograd.

    With unit vectors a = s/|s| and so on, d cos(s, t) / ds = (b - cos(s, t) a) / |s|.

    Args:
        vectors: (4 * B, D): all s, all t, all t' (negatives for s), all s' (negatives for t).
        exists: (B, 2) True where there are t' and s'; the hinge of a missing negative is 0.
        margin: d.

    Returns:
        the values of StepStats (5,), and the gradient (4 * B, D) of the mean over pairs.
    """
    norms = vectors.norm(dim=1, keepdim=True).clamp(min=1e-12)
    unit = vectors / norms
    left, right, left_negative, right_negative = unit.chunk(4)
    positive = (left * right).sum(1)
    negative = torch.stack([(left * left_negative).sum(1), (right * right_negative).sum(1)], 1)
    hinges = margin_loss(positive, negative, margin) * exists
    active = hinges > 0
    push = active.to(unit.dtype) / len(left)  # d loss / d negative cosine
    for_left, for_right, pull = push[:, :1], push[:, 1:], push.sum(1, keepdim=True)
    gradient = torch.empty_like(unit)
    of_left, of_right, of_left_negative, of_right_negative = gradient.chunk(4)
    torch.mul(left_negative, for_left, out=of_left).addcmul_(right, pull, value=-1)
    torch.mul(right_negative, for_right, out=of_right).addcmul_(left, pull, value=-1)
    torch.mul(left, for_left, out=of_left_negative)
    torch.mul(right, for_right, out=of_right_negative)
    gradient.addcmul_(unit, (gradient * unit).sum(1, keepdim=True), value=-1).div_(norms)
    count = exists.sum().clamp(min=1)
    neighbours = (left * right.roll(-1, 0)).sum(1).mean()
    means = active.sum() / count, positive.mean(), (negative * exists).sum() / count, neighbours
    return torch.stack([hinges.sum() / len(left), *means]), gradient


@dataclass
class StepStats:
    """Figures of minibatches, on average.

    Attributes:
        loss: of the objective; the margin loss is 2 * margin when all cosines are equal.
        active: share of hinges above 0.
        positive, negative, random: mean cosine of the pairs, of the mined negatives, and of
            sentences of neighbouring pairs, which have nothing to do with each other.
    """

    loss: float
    active: float
    positive: float
    negative: float
    random: float

    def collapsed(self, margin: float) -> bool:
        """Return True where all cosines are near 1, and the loss near 2 * margin."""
        stuck = self.loss > COLLAPSED_LOSS * 2 * margin
        return stuck and embeddings_collapsed(self.positive, self.random)


def embeddings_collapsed(positive: float, random: float) -> bool:
    """Return True where pairs and random sentences have the same cosines, near 1."""
    return random > COLLAPSED_COSINE and positive - random < COLLAPSED_GAP


class Recorded:
    """An objective as a CUDA graph: its 50 small operations run faster than the host sends them.

    Graphs are kept by shape: that of a whole minibatch, and of a smaller last minibatch.
    Where recording fails, the objective is computed step by step, and the log says so once.

    Args:
        objective: as margin_step; it may not ask the device for a value.
    """

    def __init__(self, objective: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        self.objective = objective
        self.graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}
        self.failed = False

    def __call__(self, vectors: Tensor, exists: Tensor) -> tuple[Tensor, Tensor]:
        """Return the objective's values; the next call overwrites the gradient."""
        if vectors.shape not in self.graphs and not self.failed:
            try:
                self.graphs[vectors.shape] = self._record(vectors.clone(), exists.clone())
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                self.failed = True
                first = str(error).splitlines()[0]
                logger.warning(f"no CUDA graph, so that training is slower: {first}")
        if self.failed:
            return self.objective(vectors, exists)
        graph, (static_vectors, static_exists, stats, gradient) = self.graphs[vectors.shape]
        static_vectors.copy_(vectors)
        static_exists.copy_(exists)
        graph.replay()
        return stats.clone(), gradient

    def _record(self, *inputs: Tensor) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # a capture may not allocate what the first call does
            self.objective(*inputs)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self.objective(*inputs)
        return graph, (*inputs, *outputs)

"""Training of the reward encoder: margin loss, mega-batch hard negatives, annealed."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder_training.bags import Bags
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.learner import Gradient, Learner, rank_and_world
from simile_plugin.encoder_training.negatives import hardest_negatives
from simile_plugin.encoder_training.pairs import Pairs
from simile_plugin.files import InputError

logger = logging.getLogger(__name__)

ADAM = "adam."  # before the names of the optimizer's tensors in a state
# Collapsed encoders sit at 1.00 of both, healthy ones far below: the thresholds are not delicate.
COLLAPSED_LOSS = 0.9  # of 2 * margin, its value when all cosines are equal
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
    """Return margin_loss of a minibatch and its gradient, written out: half the time of autograd's.

    With unit vectors a = s/|s| and so on, d cos(s, t) / ds = (b - cos(s, t) a) / |s|.

    Args:
        vectors: (4 * B, D): all s, all t, all t' (negatives for s), all s' (negatives for t).
        exists: (B, 2) whether there are t' and s'; the hinge of one that is not there is 0.
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
    """What minibatches looked like, on average.

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


def embeddings_collapsed(positive: float, random: float) -> bool:
    """Return whether pairs and random sentences cannot be told apart: all cosines are near 1."""
    return random > COLLAPSED_COSINE and positive - random < COLLAPSED_GAP


class Recorded:
    """An objective as one CUDA graph: a GPU does its 50 small operations faster than it is told.

    Graphs are kept by shape: there is the whole minibatch, and now and then a smaller last one.
    Where one cannot be recorded, the objective is computed as it stands, and the log says so once.

    Args:
        objective: as margin_step; it may not ask the device for a value.
    """

    def __init__(self, objective: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        self.objective = objective
        self.graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}
        self.failed = False

    def __call__(self, vectors: Tensor, exists: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the objective does; the gradient is the next call's buffer, too."""
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
        with torch.cuda.stream(aside):  # makes what a capture may not make
            self.objective(*inputs)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self.objective(*inputs)
        return graph, (*inputs, *outputs)


class Trainer:
    """State of a training run: weights, optimizer, place in the data, mined negatives.

    With several processes (torch.distributed) each one computes its share of every minibatch, and
    all of them make the same step.

    Args:
        vocab_size: V, rows of the embedding table; of a mixture those of each part.
        initial: (V, D) embeddings to begin with, instead of random ones.

    Raises:
        InputError: if a minibatch cannot be shared equally by the processes, or ``initial`` has
            another shape.
    """

    def __init__(
        self,
        config: TrainingConfig,
        pairs: Pairs,
        vocab_size: int | Sequence[int],
        device: torch.device | str = "cpu",
        initial: Tensor | None = None,
    ) -> None:
        self.config = config
        self.pairs = pairs
        self.device = torch.device(device)
        self.rank, self.world = rank_and_world()
        if config.batch_size % self.world:
            raise InputError(
                f"--batch-size: got {config.batch_size}, which {self.world} processes cannot share "
                "equally; use a multiple of their number"
            )
        sizes = (vocab_size,) if isinstance(vocab_size, int) else vocab_size
        self.learner = Learner(config, pairs, sizes, self.device, initial)
        self.step = 0
        self.epoch = 0
        self.position = 0  # pairs of the epoch's order that went into mega-batches
        self.order = self._shuffled(0)
        self.queue = np.zeros((0, 4), dtype=np.int64)  # mined: s, t, t' and s' as sentences
        # Of minibatches to come: this process's sentences, and (b, 2) whether there are t' and s'.
        self.ahead: deque[tuple[Bags, Tensor]] = deque()
        self._objective: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = partial(
            margin_step, margin=config.margin
        )
        if self.device.type == "cuda":
            self._objective = Recorded(self._objective)

    def _shuffled(self, epoch: int) -> NDArray[np.integer]:
        order = np.arange(len(self.pairs), dtype=np.uint32)
        np.random.default_rng([self.config.seed, epoch]).shuffle(order)
        return order

    @property
    def weight(self) -> Tensor:
        """Embeddings (V, D) after the last step."""
        return self.learner.optimizer.read()

    @property
    def megabatch(self) -> int:
        """M now: 1 + step / anneal, at most config.megabatch."""
        return min(self.config.megabatch, 1 + self.step // self.config.megabatch_anneal)

    @property
    def lr(self) -> float:
        """Learning rate at this step."""
        return self.config.lr_at(self.step)

    def collapsed(self, stats: StepStats) -> bool:
        """Return whether every cosine is near 1, and the loss near what equal cosines give."""
        stuck = stats.loss > COLLAPSED_LOSS * 2 * self.config.margin
        return stuck and embeddings_collapsed(stats.positive, stats.random)

    def train_step(self) -> Tensor:
        """Train on one minibatch: mine if nothing is left, loss, gradient, a step.

        Returns:
            the values of StepStats, (5,), on the device.
        """
        if len(self.queue) == 0:
            self.queue = self._mine(self._next_pairs())
        if not self.ahead:
            self._look_ahead()
        batch, self.queue = np.split(self.queue, [self.config.batch_size])
        own = batch[self.rank :: self.world]
        share = len(own) / len(batch)
        if len(own):
            gradient, stats = self._gradient(own, *self.ahead.popleft())
        else:  # fewer pairs than processes
            gradient, stats = self.learner.no_gradient(), torch.zeros(5, device=self.device)
        if self.world > 1:
            gradient = gradient.summed(share)
            stats = stats * share
            torch.distributed.all_reduce(stats)
        self.learner.step(gradient)
        self.step += 1
        return stats

    def _look_ahead(self) -> None:
        """Make the bags of this process's shares of the queue, or of the next one of them."""
        size = self.config.batch_size
        shares = [
            self.queue[start : start + size][self.rank :: self.world]
            for start in range(0, len(self.queue), size)
        ]
        shares = [share for share in shares if len(share)]
        if shares:
            bags = self.learner.bags_ahead([self.sentences(share) for share in shares])
            shares = shares[: len(bags)]
            exists = torch.from_numpy(np.concatenate(shares)[:, 2:] >= 0).to(self.device)
            self.ahead.extend(zip(bags, exists.split([*map(len, shares)]), strict=True))

    def sentences(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sentences (4 * b,) of a minibatch, side by side; any where there is none."""
        return np.maximum(batch, 0).T.ravel()

    def _gradient(
        self, batch: NDArray[np.int64], bags: Bags, exists: Tensor
    ) -> tuple[Gradient, Tensor]:
        """Return the gradient of a minibatch, and the values of StepStats.

        Args:
            batch: (b, 4) s, t, t', s' as sentences, -1 for none.
            bags: of them, as ``sentences`` gives them.
            exists: (b, 2) whether there are t' and s'.
        """
        draw = [self.config.seed, self.step, self.rank]
        vectors, backward = self.learner.forward(bags, draw)
        stats, of_vectors = self._objective(vectors, exists)
        return backward(of_vectors), stats

    def _next_pairs(self) -> NDArray[np.integer]:
        """Return sentences (m, 2) of the next mega-batch: whole minibatches, all of tiny data."""
        n, size = len(self.pairs), self.config.batch_size
        usable = max(n - n % size, min(n, size))
        if self.position >= usable:
            self.epoch += 1
            self.position = 0
            self.order = self._shuffled(self.epoch)
        end = min(self.position + self.megabatch * size, usable)
        chosen = self.order[self.position : end]
        self.position = end
        return self.pairs.pair_rows(chosen)

    @torch.no_grad()
    def _mine(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return (m, 4): s, t and their negatives t', s' (-1: none) as sentences."""
        n = len(rows)
        mined = np.full((n, 4), -1, dtype=np.int64)
        mined[:, :2] = rows
        own = np.arange(self.rank, n, self.world)
        if len(own):
            # 64-bit hashes as int64: only their equality counts.
            keys = torch.from_numpy(self.pairs.hashes[rows].view(np.int64)).to(self.device)
            both_sides = rows.T.ravel()
            left, right = self.learner.embed(both_sides).chunk(2)
            pool = self.config.pool
            some = None if len(own) == n else torch.from_numpy(own).to(self.device)
            negatives = hardest_negatives(left, right, keys[:, 0], keys[:, 1], pool, some)
            for column, index in enumerate(negatives, 2):
                place = index.cpu().numpy()
                mined[own, column] = np.where(place >= 0, both_sides[place], -1)
        if self.world > 1:  # the negatives of the others' pairs, so that any process can save all
            shared = torch.from_numpy(mined).to(self.device)
            torch.distributed.all_reduce(shared, torch.distributed.ReduceOp.MAX)
            mined = shared.cpu().numpy()
        return mined

    @torch.no_grad()
    def mean_cosines(self, sample: int = 2000) -> tuple[float, float]:
        """Return mean cosines of a sample of training pairs, and of sentences of different ones."""
        rows = self.pairs.pair_rows(self._shuffled(0)[:sample])
        left, right = F.normalize(self.learner.embed(rows.T.ravel()), dim=1).chunk(2)
        positive, random = (left * right).sum(1), (left * right.roll(-1, 0)).sum(1)
        return float(positive.mean()), float(random.mean())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors and values from which load_state goes on bit for bit (on the CPU)."""
        adam = self.learner.optimizer.state()
        tensors = {ADAM + name: value for name, value in adam.items()}
        tensors["queue"] = torch.from_numpy(self.queue)
        places = {"step": self.step, "epoch": self.epoch, "position": self.position}
        return {name: value.cpu().contiguous() for name, value in tensors.items()}, places

    def load_state(
        self, tensors: dict[str, Tensor], places: dict[str, Any], mine_again: bool = False
    ) -> None:
        """Go on from what state() gave; mine_again: its numbers of sentences are other ones."""
        adam = {name.removeprefix(ADAM): value for name, value in tensors.items()}
        self.learner.optimizer.load_state(adam)
        self.queue = tensors["queue"].numpy().copy()
        self.ahead.clear()
        self.step, self.epoch = places["step"], places["epoch"]
        self.position = places["position"]
        self.order = self._shuffled(self.epoch)
        if mine_again and len(self.queue):
            pending = self.order[self.position - len(self.queue) : self.position]
            self.queue = self._mine(self.pairs.pair_rows(pending))

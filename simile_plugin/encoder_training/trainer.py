"""One step of encoder training: mega-batch hard negatives, margin loss, gradient, Adam.

The gradient of a mean of embeddings is written out, which is several times faster than autograd;
RowAdam touches only the rows that a step's tokens have.
"""

from __future__ import annotations

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

from simile_plugin.encoder import make_composer
from simile_plugin.encoder_training.adam import RowAdam
from simile_plugin.encoder_training.bags import Bags, DevicePairs, Rows
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.initial import random_embeddings
from simile_plugin.encoder_training.margin import Recorded, margin_step
from simile_plugin.encoder_training.negatives import hardest_negatives
from simile_plugin.encoder_training.pairs import Pairs
from simile_plugin.encoder_training.processes import rank_and_world, sum_of_rows
from simile_plugin.files import InputError

ADAM = "adam."  # before the names of the optimizer's tensors in a state


@dataclass(frozen=True)
class Gradient:
    """The gradient of some rows of the embedding table; that of all others is 0."""

    rows: Rows  # (R,) distinct rows, rising
    of_rows: Tensor  # (R, E)

    def summed(self, share: float) -> Gradient:
        """Return ``share`` times this gradient, summed over processes, on all the same bits."""
        return Gradient(*sum_of_rows(self.rows, self.of_rows * share))


Backward = Callable[[Tensor], Gradient]


class Learner:
    """Embeddings of an encoder in training.

    Args:
        sizes: types of tokens: rows V of the embedding table, or of each part of a mixture.
        initial: (V, E) embeddings to begin with, instead of random ones.
    """

    def __init__(
        self,
        config: TrainingConfig,
        pairs: Pairs,
        sizes: Sequence[int],
        device: torch.device,
        initial: Tensor | None = None,
    ) -> None:
        self.config = config
        self.pairs = pairs
        self.device = device
        vocab_size = sum(sizes)
        table = random_embeddings(config, vocab_size) if initial is None else initial.clone()
        if table.shape != (vocab_size, config.dim):
            raise InputError(
                f"initial embeddings are {tuple(table.shape)}, expected ({vocab_size}, "
                f"{config.dim}): pieces and --dim"
            )
        # A graphics card moves the whole table faster than it gathers rows.
        dense = device.type != "cpu"
        self.optimizer = RowAdam(table.to(device), config.lr_at, config.steps, dense)
        self.composer: Any = make_composer(config.kind, config.dim, config.composer, sizes)
        self.dropout_generator = torch.Generator(device)
        self.device_pairs: DevicePairs | None = None
        if device.type != "cpu" and self.composer.is_mean:
            self.device_pairs = DevicePairs(pairs, vocab_size, device)

    @torch.no_grad()
    def embed(self, sentences: NDArray[np.integer]) -> Tensor:
        """Return vectors (U, D) of training sentences, as the finished encoder will give them."""
        if self.device_pairs is not None:
            ids, starts = self.device_pairs.bags(sentences)
            return F.embedding_bag(ids, self.optimizer.read(), starts, mode="mean")
        bags = self.bags(sentences)
        means = bags.means(self.optimizer.read(bags.rows))
        vectors: Tensor = self.composer.of_means(means, bags.lengths)
        return vectors

    def forward(self, bags: Bags, draw: list[int]) -> tuple[Tensor, Backward]:
        """Return vectors (U, D) in training, with dropout, and their backward pass.

        Args:
            draw: seed of the dropout of this step and process.
        """
        table = self.optimizer.read(bags.rows)
        if self.config.dropout > 0:
            means, of_table = self.means_with_dropout(bags, table, draw)
        else:
            means, of_table = bags.means(table), bags.gradient
        if self.composer.is_mean:
            return means, lambda of_means: Gradient(bags.rows, of_table(of_means))
        leaf = means.detach().requires_grad_()
        with torch.enable_grad():
            vectors = self.composer.of_means(leaf, bags.lengths)

        def backward(of_vectors: Tensor) -> Gradient:
            (of_means,) = torch.autograd.grad(vectors, leaf, of_vectors)
            return Gradient(bags.rows, of_table(of_means))

        return vectors.detach(), backward

    def bags(self, sentences: NDArray[np.integer]) -> Bags:
        """Return some training sentences as bags."""
        split = None if self.composer.is_mean else self.composer.bags
        return Bags.of(self.pairs, sentences, self.device, split)

    def bags_ahead(self, parts: Sequence[NDArray[np.integer]]) -> list[Bags]:
        """Return the bags of all coming minibatches on a GPU, of the next minibatch on the CPU."""
        if self.device_pairs is None:
            return [self.bags(parts[0])]
        return self.device_pairs.minibatches(parts)

    def means_with_dropout(
        self, bags: Bags, table: Tensor, draw: list[int]
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return means of embeddings with entries dropped; each occurrence has another mask."""
        keep, lengths = 1 - self.config.dropout, bags.lengths
        # Seeded at every step and process: a resumed run needs no state of the generator.
        seed = int(np.random.default_rng(draw).integers(1 << 62))
        self.dropout_generator.manual_seed(seed)
        mask = torch.empty(len(bags.ids), table.shape[1], device=self.device)
        mask.bernoulli_(keep, generator=self.dropout_generator).div_(keep)
        sums = torch.segment_reduce(table[bags.ids] * mask, "sum", lengths=lengths, axis=0)
        means = sums / lengths.clamp(min=1)[:, None]

        def gradient(of_means: Tensor) -> Tensor:
            each = of_means / lengths.clamp(min=1)[:, None]
            of_pieces = torch.repeat_interleave(each, lengths, dim=0) * mask
            rows = bags.row_numbers
            result = torch.zeros(len(rows), table.shape[1], device=self.device)
            return result.index_add_(0, torch.searchsorted(rows, bags.ids), of_pieces)

        return means, gradient

    def no_gradient(self) -> Gradient:
        """Return the gradient where a process has no sentence: no rows."""
        nothing = torch.zeros(0, self.config.dim, device=self.device)
        return Gradient(np.zeros(0, dtype=np.int64), nothing)

    def step(self, gradient: Gradient) -> None:
        """Make a step of the optimizer."""
        self.optimizer.read(gradient.rows)  # rows of other processes have not been read here
        self.optimizer.step(gradient.rows, gradient.of_rows)


class Trainer:
    """Weights, optimizer, place in the data and mined negatives of a run; makes its steps.

    With several processes (torch.distributed) each computes its share of every minibatch, and all
    make the same step.

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
        # Coming minibatches: bags of this process's sentences, and (b, 2) masks of t' and s'.
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
        """The embeddings (V, D) after the last step."""
        return self.learner.optimizer.read()

    @property
    def megabatch(self) -> int:
        """The M of this step: 1 + step / anneal, at most config.megabatch."""
        return min(self.config.megabatch, 1 + self.step // self.config.megabatch_anneal)

    @property
    def lr(self) -> float:
        """The learning rate at this step."""
        return self.config.lr_at(self.step)

    def train_step(self) -> Tensor:
        """Train on a minibatch: mine negatives if the queue is empty, loss, gradient, a step.

        Returns:
            the values of StepStats, (5,), on the device.
        """
        if len(self.queue) == 0:
            self.queue = self._mine(self._next_pairs())
        if not self.ahead:
            self._look_ahead()
        batch, self.queue = np.split(self.queue, [self.config.batch_size])
        part = batch[self.rank :: self.world]  # of this process
        share = len(part) / len(batch)
        if len(part):
            gradient, stats = self._gradient(*self.ahead.popleft())
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
        """Make the bags of this process's shares of coming minibatches."""
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
        """Return the sentences (4 * b,) of a minibatch, all s, t, t', s'; 0 for a missing one."""
        return np.maximum(batch, 0).T.ravel()

    def _gradient(self, bags: Bags, exists: Tensor) -> tuple[Gradient, Tensor]:
        """Return the gradient of a minibatch, and the values of StepStats.

        Args:
            bags: the sentences s, t, t', s' of b pairs, as ``sentences`` gives them.
            exists: (b, 2) True where there are t' and s'.
        """
        draw = [self.config.seed, self.step, self.rank]
        vectors, backward = self.learner.forward(bags, draw)
        stats, of_vectors = self._objective(vectors, exists)
        return backward(of_vectors), stats

    def _next_pairs(self) -> NDArray[np.integer]:
        """Return the sentences (m, 2) of the next mega-batch: whole minibatches, or tiny data."""
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
        part = np.arange(self.rank, n, self.world)  # of this process
        if len(part):
            # 64-bit hashes as int64: only their equality counts.
            keys = torch.from_numpy(self.pairs.hashes[rows].view(np.int64)).to(self.device)
            both_sides = rows.T.ravel()
            left, right = self.learner.embed(both_sides).chunk(2)
            pool = self.config.pool
            only = None if len(part) == n else torch.from_numpy(part).to(self.device)
            negatives = hardest_negatives(left, right, keys[:, 0], keys[:, 1], pool, only)
            for column, index in enumerate(negatives, 2):
                place = index.cpu().numpy()
                mined[part, column] = np.where(place >= 0, both_sides[place], -1)
        if self.world > 1:  # the negatives of the others' pairs, so that any process can save all
            shared = torch.from_numpy(mined).to(self.device)
            torch.distributed.all_reduce(shared, torch.distributed.ReduceOp.MAX)
            mined = shared.cpu().numpy()
        return mined

    @torch.no_grad()
    def mean_cosines(self, sample: int = 2000) -> tuple[float, float]:
        """Return the mean cosine of a sample of training pairs, and of their neighbours' sides."""
        rows = self.pairs.pair_rows(self._shuffled(0)[:sample])
        left, right = F.normalize(self.learner.embed(rows.T.ravel()), dim=1).chunk(2)
        positive, random = (left * right).sum(1), (left * right.roll(-1, 0)).sum(1)
        return float(positive.mean()), float(random.mean())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors and values from which load_state resumes bit for bit (on the CPU)."""
        adam = self.learner.optimizer.state()
        tensors = {ADAM + name: value for name, value in adam.items()}
        tensors["queue"] = torch.from_numpy(self.queue)
        places = {"step": self.step, "epoch": self.epoch, "position": self.position}
        return {name: value.cpu().contiguous() for name, value in tensors.items()}, places

    def load_state(self, tensors: dict[str, Tensor], places: dict[str, Any]) -> None:
        """Resume from the tensors and values of state()."""
        adam = {name.removeprefix(ADAM): value for name, value in tensors.items()}
        self.learner.optimizer.load_state(adam)
        self.queue = tensors["queue"].numpy().copy()
        self.ahead.clear()
        self.step, self.epoch = places["step"], places["epoch"]
        self.position = places["position"]
        self.order = self._shuffled(self.epoch)

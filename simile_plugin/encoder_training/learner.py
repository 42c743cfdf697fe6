"""The trained parameters of an encoder: vectors of training sentences, gradients, optimizer.

The gradient of a mean of embeddings is written out, which is several times faster than autograd;
RowAdam touches only the rows that a step's tokens have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder import make_composer
from simile_plugin.encoder_training.adam import RowAdam
from simile_plugin.encoder_training.bags import Bags, DevicePairs, Rows, row_numbers
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.initial import random_embeddings
from simile_plugin.encoder_training.pairs import Pairs
from simile_plugin.files import InputError


@dataclass(frozen=True)
class Gradient:
    """Of the embeddings, from some sentences."""

    rows: Rows  # (R,) distinct rows, rising
    of_rows: Tensor  # (R, E)

    def summed(self, share: float) -> Gradient:
        """Return ``share`` times this one, summed over processes, the same on all to the bit."""
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
        self.there: DevicePairs | None = None
        if device.type != "cpu" and self.composer.is_mean:
            self.there = DevicePairs(pairs, vocab_size, device)

    @torch.no_grad()
    def embed(self, sentences: NDArray[np.integer]) -> Tensor:
        """Return vectors (U, D) of training sentences, as the finished encoder will give them."""
        if self.there is not None:
            ids, starts = self.there.bags(sentences)
            return F.embedding_bag(ids, self.optimizer.read(), starts, mode="mean")
        bags = self.bags(sentences)
        means = bags.means(self.optimizer.read(bags.rows))
        vectors: Tensor = self.composer.of_means(means, bags.lengths)
        return vectors

    def forward(self, bags: Bags, draw: list[int]) -> tuple[Tensor, Backward]:
        """Return vectors (U, D) in training, with dropout, and their backward pass.

        Args:
            draw: seed of this step and process.
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
        """Return the bags of all minibatches to come on a GPU, of the next one on the CPU."""
        return [self.bags(parts[0])] if self.there is None else self.there.minibatches(parts)

    def means_with_dropout(
        self, bags: Bags, table: Tensor, draw: list[int]
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return means of embeddings with entries dropped; every occurrence has its own mask."""
        keep, lengths = 1 - self.config.dropout, bags.lengths
        # Seeded anew at every step and process, so that no state of it has to be kept.
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
        """Return the gradient of no sentence."""
        nothing = torch.zeros(0, self.config.dim, device=self.device)
        return Gradient(np.zeros(0, dtype=np.int64), nothing)

    def step(self, gradient: Gradient) -> None:
        """Make one step of the optimizer."""
        self.optimizer.read(gradient.rows)  # of several processes there are rows of the others
        self.optimizer.step(gradient.rows, gradient.of_rows)


def rank_and_world() -> tuple[int, int]:
    """Return the number of this process, and how many there are (torchrun); (0, 1) alone."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def sum_of_rows(rows: Rows, gradient: Tensor) -> tuple[Rows, Tensor]:
    """Sum over processes of gradients of some rows each, the same on all of them to the bit.

    Args:
        rows: (R,) distinct rows of this process.
        gradient: (R, D).

    Returns:
        the distinct rows of all processes, rising, and the sum of their gradients.
    """
    distributed, world = torch.distributed, torch.distributed.get_world_size()
    device = gradient.device
    sizes = torch.zeros(world, dtype=torch.int64, device=device)
    sizes[distributed.get_rank()] = len(rows)
    distributed.all_reduce(sizes)
    # Processes have different numbers of rows, and all_gather wants equal ones: -1 fills them up.
    longest = int(sizes.max())
    padded_rows = torch.full((longest,), -1, dtype=torch.int64, device=device)
    padded_rows[: len(rows)] = row_numbers(rows, device)
    padded = F.pad(gradient, (0, 0, 0, longest - len(rows)))
    all_rows = [torch.empty_like(padded_rows) for _ in range(world)]
    all_gradients = [torch.empty_like(padded) for _ in range(world)]
    distributed.all_gather(all_rows, padded_rows)
    distributed.all_gather(all_gradients, padded)
    given = torch.cat(all_rows)
    kept = given >= 0
    distinct, place = torch.unique(given[kept], return_inverse=True)
    total = torch.zeros(len(distinct), gradient.shape[1], device=device)
    # In the order of the processes: float sums depend on it.
    total.index_add_(0, place, torch.cat(all_gradients)[kept])
    return distinct if isinstance(rows, Tensor) else distinct.cpu().numpy(), total

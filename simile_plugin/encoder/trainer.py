"""Training of the reward encoder: margin loss, mega-batch hard negatives, annealed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder.mining import POOLS, hardest_negatives
from simile_plugin.encoder.pairs import Pairs

SCHEDULES = ("linear", "constant")
# Collapsed encoders sit at 1.00 of both, healthy ones far below: the thresholds are not delicate.
COLLAPSED_LOSS = 0.9  # of 2 * margin, its value when all cosines are equal
COLLAPSED_COSINE = 0.9  # mean cosine of random pairs
COLLAPSED_GAP = 0.05  # mean cosine of the pairs less that of random pairs
COLLAPSE_ADVICE = (
    "slow the annealing (larger --megabatch-anneal), lower --megabatch, "
    "or raise --init-std or --lr, and train again"
)


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides the result, besides data and sentencepiece model.

    Attributes:
        dim: length of a sentence vector.
        steps: minibatches, one Adam step each.
        batch_size: pairs of a minibatch.
        margin: delta of the loss, a difference of cosines.
        megabatch: final M: negatives come from M minibatches of pairs.
        megabatch_anneal: M grows by 1 every so many minibatches, from 1.
        pool: "other" side or "all" sentences of the mega-batch as negatives.
        lr: Adam's, at the first step.
        lr_schedule: "linear" to 0 at the last step, or "constant".
        init_std: standard deviation of the initial embeddings; the loss sees only cosines, so
            lr / init_std is what decides how fast they turn.
        dropout: probability of dropping an entry of a piece embedding.
        seed: of initial embeddings, order of pairs and dropout.
        eval_every: minibatches between evaluations, 0 for never.
        save_every: minibatches between states to resume from, 0 for never.
        log_every: minibatches summed up in a line of the log.
    """

    steps: int
    dim: int = 300
    batch_size: int = 128
    margin: float = 0.4
    megabatch: int = 20
    megabatch_anneal: int = 1500
    pool: str = "other"
    lr: float = 5e-3
    lr_schedule: str = "linear"
    init_std: float = 1.0
    dropout: float = 0.0
    seed: int = 1
    eval_every: int = 0
    save_every: int = 2000
    log_every: int = 100

    def __post_init__(self) -> None:
        """Raise ValueError naming the flag of a value out of range."""
        for name in ("steps", "dim", "batch_size", "megabatch", "megabatch_anneal", "log_every"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "1 or more")
        for name in ("eval_every", "save_every", "seed"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        for name in ("lr", "init_std"):
            value = getattr(self, name)
            _check(name, value, 0 < value < math.inf, "a number above 0")
        _check("margin", self.margin, 0 < self.margin <= 2, "above 0, at most 2 (cosines)")
        _check("dropout", self.dropout, 0 <= self.dropout < 1, "at least 0, below 1")
        _check("pool", self.pool, self.pool in POOLS, " or ".join(POOLS))
        _check(
            "lr_schedule", self.lr_schedule, self.lr_schedule in SCHEDULES, " or ".join(SCHEDULES)
        )


def _check(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise ValueError(f"--{name.replace('_', '-')}: got {value}, expected {expected}")


def pair_cosines(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines of a minibatch.

    Args:
        vectors: (4 * B, D): all s, all t, all t' (negatives for s), all s' (negatives for t).

    Returns:
        cos(s, t) (B,); cos(s, t') and cos(t, s') (B, 2); cos of s and the next pair's t (B,).
    """
    left, right, left_negative, right_negative = F.normalize(vectors, dim=1).chunk(4)
    negative = torch.stack([(left * left_negative).sum(1), (right * right_negative).sum(1)], 1)
    return (left * right).sum(1), negative, (left * right.roll(-1, 0)).sum(1)


def margin_loss(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    """Both hinges of each pair (Wieting et al. 2019, eq. 3; the second is its mirror image).

    max(0, d - cos(s, t) + cos(s, t')) and max(0, d - cos(s, t) + cos(t, s')).

    Args:
        positive: (B,) cos(s, t).
        negative: (B, 2) cos(s, t') and cos(t, s').
        margin: d.

    Returns:
        (B, 2) in [0, margin + 2].
    """
    return (margin - positive[:, None] + negative).clamp(min=0)


def bag_gradient(ids: Tensor, offsets: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of the embeddings, from that of the means of bags of them.

    The transposed problem is a weighted bag too: a piece's gradient is the sum, over the
    sentences it stands in, of their gradients / their lengths. EmbeddingBag's forward does that
    several times faster than its backward.

    Args:
        ids: (P,) pieces of all bags.
        offsets: (U,) start of each bag; no bag is empty.
        gradient: (U, D) of the means.

    Returns:
        distinct pieces (R,) in rising order, and their gradients (R, D).
    """
    ends = torch.cat([offsets[1:], offsets.new_tensor([len(ids)])])
    lengths = ends - offsets
    bags = torch.repeat_interleave(torch.arange(len(offsets), device=ids.device), lengths)
    ordered, order = torch.sort(ids, stable=True)
    pieces, counts = torch.unique_consecutive(ordered, return_counts=True)
    members = bags[order]
    weights = lengths.to(gradient.dtype).reciprocal()[members]
    starts = torch.cumsum(counts, 0) - counts
    rows = F.embedding_bag(members, gradient, starts, mode="sum", per_sample_weights=weights)
    return pieces, rows


@dataclass
class StepStats:
    """What minibatches looked like, on average.

    Attributes:
        loss: mean over pairs of the sum of both hinges; 2 * margin when all cosines are equal.
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
        """Every cosine is near 1, and the loss near what equal cosines give."""
        return self.loss > COLLAPSED_LOSS * 2 * margin and self.random > COLLAPSED_COSINE


def embeddings_collapsed(positive: float, random: float) -> bool:
    """Whether pairs and random sentences cannot be told apart: all cosines are near 1."""
    return random > COLLAPSED_COSINE and positive - random < COLLAPSED_GAP


class Trainer:
    """State of a training run: weights, Adam, place in the data, mined negatives.

    Args:
        config: see there.
        pairs: training pairs.
        vocab_size: V, rows of the embedding table.
        device: where weights and minibatches live.
    """

    def __init__(
        self,
        config: TrainingConfig,
        pairs: Pairs,
        vocab_size: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config = config
        self.pairs = pairs
        self.device = torch.device(device)
        generator = torch.Generator().manual_seed(config.seed)
        table = torch.randn(vocab_size, config.dim, generator=generator) * config.init_std
        self.weight = torch.nn.Parameter(table.to(self.device))
        self.weight.grad = torch.zeros_like(self.weight)
        self.optimizer = torch.optim.Adam([self.weight], lr=config.lr, fused=True)
        self.dropout_generator = torch.Generator(self.device).manual_seed(config.seed)
        # 64-bit hashes as int64: only their equality counts.
        self.keys = pairs.hashes.view(np.int64)
        self.step = 0
        self.epoch = 0
        self.position = 0  # pairs of the epoch's order that went into mega-batches
        self.order = self._shuffled(0)
        self.queue = np.zeros((0, 4), dtype=np.int64)  # mined: s, t, t' and s' as sentences

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self.config.seed, epoch]).permutation(len(self.pairs))

    @property
    def megabatch(self) -> int:
        """M now: 1 + step / anneal, at most config.megabatch."""
        return min(self.config.megabatch, 1 + self.step // self.config.megabatch_anneal)

    @property
    def lr(self) -> float:
        """Adam's learning rate at this step."""
        if self.config.lr_schedule == "constant":
            return self.config.lr
        return self.config.lr * (1 - self.step / self.config.steps)

    def train_step(self) -> Tensor:
        """One minibatch: mine if nothing is left, loss, gradient, Adam.

        Returns:
            the values of StepStats, (5,), on the device.
        """
        if len(self.queue) == 0:
            self.queue = self._mine(self._next_pairs())
        batch, self.queue = np.split(self.queue, [self.config.batch_size])
        found = torch.from_numpy(batch[:, 2:] >= 0).to(self.device)
        ids, offsets = self._bags(np.maximum(batch, 0).T.ravel())
        vectors, finish_gradient = self._embed(ids, offsets)
        positive, negative, random = pair_cosines(vectors)
        hinges = margin_loss(positive, negative, self.config.margin) * found
        loss = hinges.sum() / len(batch)
        loss.backward()
        finish_gradient()
        self._adam()
        self.step += 1
        with torch.no_grad():
            count = found.sum().clamp(min=1)
            active, negatives = (hinges > 0).sum() / count, (negative * found).sum() / count
            return torch.stack([loss, active, positive.mean(), negatives, random.mean()]).detach()

    def _next_pairs(self) -> NDArray[np.int32]:
        """Sentences (m, 2) of the next mega-batch; whole minibatches, unless data is tiny."""
        n, size = len(self.pairs), self.config.batch_size
        usable = max(n - n % size, min(n, size))
        if self.position >= usable:
            self.epoch += 1
            self.position = 0
            self.order = self._shuffled(self.epoch)
        end = min(self.position + self.megabatch * size, usable)
        chosen = self.order[self.position : end]
        self.position = end
        return self.pairs.rows[chosen]

    @torch.no_grad()
    def _mine(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """(m, 4): s, t and their negatives t', s' (-1: none) as sentences."""
        n = len(rows)
        ids, offsets = self._bags(rows.T.ravel())
        vectors = F.embedding_bag(ids, self.weight.detach(), offsets, mode="mean")
        keys = torch.from_numpy(self.keys[rows]).to(self.device)
        found = hardest_negatives(
            vectors[:n], vectors[n:], keys[:, 0], keys[:, 1], self.config.pool
        )
        mined = np.empty((n, 4), dtype=np.int64)
        mined[:, :2] = rows
        both_sides = rows.T.ravel()
        for column, negatives in enumerate(found, 2):
            index = negatives.cpu().numpy()
            mined[:, column] = np.where(index >= 0, both_sides[index], -1)
        return mined

    def _bags(self, sentences: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
        ids, offsets = self.pairs.bags(sentences)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(offsets).to(self.device)

    def _embed(self, ids: Tensor, offsets: Tensor) -> tuple[Tensor, Callable[[], None]]:
        """Sentence vectors, and what to call after their backward pass to fill weight.grad."""
        assert self.weight.grad is not None
        grad = self.weight.grad
        grad.zero_()
        if self.config.dropout > 0:
            vectors = self._embed_with_dropout(ids, offsets)
            return vectors, lambda: None
        vectors = F.embedding_bag(ids, self.weight.detach(), offsets, mode="mean").requires_grad_()

        def apply_gradient() -> None:
            assert vectors.grad is not None
            pieces, rows = bag_gradient(ids, offsets, vectors.grad)
            grad[pieces] = rows

        return vectors, apply_gradient

    def _embed_with_dropout(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Mean of piece embeddings with entries dropped; every occurrence has its own mask."""
        keep = 1 - self.config.dropout
        pieces = F.embedding(ids, self.weight)
        mask = torch.empty_like(pieces).bernoulli_(keep, generator=self.dropout_generator) / keep
        lengths = torch.diff(offsets, append=offsets.new_tensor([len(ids)]))
        return torch.segment_reduce(pieces * mask, "mean", lengths=lengths, axis=0)

    def _adam(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr
        self.optimizer.step()

    @torch.no_grad()
    def mean_cosines(self, weight: Tensor, sample: int = 2000) -> tuple[float, float]:
        """Mean cosine of training pairs, and of sentences of different pairs, over a sample."""
        rows = self.pairs.rows[self._shuffled(0)[:sample]]
        ids, offsets = self._bags(rows.T.ravel())
        vectors = F.embedding_bag(ids, weight.to(self.device), offsets, mode="mean")
        left, right = F.normalize(vectors, dim=1).split(len(rows))
        positive, random = (left * right).sum(1), (left * right.roll(-1, 0)).sum(1)
        return float(positive.mean()), float(random.mean())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which load_state goes on bit for bit (on the CPU)."""
        adam = self.optimizer.state.get(self.weight, {})
        tensors = {f"adam.{name}": value for name, value in adam.items()}
        tensors["weight"] = self.weight.detach()
        tensors["queue"] = torch.from_numpy(self.queue)
        tensors["dropout"] = self.dropout_generator.get_state()
        places = {"step": self.step, "epoch": self.epoch, "position": self.position}
        return {name: value.cpu().contiguous() for name, value in tensors.items()}, places

    def load_state(self, tensors: dict[str, Tensor], places: dict[str, Any]) -> None:
        """Go on from what state() gave."""
        with torch.no_grad():
            self.weight.copy_(tensors["weight"])
        self.optimizer.state[self.weight] = {
            name.removeprefix("adam."): value.to(self.device)
            for name, value in tensors.items()
            if name.startswith("adam.")
        }
        self.queue = tensors["queue"].numpy().copy()
        self.dropout_generator.set_state(tensors["dropout"])
        self.step, self.epoch = places["step"], places["epoch"]
        self.position = places["position"]
        self.order = self._shuffled(self.epoch)

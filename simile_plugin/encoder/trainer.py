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

from simile_plugin.encoder.adam import RowAdam
from simile_plugin.encoder.mining import (
    POOLS,
    hardest_negatives,
    random_negatives,
    sharing_pairs,
)
from simile_plugin.encoder.pairs import Pairs

SCHEDULES = ("linear", "constant")
OBJECTIVES = ("margin", "mnr")
NEGATIVES = ("max", "mix", "rand")
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
        objective: "margin" loss, or "mnr", the multiple-negatives ranking loss.
        scale: inverse temperature of mnr.
        negatives: of the margin loss, in a mega-batch: "max" the most similar, "rand" any one,
            "mix" one or the other, evenly.
        mine_per_process: each of several processes searches its own share of a mega-batch only.
        l2_initial: the loss gets this times half the squared distance from the initial embeddings.
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
    objective: str = "margin"
    scale: float = 20.0
    negatives: str = "max"
    mine_per_process: bool = False
    l2_initial: float = 0.0
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
        for name in ("lr", "init_std", "scale"):
            value = getattr(self, name)
            _check(name, value, 0 < value < math.inf, "a number above 0")
        _check("margin", self.margin, 0 < self.margin <= 2, "above 0, at most 2 (cosines)")
        _check("dropout", self.dropout, 0 <= self.dropout < 1, "at least 0, below 1")
        _check("l2_initial", self.l2_initial, 0 <= self.l2_initial < math.inf, "0 or more")
        for name, choices in (
            ("pool", POOLS),
            ("lr_schedule", SCHEDULES),
            ("objective", OBJECTIVES),
            ("negatives", NEGATIVES),
        ):
            value = getattr(self, name)
            _check(name, value, value in choices, " or ".join(choices))

    def lr_at(self, step: int) -> float:
        """Adam's learning rate at a step, counted from 0."""
        return self.lr if self.lr_schedule == "constant" else self.lr * (1 - step / self.steps)


def _check(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise ValueError(f"--{name.replace('_', '-')}: got {value}, expected {expected}")


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


def margin_step(vectors: Tensor, found: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """margin_loss of a minibatch and its gradient, written out: half the time of autograd's.

    With unit vectors a = s/|s| and so on, d cos(s, t) / ds = (b - cos(s, t) a) / |s|.

    Args:
        vectors: (4 * B, D): all s, all t, all t' (negatives for s), all s' (negatives for t).
        found: (B, 2) whether t' and s' exist; the hinge of one that does not is 0.
        margin: d.

    Returns:
        the values of StepStats (5,), and the gradient (4 * B, D) of the mean over pairs.
    """
    norms = vectors.norm(dim=1, keepdim=True).clamp(min=1e-12)
    unit = vectors / norms
    left, right, left_negative, right_negative = unit.chunk(4)
    positive = (left * right).sum(1)
    negative = torch.stack([(left * left_negative).sum(1), (right * right_negative).sum(1)], 1)
    hinges = margin_loss(positive, negative, margin) * found
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
    count = found.sum().clamp(min=1)
    neighbours = (left * right.roll(-1, 0)).sum(1).mean()
    means = active.sum() / count, positive.mean(), (negative * found).sum() / count, neighbours
    return torch.stack([hinges.sum() / len(left), *means]), gradient


def ranking_step(vectors: Tensor, keys: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Multiple-negatives ranking loss (Henderson et al. 2017), in both directions.

    Mean over pairs and directions of -log softmax_j(scale * cos(s_i, t_j)) at j = i; pairs that
    share a sentence are left out of each other's sums.

    Args:
        vectors: (2 * B, D): all s, all t.
        keys: (B, 2) int64, equal for equal sentences.
        scale: inverse temperature.

    Returns:
        the values of StepStats (5,) and the gradient (2 * B, D). Active is the share of sentences
        that some wrong one is nearer to than the right one; negative the nearest wrong one's mean.
    """
    vectors = vectors.detach().requires_grad_()
    with torch.enable_grad():
        left, right = F.normalize(vectors, dim=1).chunk(2)
        cosines = left @ right.T
        shared = sharing_pairs(keys[:, 0], keys[:, 1])
        own = torch.arange(len(left), device=vectors.device)
        mask = torch.zeros_like(cosines)
        mask[shared[:, 0], shared[:, 1]] = -torch.inf
        wrong = cosines.detach() + mask
        mask[own, own] = 0
        logits = scale * cosines + mask
        loss = (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
        loss.backward()
    assert vectors.grad is not None
    positive = cosines.detach().diagonal()
    nearest = torch.cat([wrong.amax(1), wrong.amax(0)])
    exists = nearest > -torch.inf
    active = ((nearest >= positive.repeat(2)) & exists).sum() / exists.sum().clamp(min=1)
    negative = nearest.where(exists, torch.zeros_like(nearest)).sum() / exists.sum().clamp(min=1)
    neighbours = (left * right.roll(-1, 0)).sum(1).mean()
    stats = [loss, active, positive.mean(), negative, neighbours]
    return torch.stack(stats).detach(), vectors.grad


@dataclass(frozen=True)
class Bags:
    """Sentences of a minibatch as bags of pieces, by sentence and by piece.

    Attributes:
        ids: (P,) int64 pieces of all sentences, one after the other.
        starts: (U,) int64 start of each sentence; none is empty.
        rows: (R,) distinct pieces, rising.
        members: (P,) int64 the sentences that each of rows stands in, row after row.
        row_starts: (R,) int64 start of each row in members.
    """

    ids: Tensor
    starts: Tensor
    rows: NDArray[np.integer]
    members: Tensor
    row_starts: Tensor

    @classmethod
    def of(
        cls, pairs: Pairs, sentences: NDArray[np.integer], device: torch.device | str = "cpu"
    ) -> Bags:
        """The bags of some sentences of the training pairs."""
        ids, starts = pairs.bags(sentences)
        # 16-bit keys are sorted by radix, seven times faster than 64-bit ones.
        order = np.argsort(ids.astype(pairs.ids.dtype), kind="stable")
        ordered = ids[order]
        row_starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        lengths = np.diff(starts, append=len(ids))
        sentence_of = np.repeat(np.arange(len(starts)), lengths)
        tensors = (ids, starts, sentence_of[order], row_starts)
        on_device = [torch.from_numpy(values).to(device) for values in tensors]
        return cls(on_device[0], on_device[1], ordered[row_starts], *on_device[2:])

    def means(self, weight: Tensor) -> Tensor:
        """Mean embedding (U, D) of each sentence."""
        return F.embedding_bag(self.ids, weight, self.starts, mode="mean")

    def gradient(self, of_means: Tensor) -> Tensor:
        """Gradient (R, D) of the rows, from that of the means (U, D).

        The transposed problem is a weighted bag too: a piece's gradient is the sum, over the
        sentences it stands in, of their gradients / their lengths. EmbeddingBag's forward does
        that several times faster than its backward.
        """
        lengths = torch.diff(self.starts, append=self.starts.new_tensor([len(self.ids)]))
        scaled = of_means / lengths[:, None]
        return F.embedding_bag(self.members, scaled, self.row_starts, mode="sum")


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

    def collapsed(self, config: TrainingConfig) -> bool:
        """Every cosine is near 1, and the margin loss near what equal cosines give."""
        stuck = config.objective == "mnr" or self.loss > COLLAPSED_LOSS * 2 * config.margin
        return stuck and embeddings_collapsed(self.positive, self.random)


def embeddings_collapsed(positive: float, random: float) -> bool:
    """Whether pairs and random sentences cannot be told apart: all cosines are near 1."""
    return random > COLLAPSED_COSINE and positive - random < COLLAPSED_GAP


class Trainer:
    """State of a training run: weights, Adam, place in the data, mined negatives.

    With several processes (torch.distributed) each one computes its share of every minibatch, and
    all of them make the same step.

    Args:
        config: see there.
        pairs: training pairs.
        vocab_size: V, rows of the embedding table.
        device: where weights and minibatches live.
        initial: (V, D) embeddings to begin with, instead of random ones.

    Raises:
        ValueError: if a minibatch cannot be shared equally by the processes, or ``initial`` has
            another shape.
    """

    def __init__(
        self,
        config: TrainingConfig,
        pairs: Pairs,
        vocab_size: int,
        device: torch.device | str = "cpu",
        initial: Tensor | None = None,
    ) -> None:
        self.config = config
        self.pairs = pairs
        self.device = torch.device(device)
        self.rank, self.world = rank_and_world()
        if config.batch_size % self.world:
            raise ValueError(
                f"--batch-size: got {config.batch_size}, which {self.world} processes cannot share "
                "equally; use a multiple of their number"
            )
        table = self._first_table(vocab_size) if initial is None else initial.clone()
        if table.shape != (vocab_size, config.dim):
            raise ValueError(
                f"initial embeddings are {tuple(table.shape)}, expected ({vocab_size}, "
                f"{config.dim}): pieces and --dim"
            )
        table = table.to(self.device)
        self.initial = table.clone() if config.l2_initial > 0 else None
        # A graphics card moves the whole table faster than it gathers rows.
        dense = self.device.type != "cpu"
        self.adam = RowAdam(table, config.lr_at, config.steps, dense)
        self.dropout_generator = torch.Generator(self.device)
        self.step = 0
        self.epoch = 0
        self.position = 0  # pairs of the epoch's order that went into mega-batches
        self.order = self._shuffled(0)
        self.queue = np.zeros((0, 4), dtype=np.int64)  # mined: s, t, t' and s' as sentences

    def _first_table(self, vocab_size: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.config.seed)
        table = torch.randn(vocab_size, self.config.dim, generator=generator)
        return table * self.config.init_std

    def _shuffled(self, epoch: int) -> NDArray[np.integer]:
        order = np.arange(len(self.pairs), dtype=np.uint32)
        np.random.default_rng([self.config.seed, epoch]).shuffle(order)
        return order

    @property
    def weight(self) -> Tensor:
        """Embeddings (V, D) after the last step."""
        return self.adam.read()

    @property
    def megabatch(self) -> int:
        """M now: 1 + step / anneal, at most config.megabatch."""
        return min(self.config.megabatch, 1 + self.step // self.config.megabatch_anneal)

    @property
    def lr(self) -> float:
        """Adam's learning rate at this step."""
        return self.config.lr_at(self.step)

    def train_step(self) -> Tensor:
        """One minibatch: mine if nothing is left, loss, gradient, Adam.

        Returns:
            the values of StepStats, (5,), on the device.
        """
        if len(self.queue) == 0:
            self.queue = self._mine(self._next_pairs())
        batch, self.queue = np.split(self.queue, [self.config.batch_size])
        own = batch[self.rank :: self.world]
        share = len(own) / len(batch)
        if len(own):
            rows, gradient, stats = self._gradient(own)
        else:  # fewer pairs than processes
            rows, gradient = np.zeros(0, dtype=np.int64), torch.zeros(0, self.config.dim)
            stats = torch.zeros(5)
        if self.world > 1:
            rows, gradient = sum_of_rows(rows, gradient * share)
            stats = stats * share
            torch.distributed.all_reduce(stats)
            self.adam.read(rows)  # those of the other processes too
        if self.initial is None:
            self.adam.step(rows, gradient)
        else:
            full = (self.adam.read() - self.initial) * self.config.l2_initial
            full[torch.from_numpy(rows).to(self.device)] += gradient
            self.adam.dense_step(full)
        self.step += 1
        return stats

    def _gradient(self, batch: NDArray[np.int64]) -> tuple[NDArray[np.integer], Tensor, Tensor]:
        """Distinct pieces of a minibatch (R,), their gradient (R, D), and the values of StepStats.

        Args:
            batch: (b, 4) s, t, t', s' as sentences, -1 for none.
        """
        ranking = self.config.objective == "mnr"
        used = batch[:, :2] if ranking else np.maximum(batch, 0)
        bags = Bags.of(self.pairs, used.T.ravel(), self.device)
        table = self.adam.read(bags.rows)
        if self.config.dropout > 0:
            vectors, backward = self._means_with_dropout(bags, table)
        else:
            vectors, backward = bags.means(table), bags.gradient
        if ranking:
            keys = torch.from_numpy(self._keys(used)).to(self.device)
            stats, of_vectors = ranking_step(vectors, keys, self.config.scale)
        else:
            found = torch.from_numpy(batch[:, 2:] >= 0).to(self.device)
            stats, of_vectors = margin_step(vectors, found, self.config.margin)
        return bags.rows, backward(of_vectors), stats

    def _means_with_dropout(
        self, bags: Bags, table: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Means of piece embeddings with entries dropped; every occurrence has its own mask."""
        keep = 1 - self.config.dropout
        # Seeded anew at every step and process, so that no state of it has to be kept.
        draw = np.random.default_rng([self.config.seed, self.step, self.rank])
        self.dropout_generator.manual_seed(int(draw.integers(1 << 62)))
        mask = torch.empty(len(bags.ids), table.shape[1], device=self.device)
        mask.bernoulli_(keep, generator=self.dropout_generator).div_(keep)
        lengths = torch.diff(bags.starts, append=bags.starts.new_tensor([len(bags.ids)]))
        means = torch.segment_reduce(table[bags.ids] * mask, "mean", lengths=lengths, axis=0)

        def gradient(of_means: Tensor) -> Tensor:
            of_pieces = torch.repeat_interleave(of_means / lengths[:, None], lengths, dim=0) * mask
            rows = torch.from_numpy(bags.rows.astype(np.int64)).to(self.device)
            result = torch.zeros(len(rows), table.shape[1], device=self.device)
            return result.index_add_(0, torch.searchsorted(rows, bags.ids), of_pieces)

        return means, gradient

    def _keys(self, sentences: NDArray[np.integer]) -> NDArray[np.int64]:
        # 64-bit hashes as int64: only their equality counts.
        return self.pairs.hashes[sentences].view(np.int64)

    def _next_pairs(self) -> NDArray[np.integer]:
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
        return self.pairs.pair_rows(chosen)

    @torch.no_grad()
    def _mine(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """(m, 4): s, t and their negatives t', s' (-1: none) as sentences."""
        n = len(rows)
        mined = np.full((n, 4), -1, dtype=np.int64)
        mined[:, :2] = rows
        if self.config.objective == "mnr":
            return mined
        own = np.arange(self.rank, n, self.world)
        pool = own if self.config.mine_per_process else np.arange(n)
        if len(own):
            negatives = self._negatives(rows[pool], None if len(pool) == len(own) else own)
            both_sides = rows[pool].T.ravel()
            for column, index in enumerate(negatives, 2):
                mined[own, column] = np.where(index >= 0, both_sides[index], -1)
        if self.world > 1:  # the negatives of the others' pairs, so that any process can save all
            shared = torch.from_numpy(mined).to(self.device)
            torch.distributed.all_reduce(shared, torch.distributed.ReduceOp.MAX)
            mined = shared.cpu().numpy()
        return mined

    def _negatives(
        self, rows: NDArray[np.integer], only: NDArray[np.int64] | None
    ) -> list[NDArray[np.int64]]:
        """Positions of t' and of s' in cat(s, t) of the given pairs, for the pairs ``only``."""
        keys = torch.from_numpy(self._keys(rows)).to(self.device)
        chosen = torch.arange(len(rows)) if only is None else torch.from_numpy(only)
        chosen = chosen.to(self.device)
        if self.config.negatives == "max":
            found = self._hardest(rows, keys, chosen)
        else:
            generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + self.step)
            found = random_negatives(keys[:, 0], keys[:, 1], self.config.pool, generator)
            found = found[0][chosen], found[1][chosen]
            if self.config.negatives == "mix":
                hardest = self._hardest(rows, keys, chosen)
                coin = torch.rand(2, len(rows), generator=generator).to(self.device) < 0.5
                coin = coin[:, chosen]
                found = (
                    torch.where(coin[0], hardest[0], found[0]),
                    torch.where(coin[1], hardest[1], found[1]),
                )
        return [side.cpu().numpy() for side in found]

    def _hardest(
        self, rows: NDArray[np.integer], keys: Tensor, only: Tensor
    ) -> tuple[Tensor, Tensor]:
        bags = Bags.of(self.pairs, rows.T.ravel(), self.device)
        left, right = bags.means(self.adam.read(bags.rows)).chunk(2)
        return hardest_negatives(
            left,
            right,
            keys[:, 0],
            keys[:, 1],
            self.config.pool,
            only=None if len(only) == len(rows) else only,
        )

    @torch.no_grad()
    def mean_cosines(self, weight: Tensor, sample: int = 2000) -> tuple[float, float]:
        """Mean cosine of training pairs, and of sentences of different pairs, over a sample."""
        rows = self.pairs.pair_rows(self._shuffled(0)[:sample])
        bags = Bags.of(self.pairs, rows.T.ravel(), self.device)
        left, right = F.normalize(bags.means(weight.to(self.device)), dim=1).chunk(2)
        positive, random = (left * right).sum(1), (left * right.roll(-1, 0)).sum(1)
        return float(positive.mean()), float(random.mean())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which load_state goes on bit for bit (on the CPU)."""
        tensors = {f"adam.{name}": value for name, value in self.adam.state().items()}
        tensors["queue"] = torch.from_numpy(self.queue)
        if self.initial is not None:
            tensors["initial"] = self.initial
        places = {"step": self.step, "epoch": self.epoch, "position": self.position}
        return {name: value.cpu().contiguous() for name, value in tensors.items()}, places

    def load_state(self, tensors: dict[str, Tensor], places: dict[str, Any]) -> None:
        """Go on from what state() gave."""
        self.adam.load_state(
            {
                name.removeprefix("adam."): value.to(self.device)
                for name, value in tensors.items()
                if name.startswith("adam.")
            }
        )
        if self.initial is not None:
            self.initial.copy_(tensors["initial"])
        self.queue = tensors["queue"].numpy().copy()
        self.step, self.epoch = places["step"], places["epoch"]
        self.position = places["position"]
        self.order = self._shuffled(self.epoch)


def rank_and_world() -> tuple[int, int]:
    """Number of this process, and how many there are (torchrun), (0, 1) for one alone."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def sum_of_rows(rows: NDArray[np.integer], gradient: Tensor) -> tuple[NDArray[np.integer], Tensor]:
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
    longest = int(sizes.max())
    padded_rows = torch.full((longest,), -1, dtype=torch.int64, device=device)
    padded_rows[: len(rows)] = torch.from_numpy(rows.astype(np.int64)).to(device)
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
    return distinct.cpu().numpy(), total

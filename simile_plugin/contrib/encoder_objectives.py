"""How PaperConfig trains: other kinds, objectives, negatives and optimizers.

- kinds that are no averages (encoder_kinds), with scrambling (Wieting and Gimpel 2017);
- multiple-negatives ranking (Henderson et al. 2017), the contrastive loss (Sjöblom et al. 2018);
- negatives MIX and RAND, AdaGrad and a penalty on the distance from the initial embeddings
  (PARAGRAM-PHRASE: Wieting et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.contrib.encoder_config import PaperConfig
from simile_plugin.contrib.encoder_kinds import SENTENCES_AT_ONCE, SequenceComposer
from simile_plugin.encoder_training import (
    Bags,
    Gradient,
    Learner,
    StepStats,
    Trainer,
    embeddings_collapsed,
    sharing_pairs,
)

Backward = Callable[[Tensor], Gradient]
ADAGRAD_EPS = 1e-10  # torch.optim.Adagrad's
TRIES = 20  # draws of a random negative


class RowAdagrad:
    """AdaGrad (Duchi et al. 2011) of a table (V, D): s += g^2, w -= lr g / (sqrt(s) + ADAGRAD_EPS).

    Without a gradient nothing moves, so that all rows are current at any time.

    Args:
        weight: (V, D) float32, updated in place.
        lr: learning rate of each step, counted from 0.
    """

    def __init__(self, weight: Tensor, lr: Callable[[int], float]) -> None:
        self.weight = weight
        self.lr = lr
        self.squares = torch.zeros_like(weight)
        self.count = 0

    def read(self, rows: NDArray[np.integer] | None = None) -> Tensor:
        """Return the table; its rows need no bringing up to date, as RowAdam's do."""
        return self.weight

    @torch.no_grad()
    def step(self, rows: NDArray[np.integer], gradient: Tensor) -> None:
        """Make one step: ``gradient`` (R, D) of distinct rows, 0 for all others."""
        index = torch.from_numpy(rows.astype(np.int64)).to(self.weight.device)
        squares = self.squares[index].addcmul_(gradient, gradient)
        self.squares[index] = squares
        change = gradient / squares.sqrt_().add_(ADAGRAD_EPS)
        self.weight.index_add_(0, index, change, alpha=-self.lr(self.count))
        self.count += 1

    @torch.no_grad()
    def dense_step(self, gradient: Tensor) -> None:
        """Make one step with a gradient (V, D) of all rows."""
        self.squares.addcmul_(gradient, gradient)
        below = self.squares.sqrt().add_(ADAGRAD_EPS)
        self.weight.addcdiv_(gradient, below, value=-self.lr(self.count))
        self.count += 1

    def state(self) -> dict[str, Tensor]:
        """Return tensors from which load_state goes on bit for bit."""
        return {
            "weight": self.weight,
            "squares": self.squares,
            "count": torch.tensor(self.count),
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from what state() gave."""
        with torch.no_grad():
            self.weight.copy_(state["weight"])
        self.squares.copy_(state["squares"])
        self.count = int(state["count"])


def ranking_step(vectors: Tensor, keys: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return the multiple-negatives ranking loss (Henderson et al. 2017), in both directions.

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


def contrastive_step(vectors: Tensor, exists: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Pull paraphrases together, push negatives apart up to a margin.

    Mean over pairs of d(s, t) + (max(0, m - d(s, t'))^2 + max(0, m - d(t, s'))^2) / 2 with
    d = 1 - cos (Sjöblom et al. 2018, section 3.2, who pair at random: --negatives rand). Their
    formula has the label the other way round, which would push paraphrases apart; this is their
    text.

    Args:
        vectors, exists, margin: as for margin_step.

    Returns:
        the values of StepStats (5,), and the gradient (4 * B, D). Active is the share of negatives
        within the margin.
    """
    vectors = vectors.detach().requires_grad_()
    with torch.enable_grad():
        left, right, left_negative, right_negative = F.normalize(vectors, dim=1).chunk(4)
        positive = (left * right).sum(1)
        negative = torch.stack([(left * left_negative).sum(1), (right * right_negative).sum(1)], 1)
        within = (margin - 1 + negative).clamp(min=0) * exists
        loss = (1 - positive).mean() + (within**2).sum(1).mean() / 2
        loss.backward()
    assert vectors.grad is not None
    count = exists.sum().clamp(min=1)
    means = (within > 0).sum() / count, positive.mean(), (negative * exists).sum() / count
    neighbours = (left * right.roll(-1, 0)).sum(1).mean()
    return torch.stack([loss, *means, neighbours]).detach(), vectors.grad


def random_negatives(
    left_keys: Tensor, right_keys: Tensor, pool: str, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw any wrong partner of each sentence, as positions as in hardest_negatives.

    A draw that shares a sentence is drawn again; after TRIES of them the result is -1.

    Args:
        left_keys, right_keys, pool: as in hardest_negatives.
        generator: of the CPU.
    """
    n, device = len(left_keys), left_keys.device
    shared = sharing_pairs(left_keys, right_keys)
    codes = torch.unique(shared[:, 0] * n + shared[:, 1])
    sides = []
    for other_side in (1, 0):
        drawn = torch.full((n,), -1, dtype=torch.int64, device=device)
        for _ in range(TRIES):
            missing = (drawn < 0).nonzero().squeeze(1)
            guess = torch.randint(n, (n,), generator=generator).to(device)[missing]
            good = ~torch.isin(missing * n + guess, codes)
            drawn[missing[good]] = guess[good]
        if pool == "all":
            side = torch.randint(2, (n,), generator=generator).to(device)
        else:
            side = torch.full((n,), other_side, device=device)
        sides.append(torch.where(drawn >= 0, drawn + side * n, drawn))
    return sides[0], sides[1]


class PaperLearner(Learner):
    """Learner of any kind, with either optimizer, and a penalty on what moved far."""

    config: PaperConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ordered = isinstance(self.composer, SequenceComposer)
        far = self.config.l2_initial > 0
        self.initial = self.optimizer.weight.clone() if far else None

    def make_optimizer(self, table: Tensor, dense: bool) -> Any:
        """Return the optimizer of a table, see Learner."""
        if self.config.optimizer == "adagrad":
            return RowAdagrad(table, self.config.lr_at)
        return super().make_optimizer(table, dense)

    @torch.no_grad()
    def embed(self, sentences: NDArray[np.integer]) -> Tensor:
        """Return vectors (U, D) of training sentences, see Learner."""
        if not self.ordered:
            return super().embed(sentences)
        parts = []
        for start in range(0, len(sentences), SENTENCES_AT_ONCE):
            bags = self.bags(sentences[start : start + SENTENCES_AT_ONCE])
            rows = bags.row_numbers
            table = self.optimizer.read(bags.rows)[rows]
            places = torch.searchsorted(rows, bags.ids)
            parts.append(self.composer.of_tokens(table, places, bags.starts))
        return torch.cat(parts)

    def forward(self, bags: Bags, draw: list[int]) -> tuple[Tensor, Backward]:
        """Return vectors (U, D) in training and their backward pass, see Learner."""
        if not self.ordered:
            return super().forward(bags, draw)
        rows = bags.row_numbers
        leaf = self.optimizer.read(bags.rows)[rows].requires_grad_()
        ids = self.scrambled(bags, draw) if self.config.scramble > 0 else bags.ids
        mask = self.token_mask(bags, draw) if self.config.dropout > 0 else None
        with torch.enable_grad():
            places = torch.searchsorted(rows, ids)
            vectors: Tensor = self.composer.of_tokens(leaf, places, bags.starts, mask)

        def backward(of_vectors: Tensor) -> Gradient:
            of_rows, *others = torch.autograd.grad(vectors, [leaf, *self.parameters], of_vectors)
            return Gradient(bags.rows, of_rows, others)

        return vectors.detach(), backward

    def bags(self, sentences: NDArray[np.integer]) -> Bags:
        """Return some training sentences as bags, those of a sequence as one each."""
        if self.ordered:
            return Bags.of(self.pairs, sentences, self.device)
        return super().bags(sentences)

    def scrambled(self, bags: Bags, draw: list[int]) -> Tensor:
        """Return the tokens, those of some sentences in random order (Wieting & Gimpel 2017)."""
        generator = np.random.default_rng([*draw, 1])
        lengths = bags.lengths.cpu().numpy()
        chosen = generator.random(len(lengths)) < self.config.scramble
        sentence_of = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(sentence_of), dtype=np.float64)
        moved = chosen[sentence_of]
        place[moved] = generator.random(int(moved.sum()))
        order = np.lexsort([place, sentence_of])
        return bags.ids[torch.from_numpy(order).to(self.device)]

    def token_mask(self, bags: Bags, draw: list[int]) -> Tensor:
        """Return what the embeddings of a sequence are multiplied by (P, E)."""
        if not self.composer.same_mask:
            return self.dropout_mask(len(bags.ids), self.config.dim, draw)
        of_sentences = self.dropout_mask(len(bags.starts), self.config.dim, draw)
        return torch.repeat_interleave(of_sentences, bags.lengths, dim=0)

    def step(self, gradient: Gradient) -> None:
        """Make one step of the optimizer of all parameters."""
        if self.initial is None:
            super().step(gradient)
            return
        full = (self.optimizer.read() - self.initial) * self.config.l2_initial
        full[torch.as_tensor(gradient.rows).to(self.device)] += gradient.of_rows
        self.optimizer.dense_step(full)
        for optimizer, part in zip(self.optimizers.values(), gradient.of_composer, strict=True):
            optimizer.dense_step(part)

    def state(self) -> dict[str, Tensor]:
        """Return tensors from which load_state goes on bit for bit."""
        more = {} if self.initial is None else {"initial": self.initial}
        return super().state() | more

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what state() gave."""
        super().load_state(tensors)
        if self.initial is not None:
            self.initial.copy_(tensors["initial"])


class PaperTrainer(Trainer):
    """Trainer with the papers' other objectives and negatives."""

    config: PaperConfig
    learner_class = PaperLearner

    def collapsed(self, stats: StepStats) -> bool:
        """Return whether every cosine is near 1; only the margin loss says it as well."""
        if self.config.objective == "margin":
            return super().collapsed(stats)
        return embeddings_collapsed(stats.positive, stats.random)

    def objective(self, vectors: Tensor, exists: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values of StepStats and the gradient of vectors."""
        if self.config.objective == "contrastive":
            return contrastive_step(vectors, exists, self.config.margin)
        return super().objective(vectors, exists)

    def sentences(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sentences of a minibatch, without negatives where none are mined."""
        return super().sentences(batch[:, :2] if self.config.objective == "mnr" else batch)

    def _gradient(
        self, batch: NDArray[np.int64], bags: Bags, exists: Tensor
    ) -> tuple[Gradient, Tensor]:
        if self.config.objective != "mnr":
            return super()._gradient(batch, bags, exists)
        draw = [self.config.seed, self.step, self.rank]
        vectors, backward = self.learner.forward(bags, draw)
        hashes = self.pairs.hashes[batch[:, :2]]
        keys = torch.from_numpy(hashes.view(np.int64)).to(self.device)
        stats, of_vectors = ranking_step(vectors, keys, self.config.scale)
        return backward(of_vectors), stats

    def _mine(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        if self.config.objective != "mnr":
            return super()._mine(rows)
        return np.pad(rows, ((0, 0), (0, 2)), constant_values=-1)

    def negatives(
        self, rows: NDArray[np.integer], keys: Tensor, own: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return positions of t' and of s' in cat(s, t), see Trainer."""
        if self.config.negatives == "max":
            return super().negatives(rows, keys, own)
        generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + self.step)
        drawn = random_negatives(keys[:, 0], keys[:, 1], self.config.pool, generator)
        left, right = drawn[0][own], drawn[1][own]
        if self.config.negatives == "rand":
            return left, right
        hardest = super().negatives(rows, keys, own)
        coin = (torch.rand(2, len(rows), generator=generator).to(self.device) < 0.5)[:, own]
        return torch.where(coin[0], hardest[0], left), torch.where(coin[1], hardest[1], right)

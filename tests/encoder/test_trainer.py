"""One training step: loss by hand, gradients checked, Adam beside a slow plain loop."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.encoder.pairs import Pairs
from simile_plugin.encoder.trainer import (
    StepStats,
    Trainer,
    TrainingConfig,
    bag_gradient,
    embeddings_collapsed,
    margin_loss,
    pair_cosines,
)

VOCAB = 40
SMALL: dict[str, Any] = {"dim": 8, "batch_size": 4, "megabatch": 3, "megabatch_anneal": 4}


@pytest.fixture
def pairs(make_pairs: Callable[..., Pairs]) -> Pairs:
    return make_pairs(30, VOCAB, shared=2, filler=3)


def config(steps: int = 20, **changes: Any) -> TrainingConfig:
    return TrainingConfig(steps=steps, **{**SMALL, **changes})


def test_loss_by_hand() -> None:
    # s = (1, 0), t = (3, 4)/5, t' = (0, 2), s' = (4, 3)/5.
    vectors = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [4.0, 3.0]])
    positive, negative, _ = pair_cosines(vectors)
    assert positive.tolist() == pytest.approx([0.6])  # cos(s, t) = 3 / 5
    # cos(s, t') = 0; cos(t, s') = (3 * 4 + 4 * 3) / 25 = 0.96
    assert negative.flatten().tolist() == pytest.approx([0.0, 0.96])
    # max(0, 0.4 - 0.6 + 0) = 0; max(0, 0.4 - 0.6 + 0.96) = 0.76
    loss = margin_loss(positive, negative, 0.4)
    assert loss.flatten().tolist() == pytest.approx([0.0, 0.76])


def test_equal_cosines_cost_twice_the_margin() -> None:
    loss = margin_loss(torch.full((5,), 0.3), torch.full((5, 2), 0.3), 0.4)
    assert loss.sum(1).tolist() == pytest.approx([0.8] * 5)


def test_gradient_of_the_loss_in_float64() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(4 * 5, 3, dtype=torch.float64, generator=generator, requires_grad=True)

    def loss(vectors: Tensor) -> Tensor:
        positive, negative, _ = pair_cosines(vectors)
        return margin_loss(positive, negative, 0.4).sum()

    hinges = margin_loss(*pair_cosines(vectors)[:2], 0.4)
    assert 0 < int((hinges > 0).sum()) < hinges.numel()  # both sides of the hinge are there
    assert torch.autograd.gradcheck(loss, (vectors,))


def test_the_loss_does_not_see_the_scale_of_the_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(8, 3, generator=generator)
    for a, b in zip(pair_cosines(vectors), pair_cosines(vectors * 50), strict=True):
        torch.testing.assert_close(a, b)


def test_gradient_of_bags_is_that_of_autograd() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(12, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    ids = torch.tensor([4, 4, 1, 11, 4, 7, 1])
    offsets = torch.tensor([0, 3, 4])
    gradient = torch.randn(3, 3, dtype=torch.float64, generator=generator)
    torch.nn.functional.embedding_bag(ids, weight, offsets, mode="mean").backward(gradient)
    pieces, rows = bag_gradient(ids, offsets, gradient)
    assert pieces.tolist() == [1, 4, 7, 11]
    assert weight.grad is not None
    torch.testing.assert_close(rows, weight.grad[pieces])
    weight.grad[pieces] = 0
    assert not weight.grad.any()
    # By hand: piece 4 stands twice in bag 0 of length 3, and once in bag 2 of length 3.
    torch.testing.assert_close(rows[1], gradient[0] * 2 / 3 + gradient[2] / 3)


def slow_training(pairs: Pairs, setup: TrainingConfig) -> Tensor:
    """The same training, sentence by sentence, with torch's own modules."""
    generator = torch.Generator().manual_seed(setup.seed)
    table = torch.nn.Parameter(torch.randn(VOCAB, setup.dim, generator=generator) * setup.init_std)
    adam = torch.optim.Adam([table], lr=setup.lr)
    order = np.random.default_rng([setup.seed, 0]).permutation(len(pairs)).tolist()

    def vector(sentence: int) -> Tensor:
        ids = pairs.ids[pairs.offsets[sentence] : pairs.offsets[sentence + 1]]
        return torch.stack([table[int(piece)] for piece in ids]).mean(0)

    def cosine(a: int, b: int) -> Tensor:
        return F.cosine_similarity(vector(a), vector(b), dim=0)

    queue: list[tuple[int, int, int, int]] = []
    for step in range(setup.steps):
        if not queue:
            megabatch = min(setup.megabatch, 1 + step // setup.megabatch_anneal)
            count = megabatch * setup.batch_size
            chosen, order = order[:count], order[count:]
            rows = [tuple(map(int, pairs.rows[index])) for index in chosen]
            with torch.no_grad():
                for s, t in rows:
                    wrong = max((u for r, u in rows if r != s), key=lambda u: float(cosine(s, u)))
                    back = max((r for r, _ in rows if r != s), key=lambda r: float(cosine(t, r)))
                    queue.append((s, t, wrong, back))
        batch, queue = queue[: setup.batch_size], queue[setup.batch_size :]
        loss = torch.zeros(())
        for s, t, wrong, back in batch:
            loss = loss + (setup.margin - cosine(s, t) + cosine(s, wrong)).clamp(min=0)
            loss = loss + (setup.margin - cosine(s, t) + cosine(t, back)).clamp(min=0)
        for group in adam.param_groups:
            group["lr"] = setup.lr * (1 - step / setup.steps)
        adam.zero_grad()
        (loss / len(batch)).backward()
        adam.step()
    return table.detach()


def test_training_equals_a_slow_loop(pairs: Pairs) -> None:
    setup = config(steps=6, megabatch_anneal=2, lr=0.01)
    trainer = Trainer(setup, pairs, VOCAB)
    for _ in range(setup.steps):
        trainer.train_step()
    torch.testing.assert_close(
        trainer.weight.detach(), slow_training(pairs, setup), atol=1e-5, rtol=1e-4
    )


def test_values_of_a_step(pairs: Pairs) -> None:
    trainer = Trainer(config(), pairs, VOCAB)
    stats = StepStats(*trainer.train_step().tolist())
    assert 0 < stats.loss <= 2 * (0.4 + 2)
    assert 0 < stats.active <= 1
    assert -1 <= min(stats.positive, stats.negative, stats.random)
    assert stats.negative > stats.random  # the hardest against any


def test_megabatch_grows_and_learning_rate_falls(pairs: Pairs) -> None:
    trainer = Trainer(config(steps=20), pairs, VOCAB)
    sizes, rates = [], []
    for _ in range(20):
        sizes.append(trainer.megabatch)
        rates.append(trainer.lr)
        trainer.train_step()
    assert sizes == [1] * 4 + [2] * 4 + [3] * 12
    assert rates == pytest.approx([5e-3 * (1 - step / 20) for step in range(20)])
    assert Trainer(config(lr_schedule="constant"), pairs, VOCAB).lr == 5e-3


def test_an_epoch_sees_every_pair_once(pairs: Pairs) -> None:
    # 30 pairs in minibatches of 5: 6 steps an epoch, whatever M is.
    trainer = Trainer(config(steps=12, batch_size=5), pairs, VOCAB)
    seen = []
    for _ in range(12):
        if len(trainer.queue) == 0:
            trainer.queue = trainer._mine(trainer._next_pairs())
        seen.append(trainer.queue[:5, 0])
        trainer.train_step()
    first, second = np.concatenate(seen[:6]), np.concatenate(seen[6:])
    assert sorted(first) == sorted(second) == pairs.rows[:, 0].tolist()
    assert first.tolist() != second.tolist()


def test_fewer_pairs_than_a_minibatch(make_pairs: Callable[..., Pairs]) -> None:
    for count in (1, 2, 3):
        trainer = Trainer(config(), make_pairs(count, VOCAB, shared=1, filler=2), VOCAB)
        before = trainer.weight.detach().clone()
        losses = [float(trainer.train_step()[0]) for _ in range(3)]
        assert all(math.isfinite(loss) for loss in losses)
        if count == 1:  # no other pair: no negative, no loss, no change
            assert losses == [0, 0, 0]
            assert torch.equal(before, trainer.weight.detach())


def test_one_seed_one_result(pairs: Pairs) -> None:
    def result(seed: int) -> Tensor:
        trainer = Trainer(config(seed=seed, dropout=0.2), pairs, VOCAB)
        for _ in range(10):
            trainer.train_step()
        return trainer.weight.detach()

    assert torch.equal(result(1), result(1))
    assert not torch.equal(result(1), result(2))


@pytest.mark.parametrize("stop", [1, 3, 5, 9, 12])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_going_on_from_a_state_changes_nothing(pairs: Pairs, stop: int, dropout: float) -> None:
    # M is 2 from step 4 on and 3 from step 8 on: some stops are inside a mega-batch.
    setup = config(dropout=dropout, megabatch_anneal=4)
    whole = Trainer(setup, pairs, VOCAB)
    for _ in range(setup.steps):
        whole.train_step()
    first = Trainer(setup, pairs, VOCAB)
    for _ in range(stop):
        first.train_step()
    second = Trainer(setup, pairs, VOCAB)
    second.load_state(*first.state())
    for _ in range(setup.steps - stop):
        second.train_step()
    assert torch.equal(whole.weight.detach(), second.weight.detach())


def test_dropout_hits_entries_of_embeddings(pairs: Pairs) -> None:
    trainer = Trainer(config(dropout=0.5, init_std=1e-9), pairs, VOCAB)
    with torch.no_grad():
        trainer.weight.fill_(1.0)
    ids, offsets = trainer._bags(np.arange(60))
    vectors = trainer._embed_with_dropout(ids, offsets).detach()
    # Five pieces of ones, each entry 0 or 1 / 0.5: sums of five of them over five.
    assert set((vectors * 5 / 2).round(decimals=4).flatten().tolist()) <= set(range(6))
    assert float(vectors.mean()) == pytest.approx(1, abs=0.05)
    assert len(vectors.flatten().unique()) > 2


def test_dropout_trains_with_the_gradient_of_what_was_kept(pairs: Pairs) -> None:
    trainer = Trainer(config(dropout=0.5), pairs, VOCAB)
    ids, offsets = trainer._bags(np.array([0]))
    vectors, finish = trainer._embed(ids, offsets)
    vectors.sum().backward()
    finish()
    assert trainer.weight.grad is not None
    # Each occurrence of a kept entry gives 1 / (1 - p) / length = 2 / 5.
    values = (trainer.weight.grad * 5 / 2).flatten()
    assert values.max() > 0
    torch.testing.assert_close(values, values.round())


def learn(pairs: Pairs, vocab: int, **changes: Any) -> tuple[Trainer, StepStats]:
    setup = TrainingConfig(steps=200, dim=32, batch_size=64, lr_schedule="constant", **changes)
    trainer = Trainer(setup, pairs, vocab)
    window = [trainer.train_step() for _ in range(setup.steps)][-50:]
    return trainer, StepStats(*torch.stack(window).mean(0).tolist())


def test_a_collapse_is_seen(make_pairs: Callable[..., Pairs]) -> None:
    # Sides that share nothing, hardest negatives from the first step: all vectors become one.
    pairs = make_pairs(2000, 600, shared=0, filler=8)
    trainer, stats = learn(pairs, 600, lr=1e-2, init_std=0.1, megabatch=30, megabatch_anneal=1)
    assert stats.loss == pytest.approx(2 * 0.4, abs=0.05)
    assert stats.random > 0.95
    assert stats.collapsed(0.4)
    assert embeddings_collapsed(*trainer.mean_cosines(trainer.weight.detach()))


def test_a_healthy_training_is_not_called_collapsed(make_pairs: Callable[..., Pairs]) -> None:
    pairs = make_pairs(2000, 600, shared=2, filler=6)
    trainer, stats = learn(pairs, 600, lr=1e-2, init_std=0.1, megabatch=3, megabatch_anneal=100)
    assert not stats.collapsed(0.4)
    positive, random = trainer.mean_cosines(trainer.weight.detach())
    assert positive > random + 0.3
    assert not embeddings_collapsed(positive, random)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", 0, "--steps: got 0, expected 1 or more"),
        ("dim", 0, "--dim: got 0, expected 1 or more"),
        ("batch_size", -1, "--batch-size: got -1, expected 1 or more"),
        ("megabatch", 0, "--megabatch: got 0"),
        ("megabatch_anneal", 0, "--megabatch-anneal: got 0"),
        ("margin", 0.0, "--margin: got 0.0, expected above 0, at most 2"),
        ("lr", math.nan, "--lr: got nan, expected a number above 0"),
        ("init_std", 0.0, "--init-std: got 0.0"),
        ("dropout", 1.0, "--dropout: got 1.0, expected at least 0, below 1"),
        ("pool", "any", "--pool: got any, expected other or all"),
        ("lr_schedule", "cosine", "--lr-schedule: got cosine, expected linear or constant"),
        ("save_every", -1, "--save-every: got -1, expected 0 or more"),
        ("log_every", 0, "--log-every: got 0, expected 1 or more"),
    ],
)
def test_flags_out_of_range(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**{name: value})  # type: ignore[arg-type]

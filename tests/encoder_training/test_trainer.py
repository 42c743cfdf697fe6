"""One training step: loss by hand, gradients checked, Adam beside a slow plain loop."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.encoder_training.adam import DENSE_STEPS
from simile_plugin.encoder_training.bags import Bags, DevicePairs
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.margin import (
    Recorded,
    StepStats,
    embeddings_collapsed,
    margin_loss,
    margin_step,
)
from simile_plugin.encoder_training.pairs import Pairs
from simile_plugin.encoder_training.trainer import Trainer
from tests.papers.scripts import script

VOCAB = 40
SMALL: dict[str, Any] = {"dim": 8, "batch_size": 4, "megabatch": 3, "megabatch_anneal": 4}


@pytest.fixture
def pairs(make_pairs: Callable[..., Pairs]) -> Pairs:
    return make_pairs(30, VOCAB, shared=2, filler=3)


def config(steps: int = 20, **changes: Any) -> TrainingConfig:
    return TrainingConfig(steps=steps, **{**SMALL, **changes})


def cosines(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """cos(s, t) (B,), and cos(s, t') and cos(t, s') (B, 2), of (4 * B, D) vectors."""
    left, right, left_negative, right_negative = F.normalize(vectors, dim=1).chunk(4)
    negative = torch.stack([(left * left_negative).sum(1), (right * right_negative).sum(1)], 1)
    return (left * right).sum(1), negative


def test_loss_by_hand() -> None:
    # s = (1, 0), t = (3, 4)/5, t' = (0, 2), s' = (4, 3)/5.
    vectors = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [4.0, 3.0]])
    # cos(s, t) = 3 / 5, cos(s, t') = 0, cos(t, s') = (3 * 4 + 4 * 3) / 25 = 0.96
    # max(0, 0.4 - 0.6 + 0) = 0; max(0, 0.4 - 0.6 + 0.96) = 0.76
    loss = margin_loss(torch.tensor([0.6]), torch.tensor([[0.0, 0.96]]), 0.4)
    assert loss.flatten().tolist() == pytest.approx([0.0, 0.76])
    stats, _ = margin_step(vectors, torch.ones(1, 2, dtype=torch.bool), 0.4)
    # Loss; one hinge of two is active; the mean negative is 0.48; the only neighbour is itself.
    assert stats.tolist() == pytest.approx([0.76, 0.5, 0.6, 0.48, 0.6])


def test_the_written_gradient_is_that_of_the_papers_recipe_by_autograd() -> None:
    plain_margin = script("wieting-2019-encoder-kinds", "train").margin
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(4 * 9, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    found = torch.rand(9, 2, generator=generator) < 0.8
    hinges = margin_loss(*cosines(vectors), 0.4) * found
    assert 0 < int((hinges > 0).sum()) < int(found.sum())  # both sides of the hinge are there
    loss = plain_margin(*vectors.chunk(4), found, 0.4)
    loss.backward()
    stats, gradient = margin_step(vectors.detach(), found, 0.4)
    assert stats[0] == pytest.approx(loss.item())
    torch.testing.assert_close(gradient, vectors.grad)


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
            rows = [tuple(map(int, row)) for row in pairs.pair_rows(np.array(chosen))]
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
    assert sorted(first) == sorted(second) == pairs.pair_rows(np.arange(len(pairs)))[:, 0].tolist()
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
    trainer = Trainer(config(dropout=0.5), pairs, VOCAB)
    bags = Bags.of(pairs, np.arange(60))
    vectors, _ = trainer.learner.means_with_dropout(bags, torch.ones(VOCAB, 8), [1, 0, 0])
    # Five pieces of ones, each entry 0 or 1 / 0.5: sums of five of them over five.
    assert set((vectors * 5 / 2).round(decimals=4).flatten().tolist()) <= set(range(6))
    assert float(vectors.mean()) == pytest.approx(1, abs=0.05)
    assert len(vectors.flatten().unique()) > 2


def test_dropout_trains_with_the_gradient_of_what_was_kept(pairs: Pairs) -> None:
    trainer = Trainer(config(dropout=0.5), pairs, VOCAB)
    bags = Bags.of(pairs, np.array([0, 7]))
    weight = torch.randn(VOCAB, 8, dtype=torch.float32, requires_grad=True)
    vectors, backward = trainer.learner.means_with_dropout(bags, weight, [1, 0, 0])
    of_means = torch.randn(2, 8)
    vectors.backward(of_means)
    assert weight.grad is not None
    torch.testing.assert_close(backward(of_means), weight.grad[np.asarray(bags.rows)])


def test_bags_made_ahead_on_a_device_are_those_of_each_minibatch(pairs: Pairs) -> None:
    parts = [np.array([3, 0, 3]), np.array([7, 59, 2, 1, 7])]
    wide = replace(pairs, ids=pairs.ids.astype("<u4"))
    for made in (pairs, wide):
        ahead = DevicePairs(made, VOCAB, torch.device("cpu")).minibatches(parts)
        for bags, sentences in zip(ahead, parts, strict=True):
            for name, wanted in vars(Bags.of(pairs, sentences)).items():
                assert getattr(bags, name).tolist() == wanted.tolist(), name


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
    assert stats.collapsed(trainer.config.margin)
    assert embeddings_collapsed(*trainer.mean_cosines())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", -1, "--steps: got -1, expected 0 or more"),
        ("margin", math.nan, "--margin: got nan, expected a finite number"),
        ("dropout", 1.0, "--dropout: got 1.0, expected at least 0, below 1"),
        ("seed", 10**22, "--seed: got 1(0){22}, expected a whole number from 0 to 4294967295"),
    ],
)
def test_flags_out_of_range(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**{name: value})  # type: ignore[arg-type]


def test_beyond_the_dense_steps_resuming_is_exact(pairs: Pairs) -> None:
    setup = config(steps=DENSE_STEPS + 40, eval_every=7)

    def go(trainer: Trainer, until: int) -> Trainer:
        while trainer.step < until:
            trainer.train_step()
        return trainer

    whole = go(Trainer(setup, pairs, VOCAB), setup.steps)
    first = go(Trainer(setup, pairs, VOCAB), DENSE_STEPS + 17)
    second = Trainer(setup, pairs, VOCAB)
    second.load_state(*first.state())
    assert torch.equal(whole.weight, go(second, setup.steps).weight)


def test_an_objective_that_cannot_be_recorded_is_computed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RuntimeError("no stream")

    monkeypatch.setattr(torch.cuda, "Stream", refuse)
    inputs = torch.randn(8, 3), torch.ones(2, 2, dtype=torch.bool)
    recorded = Recorded(lambda vectors, exists: margin_step(vectors, exists, 0.4))
    for _ in range(2):
        stats, gradient = recorded(*inputs)
        assert torch.equal(stats, margin_step(*inputs, 0.4)[0])
        assert torch.equal(gradient, margin_step(*inputs, 0.4)[1])
    assert caplog.messages == ["no CUDA graph, so that training is slower: no stream"]

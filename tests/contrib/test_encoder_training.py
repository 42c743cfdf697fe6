"""Training that only papers use: objectives beside slow loops, kinds from pairs to folder."""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.cli import main
from simile_plugin.contrib.encoder_config import PaperConfig
from simile_plugin.contrib.encoder_objectives import (
    PaperTrainer,
    RowAdagrad,
    contrastive_step,
    random_negatives,
    ranking_step,
)
from simile_plugin.encoder.format import load_encoder, load_own_encoder, save_encoder
from simile_plugin.encoder_training.config import POOLS
from simile_plugin.encoder_training.learner import Bags
from simile_plugin.encoder_training.pairs import Pairs
from simile_plugin.encoder_training.trainer import margin_step
from tests.cli.test_train_encoder import SMALL as FLAGS
from tests.encoder_training.test_adam import DIM, ROWS, Rate, constant, draw, falling
from tests.encoder_training.test_kinds import SENTENCES, Trained
from tests.encoder_training.test_processes import in_processes, train
from tests.encoder_training.test_trainer import SMALL, VOCAB

# Kind, its tokens, its settings.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "charagram": ("charagram", "ngram", {"init_std": 0.1}),
    "lstm": ("lstm", "sp", {"hidden": 6, "scramble": 0.5}),
    "blstm": ("blstm", "trigram", {"combine": "concat", "dropout": 0.1}),
    "gran": ("gran", "word", {"dropout": 0.2, "init_std": 0.3}),
    "concat": ("word+charagram", "word+ngram", {"mix": "concat", "dropout": 0.1}),
}
every_kind = pytest.mark.parametrize("name", KINDS)


@pytest.fixture
def pairs(make_pairs: Callable[..., Pairs]) -> Pairs:
    return make_pairs(30, VOCAB, shared=2, filler=3)


def config(steps: int = 20, **changes: Any) -> PaperConfig:
    return PaperConfig(steps=steps, **{**SMALL, **changes})


def made_of(name: str, source: Path, **changes: Any) -> Trained:
    kind, tokens, settings = KINDS[name]
    return Trained(kind, tokens, {**settings, **changes}, source, PaperTrainer)


def test_two_steps_by_hand() -> None:
    table = RowAdagrad(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), lambda step: [0.1, 0.01][step])
    table.step(np.array([1]), torch.tensor([[2.0, -0.5]]))
    # The first step is lr * g / |g|: 3 - 0.1, 4 + 0.1.
    torch.testing.assert_close(table.read(), torch.tensor([[1.0, 2.0], [2.9, 4.1]]))
    table.step(np.array([0, 1]), torch.tensor([[0.0, 3.0], [1.0, 0.0]]))
    # Without a gradient nothing moves; 2.9 - 0.01 * 1 / sqrt(2^2 + 1^2).
    expected = [[1.0, 2.0 - 0.01], [2.9 - 0.01 / math.sqrt(5), 4.1]]
    torch.testing.assert_close(table.read(), torch.tensor(expected))


@pytest.mark.parametrize("scale", [1e-3, 1e-8])
@pytest.mark.parametrize("schedule", [constant(200), falling(200)])
def test_every_step_is_that_of_dense_adagrad(scale: float, schedule: Rate) -> None:
    rng = np.random.default_rng(7)
    start = torch.from_numpy(rng.standard_normal((ROWS, DIM)).astype(np.float32))
    ours = RowAdagrad(start.clone(), schedule)
    table = torch.nn.Parameter(start.clone())
    theirs = torch.optim.Adagrad([table])
    for step in range(200):
        rows, gradient = draw(rng, scale)
        table.grad = torch.zeros_like(table)
        table.grad[rows] = gradient
        theirs.param_groups[0]["lr"] = schedule(step)
        theirs.step()
        if step % 3:
            ours.step(rows, gradient)
        else:
            ours.dense_step(table.grad)
        torch.testing.assert_close(ours.read(), table.detach(), rtol=1e-6, atol=1e-7)


def slow_ranking_loss(vectors: Tensor, keys: list[tuple[int, int]], scale: float) -> Tensor:
    """Multiple-negatives ranking loss, sentence by sentence."""
    count = len(keys)
    total = torch.zeros((), dtype=vectors.dtype)
    for queries, pool in (
        (vectors[:count], vectors[count:]),
        (vectors[count:], vectors[:count]),
    ):
        for i in range(count):
            allowed = [j for j in range(count) if j == i or not set(keys[i]) & set(keys[j])]
            scores = torch.stack(
                [scale * F.cosine_similarity(queries[i], pool[j], dim=0) for j in allowed]
            )
            total = total - torch.log_softmax(scores, 0)[allowed.index(i)]
    return total / (2 * count)


def test_ranking_loss_is_that_of_a_slow_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(2 * 5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    keys = [(1, 2), (3, 4), (1, 5), (6, 7), (8, 4)]  # 0 and 2 share a sentence, 1 and 4 too
    loss = slow_ranking_loss(vectors, keys, 7.0)
    loss.backward()
    stats, gradient = ranking_step(vectors, torch.tensor(keys), 7.0)
    assert stats[0] == pytest.approx(loss.item())
    torch.testing.assert_close(gradient, vectors.grad)


def test_contrastive_loss_by_hand() -> None:
    # s = (1, 0), t = (3, 4)/5, t' = (0, 2), s' = (4, 3)/5: d(s, t) = 1 - 3/5, d(s, t') = 1,
    # d(t, s') = 1 - 24/25. Margin 1/2: t' is outside of it, s' inside.
    vectors = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [4.0, 3.0]])
    exists = torch.ones(1, 2, dtype=torch.bool)
    stats, _ = contrastive_step(vectors, exists, 0.5)
    loss = 2 / 5 + (0 + (0.5 - 1 / 25) ** 2) / 2
    assert stats.tolist() == pytest.approx([loss, 1 / 2, 3 / 5, (0 + 24 / 25) / 2, 3 / 5])
    stats, gradient = contrastive_step(vectors, torch.tensor([[True, False]]), 0.5)
    assert stats[0] == pytest.approx(2 / 5)
    assert gradient[2:].abs().sum() == 0  # no gradient enters a negative that does not exist


def test_ranking_loss_by_hand() -> None:
    # s1 = t1 = (1, 0), s2 = t2 = (0, 1): -log(e^2 / (e^2 + e^0)) = log(1 + e^-2) each.
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    stats, _ = ranking_step(vectors, torch.tensor([[1, 2], [3, 4]]), 2.0)
    assert stats.tolist() == pytest.approx([math.log(1 + math.exp(-2)), 0, 1, 0, 0])


def test_neighbours_are_of_other_pairs() -> None:
    # s1 = t1 = (1, 0), s2 = (0, 1), t2 = (3, 4)/5: cos(s1, t1) = 1, cos(s2, t2) = 4/5, and of
    # neighbours cos(s1, t2) = 3/5, cos(s2, t1) = 0. By them a collapse is seen.
    pairs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [3.0, 4.0]])
    vectors, exists = torch.cat([pairs, pairs]), torch.ones(2, 2, dtype=torch.bool)
    ranking, _ = ranking_step(pairs, torch.tensor([[1, 2], [3, 4]]), 2.0)
    for stats in (margin_step(vectors, exists, 0.4)[0], contrastive_step(vectors, exists, 0.4)[0]):
        assert stats[[2, 4]].tolist() == pytest.approx([0.9, 0.3])
    # the nearest wrong ones: t2 of s1, t1 of s2, s2 of t1, s1 of t2; none is nearer than the right
    assert ranking[1:].tolist() == pytest.approx([0, 0.9, (0.6 + 0 + 0 + 0.6) / 4, 0.3])
    # where pairs share a sentence none is wrong
    shared, _ = ranking_step(pairs, torch.tensor([[1, 2], [3, 1]]), 2.0)
    assert shared[1:].tolist() == pytest.approx([0, 0.9, 0, 0.3])


def test_l2_by_hand(make_pairs: Callable[..., Pairs]) -> None:
    # One pair has no negative: the only gradient is l2 * (W - W0), and Adam's first step is
    # lr * its sign. With W = W0 nothing moves at all; from W0 + 1 everything moves by -lr.
    trainer = PaperTrainer(
        config(l2_initial=0.5, lr_schedule="constant"), make_pairs(1, VOCAB, 1, 2), VOCAB
    )
    before = trainer.weight.clone()
    trainer.train_step()
    assert torch.equal(trainer.weight, before)
    trainer = PaperTrainer(
        config(l2_initial=0.5, lr_schedule="constant"), make_pairs(1, VOCAB, 1, 2), VOCAB
    )
    trainer.learner.optimizer.weight += 1
    trainer.train_step()
    torch.testing.assert_close(trainer.weight, before + 1 - 5e-3)


def test_adagrad_trains_and_is_resumed(pairs: Pairs) -> None:
    flags: dict[str, Any] = {"optimizer": "adagrad", "lr_schedule": "constant", "megabatch": 1}
    setup = config(60, lr=0.05, l2_initial=1e-6, **flags)
    whole = PaperTrainer(setup, pairs, VOCAB)
    losses = [float(whole.train_step()[0]) for _ in range(setup.steps)]
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:20])
    first, second = PaperTrainer(setup, pairs, VOCAB), PaperTrainer(setup, pairs, VOCAB)
    for _ in range(5):
        first.train_step()
    second.load_state(*first.state())
    for _ in range(setup.steps - 5):
        second.train_step()
    assert torch.equal(whole.weight, second.weight)


@pytest.mark.parametrize("negatives", ["max", "mix", "rand"])
def test_negatives_by_name(pairs: Pairs, negatives: str) -> None:
    setup = config(negatives=negatives, megabatch_anneal=1, batch_size=10)
    means = []
    for seed in range(5):
        trainer = PaperTrainer(config(**{**vars(setup), "seed": seed}), pairs, VOCAB)
        trainer.step = 2  # M = 3: all pairs
        mined = trainer._mine(trainer._next_pairs())
        bags = [Bags.of(pairs, mined[:, column]) for column in (0, 2)]
        left, negative = (F.normalize(part.means(trainer.weight)) for part in bags)
        means.append(float((left * negative).sum(1).mean()))
    expected = {"max": (0.5, 1), "mix": (0.2, 0.5), "rand": (-0.2, 0.2)}[negatives]
    assert expected[0] < np.mean(means) < expected[1]


@pytest.mark.parametrize("pool", POOLS)
def test_random_negatives_are_allowed_and_vary(pool: str) -> None:
    n = 30
    keys = torch.randint(0, 50, (2 * n,), generator=torch.Generator().manual_seed(0))
    seen: list[set[int]] = [set(), set()]
    times = torch.zeros(2 * n)
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        found = random_negatives(keys[:n], keys[n:], pool, generator)
        for side, index in enumerate(found):
            assert int(index.min()) >= 0 and int(index.max()) < 2 * n
            times += torch.bincount(index, minlength=2 * n)
            for i, negative in enumerate(index.tolist()):
                own = {int(keys[i]), int(keys[i + n])}
                assert not own & {int(keys[negative % n]), int(keys[negative % n + n])}
            seen[side].add(int(index[0]))
            if pool == "other":
                assert all(negative // n == 1 - side for negative in index.tolist())
    # Of 200 draws for one sentence nearly all that are allowed come up.
    assert all(len(drawn) > 20 for drawn in seen)
    # 200 of 60 sentences draw from 60: 200 times each, less where a sentence is shared.
    assert times.min() > 100 and times.max() < 300
    both = {drawn // n for drawn in seen[0]}
    assert both == ({0, 1} if pool == "all" else {1})


def test_scrambling_keeps_the_tokens_of_a_sentence(make_tsv: Callable[..., Path]) -> None:
    made = made_of("lstm", make_tsv(160), scramble=0.5)
    learner = made.trainer().learner
    bags = learner.bags(np.arange(40))
    bounds = [*bags.starts.tolist(), len(bags.ids)]
    ids = bags.ids.tolist()
    draws = [learner.scrambled(bags, [1, step, 0]).tolist() for step in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    moved = 0
    for start, end in pairwise(bounds):
        assert sorted(draws[0][start:end]) == sorted(ids[start:end])
        moved += draws[0][start:end] != ids[start:end]
    assert 8 <= moved <= 32  # of 40, half are meant to be


def test_variational_dropout_is_one_mask_for_a_sentence(make_tsv: Callable[..., Path]) -> None:
    for name, same in (("gran", True), ("lstm", False)):
        learner = made_of(name, make_tsv(160), dropout=0.5).trainer().learner
        bags = learner.bags(np.arange(6))
        mask = learner.token_mask(bags, [1, 0, 0])
        rows = mask[int(bags.starts[2]) : int(bags.starts[3])]
        assert bool((rows == rows[0]).all()) == same
        assert set(mask.flatten().tolist()) == {0.0, 2.0}


@every_kind
def test_training_computes_what_the_encoder_does(name: str, make_tsv: Callable[..., Path]) -> None:
    settings = {"scramble": 0.0} if name == "lstm" else {}
    made = made_of(name, make_tsv(160), **settings, dropout=0.0)
    trainer, some = made.trainer(), np.array([4, 0, 9, 4])
    trainer.train_step()
    encoder = made.encoder(trainer)
    sentences = [made.sentences[row] for row in some]
    slow = encoder(*map(torch.from_numpy, made.tokenizer.encode_flat(sentences)))
    torch.testing.assert_close(trainer.learner.embed(some), slow.detach())
    of_vectors = torch.randn(slow.shape, generator=torch.Generator().manual_seed(0))
    slow.backward(of_vectors)
    vectors, backward = trainer.learner.forward(trainer.learner.bags(some), [1, 0, 0])
    torch.testing.assert_close(vectors, slow.detach())
    gradient = backward(of_vectors)
    assert encoder.weight.grad is not None
    full = torch.zeros_like(encoder.weight)
    full[np.asarray(gradient.rows)] = gradient.of_rows
    torch.testing.assert_close(full, encoder.weight.grad)
    for part, expected in zip(gradient.of_composer, encoder.composer.parameters(), strict=True):
        torch.testing.assert_close(part, expected.grad)


@every_kind
def test_going_on_from_a_state_changes_nothing(name: str, make_tsv: Callable[..., Path]) -> None:
    more = {"l2_initial": 0.01} if name == "charagram" else {}
    made = made_of(name, make_tsv(160), steps=12, **more)
    whole, first, second = made.trainer(), made.trainer(), made.trainer()
    for _ in range(12):
        whole.train_step()
    for _ in range(6):
        first.train_step()
    second.load_state(*first.state())
    for _ in range(6):
        second.train_step()
    for key, part in whole.tensors().items():
        assert torch.equal(part, second.tensors()[key]), key


@every_kind
def test_saved_and_loaded(name: str, make_tsv: Callable[..., Path], tmp_path: Path) -> None:
    made = made_of(name, make_tsv(160))
    encoder = made.encoder(made.trainer())
    save_encoder(tmp_path / "enc", encoder)
    loaded = load_own_encoder(tmp_path / "enc")
    assert loaded.config == encoder.config
    together = loaded.embed_text(SENTENCES)
    assert torch.equal(together, encoder.embed_text(SENTENCES)) and not together[1].any()
    many = loaded.embed_text(SENTENCES * 300)  # more than go through a layer at once
    torch.testing.assert_close(many, together.repeat(300, 1))


@pytest.mark.parametrize(
    "changes", [{"negatives": "mix"}, {"l2_initial": 0.1}, {"kind": "blstm", "hidden": 4}]
)
def test_two_processes_train_what_one_does(
    pairs: Pairs, tmp_path: Path, changes: dict[str, Any]
) -> None:
    setup = config(9, megabatch_anneal=2, **changes)
    alone = train(pairs, setup, PaperTrainer)
    first, second = in_processes(2, tmp_path, train, pairs, setup, PaperTrainer)
    assert torch.equal(first["weight"], second["weight"])  # the same to the bit on both
    torch.testing.assert_close(first["weight"], alone["weight"], atol=1e-5, rtol=1e-4)


def test_the_command(
    make_tsv: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "enc"
    command = ["contrib", "train-encoder", str(make_tsv(160)), "--output", str(out), *FLAGS]
    command += ["--kind", "gran", "--tokens", "word", "--scramble", "0.3", "--dropout", "0.1"]
    command += ["--objective", "contrastive", "--negatives", "rand", "--steps", "40"]
    assert main(command) == 0
    assert " words x 16, step 40" in capsys.readouterr().out
    flags = load_encoder(out).training_facts["flags"]
    assert (flags["kind"], flags["scramble"], flags["objective"]) == ("gran", 0.3, "contrastive")
    assert (flags["lr"], flags["init_std"]) == (1e-3, 0.1)  # the kind's own
    losses = [json.loads(line)["loss"] for line in (out / "training.jsonl").open()]
    assert losses[-1] < losses[0]
    assert main([*command, "--overwrite", "--kind", "word"]) == 2
    assert "--scramble: got 0.3, which a word encoder has no use for" in capsys.readouterr().err


def test_flags_of_the_paper(make_tsv: Callable[..., Path], tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "recipes/encoder/paragram-phrase.flags"
    command = ["contrib", "train-encoder", f"@{path}", str(make_tsv(160)), "--dim", "8"]
    assert main([*command, "--epochs", "1", "--output", str(tmp_path / "enc")]) == 0

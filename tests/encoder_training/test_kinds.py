"""Every kind of encoder from training to reward: its gradients, mining, files and rewards."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simile_plugin.encoder.format import load_own_encoder, save_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.segmenter import Preprocessing, Tokenizer
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.negatives import hardest_negatives
from simile_plugin.encoder_training.pairs import read_pairs, segment_pairs
from simile_plugin.encoder_training.run import finished_encoder
from simile_plugin.encoder_training.tokenizers import train_tokenizer
from simile_plugin.encoder_training.trainer import Trainer
from simile_plugin.reward import Scorer
from simile_plugin.reward.simile import signature

PLAIN = Preprocessing()
SMALL: dict[str, Any] = {"dim": 8, "batch_size": 16, "megabatch": 2, "megabatch_anneal": 5}
# Kind, its tokens, its settings, what the length penalty counts.
KINDS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "sp": ("sp", "sp", {}, "pieces"),
    "word": ("word", "word", {"dropout": 0.1}, "words"),
    "trigram": ("trigram", "trigram", {}, "characters"),
    "add": ("sp+trigram", "sp+trigram", {}, "pieces"),
    "concat": ("word+trigram", "word+trigram", {"mix": "concat", "dropout": 0.1}, "words"),
}
every_kind = pytest.mark.parametrize("name", KINDS)
SENTENCES = ["The grey heron finds a boat.", "", "An otter!", "Ωδή ✗", "the the fog the"]


class Trained:
    """A kind, its data and a trainer of it."""

    def __init__(self, kind: str, tokens: str, settings: dict[str, Any], tsv: Path) -> None:
        text = read_pairs([str(tsv)], PLAIN)
        self.tokenizer: Tokenizer = train_tokenizer(tokens, text.sentences, PLAIN, 90)
        self.pairs = segment_pairs(text, self.tokenizer)
        self.config = TrainingConfig(**{"steps": 60, "lr": 0.01, **SMALL, "kind": kind, **settings})
        self.text = text
        self.sentences = [line for block in text.blocks for line in block.sentences]

    def trainer(self) -> Any:
        return Trainer(self.config, self.pairs, self.tokenizer.sizes)

    def encoder(self, trainer: Trainer) -> Encoder:
        return finished_encoder(trainer.weight, self.tokenizer, self.config)


def made_of(name: str, tsv: Path, **changes: Any) -> Trained:
    kind, tokens, settings, _ = KINDS[name]
    return Trained(kind, tokens, {**settings, **changes}, tsv)


def untrained(name: str, tsv: Path) -> Encoder:
    made = made_of(name, tsv)
    return made.encoder(made.trainer())


@pytest.fixture
def tsv(make_tsv: Callable[..., Path]) -> Path:
    return make_tsv(160)


@every_kind
def test_mining_searches_the_vectors_of_the_encoder(name: str, tsv: Path) -> None:
    made = made_of(name, tsv)  # with dropout, which mining must not see
    trainer = made.trainer()
    trainer.train_step()
    rows = made.pairs.pair_rows(np.arange(12))
    mined = trainer._mine(rows)
    encoder = made.encoder(trainer)
    left, right = (encoder.embed_text([made.sentences[r] for r in rows[:, k]]) for k in (0, 1))
    keys = torch.from_numpy(made.pairs.hashes[rows].view(np.int64))
    for column, places in enumerate(hardest_negatives(left, right, keys[:, 0], keys[:, 1]), 2):
        both = rows.T.ravel()
        assert mined[:, column].tolist() == [both[p] if p >= 0 else -1 for p in places.tolist()]


@every_kind
def test_gradients_are_those_of_autograd(name: str, tsv: Path) -> None:
    made = made_of(name, tsv, dropout=0.0)
    learner = made.trainer().learner
    some = np.array([3, 17, 3, 40])
    encoder = made.encoder(made.trainer())
    sentences = [made.sentences[row] for row in some]
    ids, offsets = map(torch.from_numpy, made.tokenizer.encode_flat(sentences))
    slow = encoder(ids, offsets)
    of_vectors = torch.randn(slow.shape, generator=torch.Generator().manual_seed(0))
    slow.backward(of_vectors)
    vectors, backward = learner.forward(learner.bags(some), [1, 0, 0])
    torch.testing.assert_close(vectors, slow.detach())
    gradient = backward(of_vectors)
    assert encoder.weight.grad is not None
    full = torch.zeros_like(encoder.weight)
    full[np.asarray(gradient.rows)] = gradient.of_rows
    torch.testing.assert_close(full, encoder.weight.grad)


@every_kind
def test_saved_and_loaded(name: str, tsv: Path, tmp_path: Path) -> None:
    made = made_of(name, tsv)
    trainer = made.trainer()
    trainer.train_step()
    encoder = made.encoder(trainer)
    save_encoder(tmp_path / "enc", encoder)
    loaded = load_own_encoder(tmp_path / "enc")
    assert loaded.fingerprint == encoder.fingerprint
    assert loaded.config == encoder.config
    assert torch.equal(loaded.embed_text(SENTENCES), encoder.embed_text(SENTENCES))
    assert loaded.dim == loaded.embed_text(["a"]).shape[1]


def slow_lengths(encoder: Encoder, sentences: list[str], unit: str) -> list[int]:
    prepared = [PLAIN.apply(sentence) for sentence in sentences]
    if unit == "words":
        return [len(text.split()) for text in prepared]
    if unit == "characters":
        return [len(text) for text in prepared]
    part = encoder.segmenter if encoder.kind != "sp+trigram" else encoder.segmenter.parts[0]  # type: ignore[attr-defined]
    return [len(row) for row in part.encode(sentences)]


@every_kind
def test_rewards_by_a_slow_loop(name: str, tsv: Path) -> None:
    encoder = untrained(name, tsv)
    unit = KINDS[name][3]
    hyps, refs = [["a grey heron", "the otter finds a boat", ""]], ["The heron finds the boat ✗."]
    found = Scorer(encoder=encoder, alpha=0.25).lists(hyps, refs)
    lengths = slow_lengths(encoder, [*refs, *hyps[0]], unit)
    assert encoder.embed_counted([*refs, *hyps[0]]).lengths.tolist() == lengths
    vectors = encoder.embed_text([*refs, *hyps[0]]).double()
    for place, hyp_length in enumerate(lengths[1:]):
        left, right = vectors[0], vectors[place + 1]
        norm = float(left.norm() * right.norm())
        sim = float(left @ right) / norm if norm else 0.0
        ratio = max(lengths[0], hyp_length) / max(1, min(lengths[0], hyp_length))
        penalty = math.exp(1 - ratio) if hyp_length else 0.0
        assert found.sim is not None and found.simile is not None
        assert float(found.sim[0, place]) == pytest.approx(sim, abs=1e-5)
        assert float(found.simile[0, place]) == pytest.approx(penalty**0.25 * sim, abs=1e-5)
    assert f"|kind:{encoder.kind}|dim:{encoder.dim}|" in signature(encoder)
    assert f"|len:{unit}|" in signature(encoder)

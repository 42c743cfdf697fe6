"""A sentence-transformers folder as reward; a small stand-in plays the library, which is optional.

It has the library's own interface as far as it is used: recipes/encoder/README.md says with which
version the real one was tried.
"""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from simile_plugin.encoder.format import load_encoder
from simile_plugin.encoder.sentence_transformer import SentenceTransformerEncoder
from simile_plugin.reward import Scorer
from simile_plugin.reward.simile import signature

WORDS = ["[UNK]", "a", "heron", "boat", "the", "waits"]
VECTORS = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.0, 1.0], [3.0, 0.0]]


class FakeTokenizer:
    """As transformers' tokenisers are called."""

    unk_token_id = 0

    def __call__(self, sentences: list[str], **flags: bool) -> dict[str, list[list[int]]]:
        assert flags == {"add_special_tokens": False, "truncation": False, "verbose": False}
        known = {word: number for number, word in enumerate(WORDS)}
        return {"input_ids": [[known.get(w, 0) for w in s.lower().split()] for s in sentences]}


class FakeBatchTokenizer:
    """As the library tokenizers is called, which static embeddings have."""

    cut = True

    def no_truncation(self) -> None:
        self.cut = False

    def no_padding(self) -> None:
        pass

    def encode_batch(self, sentences: list[str], add_special_tokens: bool) -> list[Any]:
        assert not self.cut and not add_special_tokens
        return [
            SimpleNamespace(ids=ids) for ids in FakeTokenizer()(sentences, **FLAGS)["input_ids"]
        ]


FLAGS = {"add_special_tokens": False, "truncation": False, "verbose": False}


class FakeModel(torch.nn.Module):
    """Mean of word vectors, plus a bias that special tokens would bring."""

    def __init__(self, folder: str, device: str, **flags: bool) -> None:
        super().__init__()
        assert flags == {"local_files_only": True, "trust_remote_code": False}
        settings = json.loads(Path(folder, "config.json").read_text())
        if settings.get("broken"):
            raise OSError("no file named model.safetensors\nfound there")
        self.tokenizer = FakeBatchTokenizer() if settings.get("static") else FakeTokenizer()
        self.table = torch.nn.Parameter(torch.tensor(VECTORS).half())

    @property
    def device(self) -> torch.device:
        return self.table.device

    def encode(self, sentences: list[str], **flags: Any) -> Tensor:
        assert flags["convert_to_tensor"] and "" not in sentences
        rows = FakeTokenizer()(sentences, **FLAGS)["input_ids"]
        return torch.stack([self.table[row].mean(0) + 0.5 for row in rows]).detach()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = FakeModel  # type: ignore[attr-defined]
    module.__version__ = "0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    kind = "sentence_transformers.models.Transformer"
    (path / "modules.json").write_text(json.dumps([{"idx": 0, "path": "", "type": kind}]))
    (path / "config.json").write_text("{}")
    (path / "README.md").write_text("about it")
    return path


@pytest.mark.parametrize("static", [False, True])
def test_scores_by_hand(library: None, folder: Path, static: bool) -> None:
    (folder / "config.json").write_text(json.dumps({"static": static}))
    encoder = load_encoder(folder)
    assert isinstance(encoder, SentenceTransformerEncoder)
    found = encoder.embed_counted(["a heron", "", "THE otter waits"])
    # (1, 0) and (0, 2): (0.5, 1) + 0.5; nothing; (0, 1), unknown, (3, 0): (1, 1 / 3) + 0.5.
    expected = torch.tensor([[1.0, 1.5], [0, 0], [1.5, 1 / 3 + 0.5]])
    torch.testing.assert_close(found.vectors, expected, atol=1e-3, rtol=0)
    assert found.lengths.tolist() == [2, 0, 3]
    assert found.unknown.tolist() == [0, 0, 0 if static else 1]
    scores = Scorer(encoder=encoder).lists([["a heron", ""]], ["THE otter waits"])
    # LP = exp(1 - 3/2) ^ 0.25, SIM = (1 * 1.5 + 1.5 * 5/6) / (|(1, 1.5)| |(1.5, 5/6)|).
    assert scores.simile is not None
    assert scores.simile[0].tolist() == pytest.approx([0.8825 * 0.8889, 0], abs=1e-3)
    assert "|kind:sentence-transformers|dim:2|text:own|len:tokens|" in signature(encoder)
    assert encoder.embed_text([]).shape == (0, 2)


def test_the_fingerprint_is_of_the_files(library: None, folder: Path) -> None:
    first = load_encoder(folder).fingerprint
    (folder / "README.md").write_text("more about it")
    assert load_encoder(folder).fingerprint == first
    (folder / "config.json").write_text('{"other": 1}')
    assert load_encoder(folder).fingerprint != first


def test_without_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ValueError, match=r"that package cannot be imported .* pip install"):
        load_encoder(folder)


def test_folders_that_are_refused(library: None, folder: Path) -> None:
    (folder / "config.json").write_text('{"broken": 1}')
    with pytest.raises(ValueError, match=r"cannot read it \(no file named .* found there\)"):
        load_encoder(folder)
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"pytorch_model.bin: can run code when it is read"):
        load_encoder(folder)
    (folder / "modules.json").write_text('[{"type": "modeling.Own"}]')
    with pytest.raises(ValueError, match=r"modules.json: type: got 'modeling.Own', code that is"):
        load_encoder(folder)
    for content in ("{", "[1]", '[{"path": ""}]'):
        (folder / "modules.json").write_text(content)
        with pytest.raises(ValueError, match="modules.json: not a list of modules"):
            load_encoder(folder)

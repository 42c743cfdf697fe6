"""Exported folders: what stands in them, and the same cosines in another library."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file

from simile_plugin.cli import main
from simile_plugin.encoder.export import (
    MODEL2VEC,
    SENTENCE_TRANSFORMERS,
    export_encoder,
    tokenizer_json,
)
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.encoder.tokens import WordTokenizer

SENTENCES = [
    "The grey heron waits beside the cold water.",
    "  An OLD ferry\tcrosses (at noon)\u2026 the\u00a0strait!  ",
    "well-known \ufb01shermen's \u201cbread\u201d \uff21t e\u0301t\u00e9",
    "two\u2581boys\u200bskip \u5bff\u53f8 stones, \u0391\u03a3 \u03a3\u0391 \u0130",
    "a\x01b\x1cc line\u2028break \u00bd \u20ac5 <s> <unk>",
    "",
    "w" * 2000,
    "the cold pond " * 600,
]
RAW = Preprocessing(lowercase=False, nfkc=False, split_punctuation=False)


def trained(**options: Any) -> bytes:
    model = io.BytesIO()
    flags = {"vocab_size": 45, "hard_vocab_limit": False, "minloglevel": 2, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the grey heron waits", "an old ferry, at noon"] * 4),
        model_writer=model,
        **flags,
    )
    return model.getvalue()


def segmenter_of(encoder: Encoder) -> Segmenter:
    assert isinstance(encoder.segmenter, Segmenter)
    return encoder.segmenter


def test_only_averages_of_pieces_are_exported(tmp_path: Path) -> None:
    words = WordTokenizer(["a"], Preprocessing())
    encoder = Encoder(torch.ones(2, 3), words)
    with pytest.raises(ValueError, match=r"is of kind word; only averages .* can be exported"):
        export_encoder(encoder, tmp_path / "st", SENTENCE_TRANSFORMERS)


def test_folders(encoder: Encoder, tmp_path: Path) -> None:
    export_encoder(encoder, tmp_path / "st", SENTENCE_TRANSFORMERS)
    export_encoder(encoder, tmp_path / "m2v", MODEL2VEC)
    expected = encoder.weight.detach().clone()
    expected[segmenter_of(encoder).unk_id] = 0
    for folder, name in (("st", "embedding.weight"), ("m2v", "embeddings")):
        tensors = load_file(tmp_path / folder / "model.safetensors")
        assert list(tensors) == [name]
        assert torch.equal(tensors[name], expected)
        modules = json.loads((tmp_path / folder / "modules.json").read_text())
        assert [part["type"] for part in modules] == [
            "sentence_transformers.models.StaticEmbedding"
        ]
        tokenizer = json.loads((tmp_path / folder / "tokenizer.json").read_text("utf-8"))
        assert len(tokenizer["model"]["vocab"]) == len(encoder.segmenter)
        assert tokenizer["model"]["unk_id"] == segmenter_of(encoder).unk_id
    config = json.loads((tmp_path / "m2v" / "config.json").read_text())
    assert config["normalize"] is False and config["max_length"] is None


@pytest.mark.parametrize("preprocessing", [Preprocessing(), RAW], ids=["prepared", "raw"])
@pytest.mark.parametrize("rules", ["identity", "nmt_nfkc"])
def test_model2vec_gives_the_same_vectors(
    rules: str, preprocessing: Preprocessing, tmp_path: Path
) -> None:
    model2vec = pytest.importorskip("model2vec", reason="of the extra: pip install -e .[test]")
    segmenter = Segmenter(trained(normalization_rule_name=rules), preprocessing)
    weight = torch.randn(len(segmenter), 16, generator=torch.Generator().manual_seed(2))
    encoder = Encoder(weight, segmenter)
    export_encoder(encoder, tmp_path / "m2v", MODEL2VEC)
    export_encoder(encoder, tmp_path / "st", SENTENCE_TRANSFORMERS)
    model = model2vec.StaticModel.from_pretrained(str(tmp_path / "m2v"))
    assert model.tokenize(SENTENCES) == [
        [piece for piece in row if piece != segmenter.unk_id] for row in segmenter.encode(SENTENCES)
    ]
    found = torch.from_numpy(model.encode(SENTENCES))
    torch.testing.assert_close(found, encoder.embed_text(SENTENCES), atol=1e-5, rtol=1e-5)
    tokenizers = [(tmp_path / name / "tokenizer.json").read_bytes() for name in ("m2v", "st")]
    assert tokenizers[0] == tokenizers[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "bpe"}, "another model than unigram"),
        ({"byte_fallback": True, "vocab_size": 300}, "byte fallback"),
        ({"user_defined_symbols": ["<sep>"]}, "user-defined symbols"),
        ({"add_dummy_prefix": False}, "no mark before each word"),
    ],
)
def test_segmentations_that_cannot_be_expressed(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tokenizer_json(Segmenter(trained(**options), Preprocessing()))


def test_command(encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["convert-encoder", "--from", str(encoder_folder), "--to", "model2vec"]
    for more in [], ["--overwrite"]:
        assert main([*arguments, "--output", str(tmp_path / "out"), *more]) == 0
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 2
    assert "out holds an encoder" in capsys.readouterr().err
    assert (tmp_path / "out" / "config.json").is_file()

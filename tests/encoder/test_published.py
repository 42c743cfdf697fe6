"""Published encoders: the two layouts, read without running them, embedding as they do."""

import argparse
from pathlib import Path

import pytest
import torch
from torch import Tensor

from simile_plugin.cli import main
from simile_plugin.encoder.format import load_encoder
from simile_plugin.encoder.models import cosine
from simile_plugin.encoder.published import UNKNOWN_WORD, convert_published, read_published
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter

SENTENCES = [
    "the grey heron waits",
    "An old ferry crosses the strait at NOON",
    "two boys skip stones over the cold pond",
    "nobody told the baker about the oven",
]


def vocabulary(proto: bytes, leave_out: int = 0) -> dict[str, int]:
    """Pieces in another order than sentencepiece's, some left out, and words that are none."""
    pieces = Segmenter(proto, Preprocessing()).model.pieces[3:][::-1]
    words = ["\u2581neverseen", *pieces[: len(pieces) - leave_out], "\u5bff", UNKNOWN_WORD]
    return {word: row for row, word in enumerate(words)}


def beyond_bleu(proto: bytes) -> dict[str, object]:
    words = vocabulary(proto, leave_out=20)
    table = torch.randn(len(words), 8, generator=torch.Generator().manual_seed(1))
    args = argparse.Namespace(dim=8, gpu=-1, clip=None, wordfile=None)
    return {"state_dict": {"embedding.weight": table}, "vocab_words": words, "args": args}


def at_scale(proto: bytes, **changed: object) -> dict[str, object]:
    words = vocabulary(proto, leave_out=20)
    table = torch.nn.Embedding(len(words), 8)
    optimizer = torch.optim.Adam(table.parameters())
    table(torch.arange(3)).sum().backward()
    optimizer.step()
    flags = {
        **{"model": "avg", "dim": 8, "pool": "mean", "ngrams": 0, "zero_unk": 1, "gpu": 1},
        **{"share_vocab": 1, "lower_case": 1, "tokenize": 0, "sp_model": "x.model", "lr": 0.001},
    }
    return {
        "state_dict": {"embedding.weight": table.weight.detach()},
        "vocab": words,
        "vocab_fr": None,
        "args": argparse.Namespace(**{**flags, **changed}),
        "optimizer": optimizer.state_dict(),
        "epoch": 10,
    }


def their_vector(found: dict[str, object], proto: bytes, sentence: str) -> Tensor:
    """How the published code embeds: pieces as text, looked up, averaged."""
    words = found.get("vocab_words") or found["vocab"]
    assert isinstance(words, dict)
    table = found["state_dict"]["embedding.weight"]  # type: ignore[index]
    drops = getattr(found["args"], "zero_unk", 1)
    pieces = Segmenter(proto, Preprocessing())._processor.EncodeAsPieces(sentence.lower())
    rows = [words.get(piece, None if drops else words[UNKNOWN_WORD]) for piece in pieces]
    return table[[row for row in rows if row is not None] or [words[UNKNOWN_WORD]]].mean(0)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("layout", ["beyond-bleu", "at-scale", "at-scale with unknowns"])
def test_cosines_are_those_of_the_published_code(
    layout: str, zipped: bool, spm_proto: bytes, tmp_path: Path
) -> None:
    if layout == "beyond-bleu":
        found = beyond_bleu(spm_proto)
    else:
        found = at_scale(spm_proto, zero_unk=int(layout == "at-scale"))
    path = tmp_path / "sim.pt"
    torch.save(found, path, _use_new_zipfile_serialization=zipped)
    encoder, counts = convert_published(path, spm_proto)
    # Two words of the vocabulary are no pieces; <unk>, <s>, </s> and 20 pieces are not in it.
    assert counts["words_left_out"] == 2
    assert counts["with_embedding"] == counts["pieces"] - 3 - 20
    ours = encoder.embed_text(SENTENCES)
    theirs = torch.stack([their_vector(found, spm_proto, text) for text in SENTENCES])
    torch.testing.assert_close(
        cosine(ours.unsqueeze(0), ours.unsqueeze(1)),
        cosine(theirs.unsqueeze(0), theirs.unsqueeze(1)),
    )
    assert encoder.segmenter.preprocessing == Preprocessing(
        lowercase=True, nfkc=False, split_punctuation=layout == "beyond-bleu"
    )


def test_case_and_tokenisation_follow_the_training_flags(spm_proto: bytes, tmp_path: Path) -> None:
    torch.save(at_scale(spm_proto, lower_case=0, tokenize=1), tmp_path / "x.pt")
    encoder, _ = convert_published(tmp_path / "x.pt", spm_proto)
    assert encoder.segmenter.preprocessing == Preprocessing(lowercase=False, nfkc=False)
    plain, _ = convert_published(tmp_path / "x.pt", spm_proto, split_punctuation=False)
    assert not plain.segmenter.preprocessing.split_punctuation


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state_dict": {}}, "no table of embeddings embedding.weight"),
        ({"vocab_words": {"a": 99999}}, "got 'a': 99999, expected a word and a row below"),
        ({"args": argparse.Namespace(model="lstm")}, "got model 'lstm'"),
    ],
)
def test_other_models_are_refused(
    changes: dict[str, object], message: str, spm_proto: bytes, tmp_path: Path
) -> None:
    torch.save({**beyond_bleu(spm_proto), **changes}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=message):
        read_published(tmp_path / "x.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "damaged, or not written"), (b"text\n", "damaged"), (b"PK\x03\x04 cut", "damaged")],
)
def test_damaged_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(ValueError, match=f"--from: .*x.pt: .*{message}"):
        read_published(tmp_path / "x.pt")


def test_the_sentencepiece_model_must_be_that_of_the_vocabulary(
    spm_proto: bytes, tmp_path: Path
) -> None:
    found = beyond_bleu(spm_proto)
    words = {f"x{row}": row for row in range(20)}
    torch.save({**found, "vocab_words": words}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="only 0 of the 20 words .* are pieces of this model"):
        convert_published(tmp_path / "x.pt", spm_proto)


def test_command(spm_proto: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sp.model").write_bytes(spm_proto)
    torch.save(at_scale(spm_proto), tmp_path / "x.pt")
    source = ["convert-encoder", "--from", str(tmp_path / "x.pt")]
    output = ["--output", str(tmp_path / "enc")]
    assert main([*source, "--sentencepiece", str(tmp_path / "sp.model"), *output]) == 0
    assert "2 words of its vocabulary are no pieces" in capsys.readouterr().err
    encoder = load_encoder(tmp_path / "enc")
    assert encoder.dim == 8
    assert encoder.training_facts["from"] == "x.pt"
    assert main([*source, *output]) == 2
    assert "enc holds an encoder; name another folder or add --overwrite" in capsys.readouterr().err
    output = ["--output", str(tmp_path / "new")]
    assert main([*source, *output]) == 2
    assert "--sentencepiece: missing" in capsys.readouterr().err
    missing = ["convert-encoder", "--from", "no.pt", "--sentencepiece", "x", *output]
    assert main(missing) == 2
    assert "--from: no.pt: no such file" in capsys.readouterr().err

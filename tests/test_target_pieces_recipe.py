"""recipes/benchmarks/target_pieces.py: what it counts is what a model and its lists have."""

import argparse
from pathlib import Path

import pytest
import torch

from recipes.benchmarks import target_pieces
from simile_plugin.files import InputError
from tests.hugging_face_models import marian, save, write_corpus


def test_what_is_left_out(tmp_path):
    save(marian(tmp_path / "files"), tmp_path / "model")
    sources, references = write_corpus(tmp_path)
    (tmp_path / "pieces").write_text("a\n")
    lines = [Path(path).read_text().splitlines()[0] for path in (sources, references)]
    for name, line in zip(("one.de", "one.en"), lines, strict=True):
        (tmp_path / name).write_text(line + "\n")
    args = argparse.Namespace(
        model=str(tmp_path / "model"), train=[tmp_path / "one.de", tmp_path / "one.en"],
        valid=[sources, references], target_pieces=str(tmp_path / "pieces"), source_lang=None,
        target_lang=None, candidates=3, batch=2,
    )  # fmt: skip
    found = target_pieces.measure(args)
    assert 0 < found["pieces"] < found["vocabulary"]
    assert 0 < found["references with a piece outside"] < found["sentences"]
    # random weights: each piece is about as probable as any
    share = 1 - found["pieces"] / found["vocabulary"]
    assert found["outside, of references"]["mean"] == pytest.approx(share, abs=0.2)
    assert 0 < found["other best candidates"] <= found["other lists"] <= found["sentences"]
    args.train = [sources, references]  # nothing unread
    assert target_pieces.measure(args)["references with a piece outside"] == 0
    args.target_pieces = "auto"
    with pytest.raises(InputError, match="--target-pieces: all; expected a FILE where a vocab"):
        target_pieces.measure(args)


def test_the_probability_outside(tmp_path):
    """Of a model whose logits are written out: 1 - (e^1 + e^2) / (e^0 + e^1 + e^2 + e^3)."""

    class Logits(torch.nn.Module):
        def forward(self, decoder_input_ids, **_):
            one = torch.tensor([0.0, 1.0, 2.0, 3.0])
            return argparse.Namespace(logits=one.expand(*decoder_input_ids.shape, 4))

    output = argparse.Namespace(model=Logits(), ids=torch.tensor([1, 2]))
    special = argparse.Namespace(start=0, pad=3)
    rows = torch.tensor([[1, 2], [2, -100]])
    inputs = {"input_ids": rows, "attention_mask": rows}
    e = torch.tensor([0.0, 1.0, 2.0, 3.0]).double().exp()
    expected = float(1 - (e[1] + e[2]) / e.sum())
    assert target_pieces.outside(output, special, inputs, rows) == pytest.approx([expected] * 3)
    assert target_pieces.summary([0.0, 0.005, 0.1, 0.3]) == pytest.approx(
        {"mean": 0.10125, "median": 0.005, "above 0.01": 0.5}
    )

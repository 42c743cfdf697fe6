"""Embeddings to begin with, from files of vectors and from encoders."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.encoder.format import load_own_encoder, save_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.segmenter import Preprocessing
from simile_plugin.encoder.tokens import WordTokenizer
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.initial import initial_embeddings, random_embeddings
from simile_plugin.files import InputError

CONFIG = TrainingConfig(steps=1, dim=3, seed=4)
WORDS = WordTokenizer(["oven", "map", "heron"], Preprocessing())


@pytest.mark.parametrize("header", ["", "4 3\n"])
def test_a_file_of_vectors(header: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}map 1 2 3\nbell 4 5 6\nheron -1 0.5 2e-1 \nmap 7 8 9\n")
    found = initial_embeddings(str(path), WORDS, CONFIG)
    drawn = random_embeddings(CONFIG, 4)
    assert found[2].tolist() == [1, 2, 3]
    assert found[3].tolist() == pytest.approx([-1, 0.5, 0.2])
    assert torch.equal(found[:2], drawn[:2])  # the unknown word, and "oven"


def test_lines_that_are_no_text_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [b"map 1 2 3", b"bell 4 5 6", b"caf\xe9 7 8 9", b"heron 3 2 1", b"na\xefve 0 0 0"]
    (tmp_path / "v").write_bytes(b"\n".join(lines))
    found = initial_embeddings(str(tmp_path / "v"), WORDS, CONFIG)
    assert found[2:].tolist() == [[1, 2, 3], [3, 2, 1]]
    assert f"{tmp_path}/v: left out 2 lines (not UTF-8)" in capsys.readouterr().err


def test_an_encoder_folder(tmp_path: Path) -> None:
    other = WordTokenizer(["heron", "bell"], Preprocessing())
    encoder = Encoder(torch.arange(9.0).reshape(3, 3), other)
    save_encoder(tmp_path / "enc", encoder)
    found = initial_embeddings(str(tmp_path / "enc"), WORDS, CONFIG)
    assert found[3].tolist() == [3, 4, 5]
    assert torch.equal(found[:3], random_embeddings(CONFIG, 4)[:3])
    with pytest.raises(InputError, match="enc: has vectors of 3 numbers, expected --dim 5"):
        initial_embeddings(str(tmp_path / "enc"), WORDS, TrainingConfig(steps=1, dim=5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"map 1 2\n", "v:1: got 2 numbers behind the token, expected --dim 3; give --dim 2"),
        (b"map 1 nan 3\n", "v:1: got 'map 1 nan 3', expected a token and 3 finite numbers"),
        (b"map 1 2 3 4 5 6 7 8 9\n", "v:1: got 9 numbers behind the token, expected --dim 3; give"),
        (b"map,1,2,3\n", "v:1: got 'map,1,2,3', expected a token and 3 finite numbers"),
        (b"bell 1 2 3\n", "v: knows none of the 3 words of this encoder"),
        (b"\xff\n", "v:1: not UTF-8; expected vectors as UTF-8 text"),
    ],
)
def test_bad_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(InputError, match=f"--init-embeddings: .*{message}"):
        initial_embeddings(str(tmp_path / "v"), WORDS, CONFIG)


def test_without_steps_they_are_the_encoder(make_tsv: Callable[..., Path], tmp_path: Path) -> None:
    tsv, vectors = make_tsv(60), tmp_path / "vectors"
    words = sorted(set(tsv.read_text().lower().replace(".", " .").split()))
    rng = np.random.default_rng(0)
    lines = [" ".join([word, *(f"{x:.3f}" for x in rng.normal(size=8))]) for word in words]
    vectors.write_text("\n".join(lines) + "\n")
    command = ["train-encoder", str(tsv), "--kind", "word", "--dim", "8", "--batch-size", "16"]
    command += ["--init-embeddings", str(vectors)]
    out = tmp_path / "enc"
    assert main([*command, "--steps", "0", "--output", str(out)]) == 0
    encoder = load_own_encoder(out)
    row = encoder.segmenter.texts.index("the")
    known = np.array([float(x) for x in lines[words.index("the")].split()[1:]])
    assert encoder.weight[row].tolist() == pytest.approx(known.tolist())
    assert encoder.training_facts["init_embeddings"] == str(vectors)

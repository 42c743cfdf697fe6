"""The BGT's recipe: its pairs, its pieces, and its table by hand."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from simile_plugin.encoder import Preprocessing, Segmenter
from tests.conftest import SENTENCES
from tests.contrib.papers import BGT, script

export, pieces, table = (script(BGT, name) for name in ("export", "pieces", "table"))


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["pieces.py", *map(str, words)])
    return pieces.main()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Some pairs, split."""
    lines = [f"{one}\t{one.upper()}!\n" for one in SENTENCES]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    train, held_out = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    words = ("--pairs", 5, "--valid", 2, "--train", train, "--held-out", held_out)
    assert run(monkeypatch, "split", tmp_path / "pairs.tsv", *words) == 0
    return train, held_out


def test_pairs_are_sampled_and_held_out(files: tuple[Path, Path]) -> None:
    train, valid = (path.read_text().splitlines() for path in files)
    assert (len(train), len(valid)) == (5, 2)
    assert len({*train, *valid}) == 7
    assert all(other == one.upper() + "!" for one, other in (row.split("\t") for row in train))


@pytest.mark.parametrize("control", [True, False])
def test_pieces_are_those_of_the_encoder(
    files: tuple[Path, Path], tmp_path: Path, control: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = io.BytesIO()
    settings: dict[str, Any] = {"vocab_size": 90, "hard_vocab_limit": False, "minloglevel": 2}
    if not control:
        settings |= {"bos_id": -1, "eos_id": -1}  # as simile binarize-pairs
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=trained, **settings
    )
    (tmp_path / "m").write_bytes(trained.getvalue())
    words = ("--train", files[0], "--held-out", files[1], "--sentencepiece", tmp_path / "m")
    out = tmp_path / "out"
    assert run(monkeypatch, "segment", *words, "-s", "xx", "-t", "yy", "--output", out) == 0
    segmenter = Segmenter(trained.getvalue(), Preprocessing())
    names = segmenter.model.pieces
    first, second = files[0].read_text().splitlines()[0].split("\t")
    for language, sentence in (("xx", first), ("yy", second)):
        line = (out / f"train.{language}").read_text().splitlines()[0]
        assert line.split(" ") == [names[i] for i in segmenter.encode([sentence])[0]]
    known = [line.split()[0] for line in (out / "dict.txt").read_text().splitlines()]
    assert known == names[3 if control else 1 :]
    assert sorted(path.name for path in out.iterdir()) == [
        *("dict.txt", "train.xx", "train.yy", "valid.xx", "valid.yy")
    ]


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, score in (("bgt.1", 60.0), ("bgt.2", 62.0), ("sp.1", 70.0)):
        (tmp_path / f"{name}.mine.json").write_text(json.dumps({"mean": score / 2}))
        hard = {
            "negation": {"SIM": score},
            "Hard STS: lowest": {"SIM": None},
            "easy: x": {"SIM": 1},
        }
        sts = {"sts": [{"folder": "a/STS2012-en-test", "mean_pearson": score}]}
        (tmp_path / f"{name}.hard.json").write_text(json.dumps({"hard": {"pearson": hard}}))
        (tmp_path / f"{name}.sts.json").write_text(json.dumps(sts))
    assert table.main(str(tmp_path), ["bgt.1", "bgt.2", "sp.1"]) == 0
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
    ]
    assert rows[0] == ["", "seeds", "STS2012-en", "negation", "lowest", "retrieval"]
    spread = "61.0 (60.0 to 62.0)"
    assert rows[2:] == [
        ["bgt", "2", spread, spread, "", "30.5 (30.0 to 31.0)"],
        ["sp", "1", "70.0", "70.0", "", "35.0"],
    ]
    assert table.main(str(tmp_path), ["sp.2"]) == 2
    assert "sp.2.mine.json: not there; expected SYSTEM.SEED" in capsys.readouterr().err

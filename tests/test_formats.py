"""Files of each released format are read, and files of a newer one are refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.encoder.format import FORMAT_VERSION, load_own_encoder, save_encoder
from simile_plugin.encoder_training.binarized import open_binarized
from simile_plugin.nbest.readers import read_nbest_lists
from simile_plugin.report.human.study import read_key

FIRST = Path(__file__).parent / "fixtures" / "formats-1"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(FIRST, tmp_path / "formats"))


def newer(path: Path, key: str = "format_version") -> None:
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content | {key: 99}), "utf-8")


def test_encoder() -> None:
    encoder = load_own_encoder(FIRST / "encoder")
    assert encoder.fingerprint == "690df5b9de6a" and encoder.dim == 4
    vector = encoder.embed_text(["salt in the soup"])[0].tolist()
    assert vector == pytest.approx([0.151562, -0.042682, 0.129644, -0.532672], abs=1e-5)


def test_old_encoders_score_invisible_characters_as_before(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    encoder = load_own_encoder(FIRST / "encoder")
    pieces = encoder.segmenter.encode(["salt", "\u2060salt"])
    assert pieces[0] != pieces[1] and "text has U+2060" in caplog.text
    save_encoder(tmp_path / "enc", encoder)
    written = json.loads((tmp_path / "enc" / "config.json").read_text("utf-8"))
    first = json.loads((FIRST / "encoder" / "config.json").read_text("utf-8"))
    assert written == first | {"format_version": FORMAT_VERSION}


def test_newer_encoder(first: Path) -> None:
    newer(first / "encoder" / "config.json")
    with pytest.raises(ValueError, match=r"config.json: format_version 99 is newer.*update simile"):
        load_own_encoder(first / "encoder")


def test_binarized_pairs() -> None:
    pairs, segmenter = open_binarized(FIRST / "pairs.bin")
    assert (len(pairs), len(segmenter)) == (8, 60)


def test_newer_binarized_pairs(first: Path) -> None:
    newer(first / "pairs.bin" / "manifest.json")
    with pytest.raises(ValueError, match="format_version 99 is newer.*update simile-plugin"):
        open_binarized(first / "pairs.bin")


TRAINING = "--vocab-size 60 --dim 4 --steps 6 --batch-size 4 --seed 1 --save-every 2 --log-every 1"


def train(folder: Path) -> int:
    (folder / "interrupted").rename(folder / "again.training")
    command = ["train-encoder", str(folder / "pairs.tsv"), "--output", str(folder / "again")]
    return main([*command, *TRAINING.split()])


def test_interrupted_training_goes_on(first: Path) -> None:
    assert train(first) == 0
    found = load_own_encoder(first / "again")
    # the encoder of the same training without an interruption
    assert torch.allclose(found.weight, load_own_encoder(FIRST / "encoder").weight, atol=1e-6)
    steps = [json.loads(line)["step"] for line in (first / "again/training.jsonl").open()]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_interrupted_training_with_a_flag_that_is_no_more(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = first / "interrupted" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"objective": "mnr"}))
    assert train(first) == 2
    assert "an interrupted run with another --objective (mnr, now None)" in capsys.readouterr().err


def test_newer_state_of_a_training(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer(first / "interrupted" / "state" / "state.json")
    assert train(first) == 2
    assert "got format_version 99, expected 2" in (error := capsys.readouterr().err)
    assert error.strip().endswith("continue with the version that began the run, or add --restart")


def test_lists_of_the_criterion() -> None:
    found = read_nbest_lists(str(FIRST / "lists.jsonl"), "--nbest-lists")
    assert [len(one.hyps) for one in found] == [3] * 6


def test_key_of_a_study(first: Path) -> None:
    assert read_key(str(FIRST / "key.json")).fingerprint == "075d01e5ab9a"
    newer(first / "key.json", "format")
    with pytest.raises(ValueError, match=r"key.json: format 99 is newer than 1.*update simile"):
        read_key(str(first / "key.json"))

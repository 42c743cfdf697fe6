"""Pickles and lies where an encoder, its training or binarised pairs are expected."""

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.files import InputError


class Runs:
    """Pickled as a call that makes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.trace), "w")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def payloads(trace: Path, folder: Path) -> list[bytes]:
    """The same call as a plain pickle and as torch.save writes it."""
    torch.save({"embeddings": Runs(trace)}, folder / "x.pt")
    return [pickle.dumps(Runs(trace)), (folder / "x.pt").read_bytes()]


def refused(capsys: pytest.CaptureFixture[str], *command: object) -> str:
    """The one line of a command that must fail."""
    capsys.readouterr()
    assert main([str(part) for part in command]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.strip().splitlines()[-1]


@pytest.mark.parametrize("part", ["encoder.safetensors", "config.json", "sentencepiece.model"])
def test_encoder(
    part: str,
    encoder_folder: Path,
    tmp_path: Path,
    trace: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(encoder_folder, tmp_path / "enc")
    (tmp_path / "ref").write_text("a heron\n")
    for payload in payloads(trace, tmp_path):
        (tmp_path / "enc" / part).write_bytes(payload)
        line = refused(
            capsys, "score", "-r", tmp_path / "ref", "-i", tmp_path / "ref",
            "--encoder", tmp_path / "enc",
        )  # fmt: skip
        assert line.startswith("simile score: error: ") and part in line
    assert not trace.exists()


def test_published(
    tmp_path: Path, trace: Path, spm_proto: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m").write_bytes(spm_proto)
    for payload in payloads(trace, tmp_path):
        (tmp_path / "sim.pt").write_bytes(payload)
        line = refused(
            capsys, "convert-encoder", "--from", tmp_path / "sim.pt",
            "--sentencepiece", tmp_path / "m", "--output", tmp_path / "out",
        )  # fmt: skip
        assert "sim.pt: not read" in line and "could run anything" in line
    assert not trace.exists()


TRAINING = ["--dim", "4", "--batch-size", "4", "--save-every", "2", "--vocab-size", "60"]


@pytest.mark.parametrize("part", ["state/state.safetensors", "state/state.json", "run.json"])
def test_training_state(
    part: str,
    make_tsv: Callable[..., Path],
    tmp_path: Path,
    trace: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = ["train-encoder", make_tsv(40), "--output", tmp_path / "enc", "--steps", "4"]
    with monkeypatch.context() as interrupted:

        def stop(self: object) -> None:
            raise InputError("stopped")

        interrupted.setattr("simile_plugin.encoder_training.run.TrainingRun._finish", stop)
        assert refused(capsys, *command, *TRAINING).endswith("stopped")
    state = tmp_path / "enc.training" / part
    assert state.is_file()
    for payload in payloads(trace, tmp_path):
        state.write_bytes(payload)
        line = refused(capsys, *command, *TRAINING)
        assert line.startswith("simile train-encoder: error: ") and "add --restart" in line
    assert not trace.exists()


@pytest.fixture
def binarised(make_tsv: Callable[..., Path], tmp_path: Path) -> Path:
    command = ["binarize-pairs", str(make_tsv(40)), "--output", str(tmp_path / "pairs")]
    assert main([*command, "--vocab-size", "60"]) == 0
    return tmp_path / "pairs"


@pytest.mark.parametrize(
    "part", ["ids.bin", "offsets.bin", "hashes.bin", "manifest.json", "sentencepiece.model"]
)
def test_binarised_pairs(
    part: str, binarised: Path, tmp_path: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for payload in payloads(trace, tmp_path):
        (binarised / part).write_bytes(payload)
        if part != "manifest.json":  # one that agrees with what it lists
            manifest = json.loads((binarised / "manifest.json").read_text())
            manifest["files"][part]["sha256"] = hashlib.sha256(payload).hexdigest()
            (binarised / "manifest.json").write_text(json.dumps(manifest))
        line = refused(
            capsys, "train-encoder", binarised, "--output", tmp_path / "enc", "--steps", "2",
            *TRAINING[:4],
        )  # fmt: skip
        assert part in line
    assert not trace.exists()


def test_ids_that_lead_out_of_the_table(binarised: Path) -> None:
    from simile_plugin.encoder_training.binarized import open_binarized

    ids = np.fromfile(binarised / "ids.bin", "<u2")
    ids[5] = 60000
    ids.tofile(binarised / "ids.bin")
    manifest = json.loads((binarised / "manifest.json").read_text())
    digest = hashlib.sha256((binarised / "ids.bin").read_bytes()).hexdigest()
    manifest["files"]["ids.bin"]["sha256"] = digest
    (binarised / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="the pairs have been made with another one"):
        open_binarized(binarised)

"""Validations from TensorBoard folders, as fairseq's own progress bar writes them."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from simile_plugin.report.inputs import tensorboard as tensorboard_logs
from simile_plugin.report.inputs.logs import read_validations


def test_a_folder_without_the_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "valid").mkdir()
    (tmp_path / "valid" / "events.out.tfevents.1.host").write_bytes(b"")
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("tensorboard"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ValueError, match=r"package tensorboard, which is missing; install it"):
        read_validations(str(tmp_path), "--log")


def test_an_empty_folder_has_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^--log: .* has no TensorBoard numbers of 'valid'"):
        read_validations(str(tmp_path), "--log")


def test_a_resumed_run_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # (time, update, key, value): killed after update 200, resumed from the checkpoint of 100
    files = {
        "events.out.tfevents.1": [
            (1.0, 0, "cost", 0.5),
            (2.0, 100, "cost", 0.4),
            (3.0, 200, "cost", 0.3),
            (3.1, 200, "bleu", 30.0),
        ],
        "events.out.tfevents.2": [(4.0, 150, "cost", 0.35), (4.1, 150, "bleu", 29.0)],
    }
    for name in files:
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setattr(
        tensorboard_logs, "_scalars", lambda path, flag: files[path.rpartition("/")[2]]
    )
    assert read_validations(str(tmp_path), "--log") == {
        0: {"cost": 0.5},
        100: {"cost": 0.4},
        150: {"cost": 0.35, "bleu": 29.0},
    }


def test_what_fairseq_writes_is_read(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="an extra: pip install tensorboard")
    writing = pytest.importorskip("tensorboardX", reason="fairseq writes by it")
    for folder, shift in (("valid", 0.0), ("train_inner", 5.0)):
        writer = writing.SummaryWriter(str(tmp_path / folder))
        for update, cost in ((0, 0.5), (100, 0.25)):
            writer.add_scalar("cost_bleu", cost + shift, update)
            writer.add_scalar("num_updates", update, update)
        writer.close()
    read = read_validations(str(tmp_path), "--log")
    assert {update: numbers["cost_bleu"] for update, numbers in read.items()} == {0: 0.5, 100: 0.25}
    (event_file,) = (tmp_path / "valid").iterdir()
    assert read_validations(str(event_file), "--log") == read
    event_file.write_bytes(event_file.read_bytes()[:-7])  # killed in the middle of a record
    assert 0 in read_validations(str(tmp_path), "--log")

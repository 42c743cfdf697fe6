"""recipes/gpu: cells that are kept, what the page says, and the command line's refusals."""

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType

from recipes.benchmarks.update import covered, device_spans
from recipes.gpu import measure
from recipes.gpu.cells import Cell, run_cells
from recipes.gpu.page import write_page

ROOT = Path(__file__).parents[1]


def test_cells_are_kept_and_failures_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ran = tmp_path / "part.json", []
    broken = [True]

    def good() -> dict[str, int]:
        ran.append("good")
        return {"answer": 42}

    def bad() -> dict[str, int]:
        ran.append("bad")
        if broken[0]:
            raise RuntimeError("the cable is out")
        return {}

    cells = {"bad": bad, "good": good}
    assert run_cells(path, cells, budget=60) == "failed"
    kept = json.loads(path.read_text())
    assert kept["bad"]["error"] == "RuntimeError: the cable is out"
    assert kept["good"]["answer"] == 42
    assert "the cable is out" in capsys.readouterr().err
    broken[0] = False
    assert run_cells(path, cells, budget=60) == "done"
    assert ran == ["bad", "good", "bad"] and "error" not in json.loads(path.read_text())["bad"]


def test_a_cell_of_known_length_begins_where_it_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, path = [0.0], tmp_path / "job.json"
    monkeypatch.setattr("recipes.gpu.cells.time.monotonic", lambda: clock[0])

    def training(seconds: float) -> Cell:
        def cell() -> dict[str, Any]:
            clock[0] += seconds
            return {}

        return cell

    took = {"MLE": 390.0, "BLEU": 150.0, "HALF": 150.0, "SIMILE": 150.0}
    cells = {name: training(seconds) for name, seconds in took.items()}
    assert run_cells(path, cells, 720, took) == "stopped"
    assert list(json.loads(path.read_text())) == ["MLE", "BLEU", "HALF"]
    assert run_cells(path, cells, 720, took) == "done"
    # the first one of a run begins in any case, or a small budget would never end
    path.unlink()
    assert run_cells(path, cells, 100, took) == "stopped"
    assert list(json.loads(path.read_text())) == ["MLE"]


def test_the_limit_of_memory_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # torch refuses a device "cuda" without a number here, and only here
    limits: list[Any] = []
    devices: list[torch.device] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)

    def no_cells(parts: measure.Parts) -> dict[str, Cell]:
        devices.append(parts.device)
        return {}

    monkeypatch.setitem(measure.PARTS, "memory", no_cells)
    assert measure.main(["memory", "--work", str(tmp_path)]) == 0
    monkeypatch.setattr("torch.cuda.memory._lazy_init", lambda: None)
    monkeypatch.setattr(
        "torch._C._cuda_setMemoryFraction", lambda *limit: limits.append(limit), raising=False
    )
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 2e9)
    card = SimpleNamespace(total_memory=144e9)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: card)
    with measure.little_memory(None, devices[0], 8):
        assert limits == [(18 / 144, 0)]
    assert limits[1:] == [(1.0, 0)]


def test_what_a_device_did() -> None:
    def event(kind: DeviceType, start: float, end: float, region: bool = False) -> Any:
        span = SimpleNamespace(start=start, end=end)
        return SimpleNamespace(device_type=kind, time_range=span, is_user_annotation=region)

    there, here = DeviceType.CUDA, DeviceType.CPU
    events = [event(here, 0, 9), event(there, 1, 2), event(there, 1, 8, True), event(there, 7, 8)]
    assert device_spans(events) == [(1, 2), (7, 8)]


def test_time_that_intervals_cover() -> None:
    # 0 to 3 and 5 to 6: the second begins within the first, the third within both.
    assert covered([(1, 3), (0, 2), (1, 1.5), (5, 6)]) == 3 + 1
    assert covered([]) == 0


def test_the_page(tmp_path: Path) -> None:
    side = {"total": 0.5, "peak_gb": 2.0}
    update = {"sides": {"ours": side, "plain": side | {"total": 2.0}, "floor": None}, "seconds": 9}
    (tmp_path / "update.json").write_text(json.dumps({"base": update}))
    (tmp_path / "job.json").write_text(json.dumps({"MLE": {"error": "E: no <disk>", "seconds": 1}}))
    write_page(tmp_path, ["update", "job", "memory"], rehearsed=False)
    table = (tmp_path / "results.md").read_text()
    assert (
        "ours 0.500 s, 2.00 GB; plain 2.000 s, 2.00 GB (ours: 0.25); floor out of memory" in table
    )
    assert "1 cells of 2 parts are done. Not begun: memory. Failed: job, MLE: error E: no" in table


def run(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", ROOT / "recipes" / "gpu" / "run.sh", *words],
        env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip


def test_parts_that_are_unknown_are_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "updates")
    assert done.returncode == 1 and done.stderr == (
        "run.sh: error: got 'updates'; expected --rehearse or parts of: "
        "install tests data update encoder job memory (see --help)\n"
    )
    assert "--rehearse   everything in miniature" in run(tmp_path, "--help").stdout

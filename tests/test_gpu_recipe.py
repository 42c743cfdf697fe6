"""recipes/gpu: cells that are kept, what the page says, and the command line's refusals."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from recipes.benchmarks.update import covered
from recipes.gpu import measure
from recipes.gpu.cells import run_cells
from simile_plugin.files import InputError

ROOT = Path(__file__).parents[1]


def test_cells_are_kept_and_failures_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ran = tmp_path / "results.json", []
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
    assert run_cells(path, "part", cells, time.monotonic() + 60) == "failed"
    kept = json.loads(path.read_text())["part"]
    assert kept["bad"]["error"] == "RuntimeError: the cable is out"
    assert kept["good"]["answer"] == 42
    assert "the cable is out" in capsys.readouterr().err
    broken[0] = False
    assert run_cells(path, "part", cells, time.monotonic() + 60) == "done"
    assert ran == ["bad", "good", "bad"]
    assert "error" not in json.loads(path.read_text())["part"]["bad"]
    # Nothing begins after the end; what was measured stays.
    assert run_cells(path, "other", cells, time.monotonic() - 1) == "stopped"
    assert list(json.loads(path.read_text())) == ["part"]


def test_time_that_intervals_cover() -> None:
    # 0 to 3 and 5 to 6: the second begins within the first, the third within both.
    assert covered([(1, 3), (0, 2), (1, 1.5), (5, 6)]) == 3 + 1
    assert covered([]) == 0


def test_the_tests_for_a_gpu_are_there() -> None:
    assert all((ROOT / words[-1]).exists() for words in measure.TESTS.values())


def run(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", ROOT / "recipes" / "gpu" / "run.sh", *words],
        env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip


def test_parts_that_are_unknown_are_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "updates")
    assert done.returncode == 1 and done.stderr == (
        "run.sh: error: got 'updates'; expected --lease, --rehearse or parts of: "
        "data install tests update hugging_face encoder memory (see --help)\n"
    )
    assert "--rehearse   everything in miniature" in run(tmp_path, "--help").stdout


def test_results_that_were_cut_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"update": {"ba')
    with pytest.raises(InputError, match=r"results\.json: got no JSON \(.*\); remove it"):
        run_cells(path, "update", {}, 0.0)
    assert path.read_text() == '{"update": {"ba'

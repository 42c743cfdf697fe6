"""Two processes train as one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("of_rows", [False, True])
def test_two_processes_are_one(tmp_path, encoder_folder, of_rows):
    pieces = "all"
    if of_rows:
        pieces = tmp_path / "pieces"
        pieces.write_text("a\n")
    start = tmp_path / "start.py"
    start.write_text(
        "import runpy, sys, types\n"
        "tests = types.ModuleType('tests')  # another package of that name may be installed\n"
        f"tests.__path__ = [{str(ROOT / 'tests')!r}]\n"
        "sys.modules['tests'] = tests\n"
        f"runpy.run_path({str(ROOT / 'tests/hugging_face/processes.py')!r}, run_name='__main__')\n"
    )
    found = []
    for processes in (1, 2):
        batch = 4 // processes
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        subprocess.run(
            [sys.executable, *torchrun, start, tmp_path, encoder_folder, str(batch), pieces],
            check=True,
            cwd=ROOT,
        )
        found.append(json.loads((tmp_path / f"found{batch}.json").read_text()))
    assert [run["processes"] for run in found] == [1, 2]
    assert all((run["rows"] > 0) == of_rows for run in found)
    assert found[0]["values"] == pytest.approx(found[1]["values"], abs=1e-5)
    for one, two in zip(found[0]["logs"], found[1]["logs"], strict=True):
        assert one == pytest.approx(two, abs=1e-4)

"""Worker processes: results in order, errors carried over, nothing left behind."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from simile_plugin.encoder_training.workers import SMALL_INPUT, choose_workers, ordered_map

JOB = """
import os, signal, time

def square(item):
    time.sleep(0.3 if item == 0 else 0)
    if item == 77:
        raise ValueError("item 77 is bad")
    if item == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item
"""


@pytest.fixture
def square(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """A job of a module that other processes can import, as they cannot import this one."""
    (tmp_path / "job_of_workers.py").write_text(JOB)
    monkeypatch.syspath_prepend(tmp_path)
    job: Callable[[int], int] = importlib.import_module("job_of_workers").square
    return job


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int, square: Callable[[int], int]) -> None:
    assert list(ordered_map(square, range(40), workers)) == [n * n for n in range(40)]


def test_errors_of_a_worker_are_raised_here(square: Callable[[int], int]) -> None:
    with pytest.raises(ValueError, match="item 77 is bad"):
        list(ordered_map(square, [1, 77], 2))
    with pytest.raises(ValueError, match="--workers: a worker process died"):
        list(ordered_map(square, [1, 99], 2))


def test_number_of_workers() -> None:
    assert choose_workers(3, 10) == 3
    assert choose_workers(None, SMALL_INPUT - 1) == 1
    usable = len(os.sched_getaffinity(0))
    assert choose_workers(None, SMALL_INPUT) == choose_workers(None, None) == usable


ENDLESS = """
import itertools, os, sys
from simile_plugin.encoder_training.workers import ordered_map

def pid(_): return os.getpid()

if __name__ == "__main__":
    for found in ordered_map(pid, itertools.count(), 2):
        print(found, flush=True)
"""


def test_ctrl_c_while_workers_start(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # a background job is deaf
    main = 'if __name__ == "__main__":\n'
    script.write_text("import signal\n" + ENDLESS.replace(main, f"{main}    {heard}\n"))
    with subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while parent.poll() is None and len(children.read_text().split()) < 3:
            time.sleep(0.01)  # the tracker of resources and two workers, which import for seconds
        os.killpg(parent.pid, signal.SIGINT)
        said = parent.communicate(timeout=300)[1].decode()
    assert said.count("Traceback") == 1 and "KeyboardInterrupt" in said  # the parent's own


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    for _ in range(6000):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker outlived its parent")

"""Commands that are killed at every step of writing: what stands there is all old or all new."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from recipes.reliability.trainings import arm
from simile_plugin.cli import main
from simile_plugin.encoder.format import load_own_encoder, save_encoder
from simile_plugin.encoder.models import Encoder

FORMATS = Path(__file__).parents[1] / "fixtures" / "formats-1"
STEPS = ("os:fsync", "os:replace", "os:rename", "shutil:rmtree")
Command = Callable[[], int | None]


def in_child(command: Command, function: str, call: int) -> int:
    """Exit status of a process that is killed at a call; 0 if it makes fewer calls."""
    child = os.fork()
    if not child:
        status = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            torch.set_num_threads(1)  # a fork has none of the threads that it would wait for
            arm(function, call, False, signal.SIGKILL)
            status = command() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def content(path: Path) -> dict[str, bytes] | None:
    """Every byte of a file or folder, or None if there is none."""
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return {"": path.read_bytes()} if path.exists() else None


def kill_everywhere(old: Command, new: Command, targets: list[Path]) -> Iterator[list]:
    """Write the old version, be killed while writing the new one; the contents after each kill.

    Asserts that each target is whole, and that the command then succeeds and leaves nothing else.
    """
    old()
    before = [content(target) for target in targets]
    new()
    after = [content(target) for target in targets]
    assert before != after
    names = sorted(os.listdir(targets[0].parent))
    for function in STEPS:
        call = 1
        while True:
            for target in targets:
                shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
            old()
            status = in_child(new, function, call)
            assert status in (0, -signal.SIGKILL)
            if status == 0:
                break
            found = [content(target) for target in targets]
            for one, whole in zip(found, zip(before, after, strict=True), strict=True):
                # Between the two renames of a folder its old content is set aside.
                aside = function == "os:rename" and one is None
                assert one in whole or aside, f"half written at call {call} of {function}"
            new()
            assert [content(target) for target in targets] == after
            assert sorted(os.listdir(targets[0].parent)) == names, "something was left"
            yield found
            call += 1


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (FORMATS / "pairs.tsv").read_text().splitlines()
    for place, name in enumerate(("ref", "a")):
        column = [line.split("\t")[place] for line in lines]
        Path(f"{name}.txt").write_text("".join(f"{line}\n" for line in column))
    Path("b.txt").write_text(Path("ref.txt").read_text().upper())


def test_encoder_folder() -> None:
    first = load_own_encoder(FORMATS / "encoder")
    second = Encoder(torch.flip(first.weight, (0,)), first.segmenter)
    target = Path("out", "encoder")
    target.parent.mkdir()
    write_first, write_second = (partial(save_encoder, target, one) for one in (first, second))
    assert len(list(kill_everywhere(write_first, write_second, [target]))) > 5


def test_report() -> None:
    def write(system: str) -> int:
        pages = ["--html", "out/page.html", "--out", "out/table.md"]
        systems = ["--sys", f"one={system}", "--sys", "two=ref.txt"]
        return main(["report", "--ref", "ref.txt", *systems, "--only", "results", *pages])

    Path("out").mkdir()
    targets = [Path("out/page.html"), Path("out/table.md")]
    assert len(list(kill_everywhere(lambda: write("a.txt"), lambda: write("b.txt"), targets))) >= 4

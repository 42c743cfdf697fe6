"""recipes/multi30k/caption_pairs.py on captions of our own."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "recipes" / "multi30k" / "caption_pairs.py"


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {key: value for key, value in os.environ.items() if key != "SIMILE_DATA"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        env={**inherited, **environment},
    )


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """Two images; the second has one caption missing."""
    folder = tmp_path / "multi30k" / "task2"
    folder.mkdir(parents=True)
    for number, (first, second) in enumerate(zip("abcde", "vwx z", strict=True), 1):
        with gzip.open(folder / f"train.{number}.en.gz", "wt") as stream:
            stream.write(f"{first} dog\n{second.strip()}\n")
    return folder


def test_all_pairs_of_each_image(captions: Path) -> None:
    done = run("--captions", str(captions))
    assert done.returncode == 0, done.stderr
    lines = [tuple(line.split("\t")) for line in done.stdout.splitlines()]
    first = [
        tuple(f"{letter} dog" for letter in pair)
        for pair in ("ab", "ac", "ad", "ae", "bc", "bd", "be", "cd", "ce", "de")
    ]
    assert lines[:10] == first
    assert lines[10:] == [tuple(pair) for pair in ("vw", "vx", "vz", "wx", "wz", "xz")]
    assert run(SIMILE_DATA=str(captions.parents[1])).stdout == done.stdout

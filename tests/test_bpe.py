"""recipes/bpe.py: segmentation of the recipes' bitext, and text of which nothing can be made."""

import subprocess
import sys
from pathlib import Path

from recipes import bpe


def run(folder: Path, *words: str, text: bytes = b"") -> tuple[int, bytes, str]:
    command = [sys.executable, bpe.__file__, *words]
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def test_lines_stay_lines(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c\nd e f\n")
    assert run(tmp_path, "train", "--model", "m", "--vocab-size", "12", "text")[0] == 0
    text = "a b\r\n\n\tc d\nf\N{LINE SEPARATOR}e".encode()
    _, pieces, _ = run(tmp_path, "encode", "--model", "m", text=text)
    assert pieces.decode().split("\n") == ["▁a ▁b", "", "▁ c ▁ d", "▁ f ▁ e", ""]
    status, _, errors = run(tmp_path, "encode", "--model", "m", text=b"a\na \xff\n")
    assert (status, errors) == (
        1, "bpe.py: error: standard input:2: not UTF-8 (byte 2); convert it\n"
    )  # fmt: skip


def test_a_vocabulary_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "few").write_text("a b c\nd e f\n")
    status, _, errors = run(tmp_path, "train", "--model", "m", "--vocab-size", "800", "few")
    message = "bpe.py: error: --vocab-size 800 of few: expected at most 16 pieces"
    assert status == 1 and errors.splitlines()[-1].startswith(message)
    assert [path.name for path in tmp_path.iterdir()] == ["few"]

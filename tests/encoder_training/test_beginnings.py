"""Files of pairs that are joined or given twice are told, however long they are."""

from pathlib import Path

import pytest

from simile_plugin.encoder_training.beginnings import Beginnings
from simile_plugin.encoder_training.tsv import Columns, TsvInput

ROWS = [f"A heron number {n} waits.\tThe heron {n} is waiting." for n in range(2000)]
TEXT = "".join(f"{row}\n" for row in ROWS)


@pytest.mark.parametrize("size", [700, 5000, 1 << 20])
def test_a_file_that_was_joined_to_itself(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("simile_plugin.files.packed.CHUNK_BYTES", size)
    (tmp_path / "twice.tsv").write_text(TEXT * 2)
    source = TsvInput([str(tmp_path / "twice.tsv")], columns=Columns())
    assert len([*source.blocks(), *source.blocks()]) >= 2
    told = capsys.readouterr().err.replace(f"{tmp_path}/", "")
    if size == 700:  # a first block without 20 lines is not looked for
        assert told == ""
    else:
        assert told == (
            "twice.tsv: warning: the first 20 lines of twice.tsv come again from line 2001 on: was "
            "the file joined or written twice?\n"
        )


def test_pairs_that_are_in_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tsv").write_text(TEXT)
    (tmp_path / "b.tsv").write_text("x y\tz y\n" + TEXT)
    list(TsvInput([str(tmp_path / name) for name in ("a.tsv", "b.tsv", "a.tsv")]).blocks())
    assert capsys.readouterr().err == ""  # columns are not known: the text is not looked at
    source = TsvInput(
        [str(tmp_path / name) for name in ("a.tsv", "b.tsv", "a.tsv")], False, Columns()
    )
    list(source.blocks())
    assert capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines() == [
        "b.tsv: warning: the first 20 lines of a.tsv come again from line 2 on: is a file given "
        "twice, or are its pairs in two?",
        "a.tsv: warning: the first 20 lines of a.tsv come again from line 1 on: is a file given "
        "twice, or are its pairs in two?",
    ]


def test_blocks_of_any_lines() -> None:
    """The second copy may be cut anywhere; lines of one kind are no beginning."""
    first = "".join(f"{row}\n" for row in ROWS[:40])
    for cut in range(1, 40):
        beginnings = Beginnings()
        assert beginnings.look("x", 1, first.encode()) == []
        parts = first.splitlines(keepends=True)
        told = beginnings.look("x", 41, "".join(parts[:cut]).encode())
        told += beginnings.look("x", 41 + cut, "".join(parts[cut:]).encode())
        assert len(told) == 1 and "come again from line 41 on" in told[0]
    few = Beginnings()
    assert few.look("x", 1, b"a\tb\n" * 5) == [] and few._last == b""  # nothing is held
    same = b"yes\tyes\n" * 100
    assert Beginnings().look("x", 1, same) == []

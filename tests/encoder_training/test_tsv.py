"""Lines of any file, packed or not, in blocks: none lost, none wrong, none too long to hold."""

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.encoder_training import tsv
from simile_plugin.encoder_training.tsv import Block, Columns, TsvInput

needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is missing")


def lines_of(source: TsvInput) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """(number, text) of the good lines, (number, reason) of the bad ones."""
    bad: list[tuple[int, str]] = []
    good = [
        line for block in source.blocks() for line in block.lines(lambda *what: bad.append(what))
    ]
    return good, bad


@settings(max_examples=100)
@given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"\t", b"\r", b"\xff", b"\xc3\xa9"])).map(b"".join),
    size=st.integers(1, 7),
)
def test_blocks_of_any_size_hold_the_same_lines(data: bytes, size: int) -> None:
    """Oracle: all bytes split at once."""
    expected = list(enumerate(data.split(b"\n"), 1))
    if not expected[-1][1]:
        expected.pop()
    chunks = (data[start : start + size] for start in range(0, len(data), size))
    blocks = list(TsvInput([])._blocks_of(chunks, "x"))
    found: list[tuple[int, bytes]] = []
    for block in blocks:
        rows = block.data.removesuffix(b"\n").split(b"\n")
        found += enumerate(rows, block.first_line)
    assert found == expected


def test_lines_that_are_no_text_are_reported() -> None:
    bad: list[tuple[int, str]] = []
    data = b"\xef\xbb\xbfone\r\n\xfftwo\nthr\0ee\n\xef\xbb\xbffour\n\nsix"
    good = list(Block("x", 1, data).lines(lambda *what: bad.append(what)))
    # A byte order mark goes at the beginning of a file only.
    assert good == [(1, "one"), (4, "\ufefffour"), (5, ""), (6, "six")]
    assert bad == [(2, "not UTF-8"), (3, "zero byte, as in UTF-16")]


def test_a_line_without_end_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsv, "LONGEST_LINE", 100)
    monkeypatch.setattr("simile_plugin.files.packed.CHUNK_BYTES", 30)
    path = tmp_path / "long.tsv"
    path.write_bytes(b"a\tb\n" + b"x" * 5000 + b"\nc\td\n" + b"y" * 100 + b"\n" + b"z" * 101)
    source = TsvInput([str(path)])
    assert max(len(block.data) for block in source.blocks()) <= 100 + 1 + 30
    good, bad = lines_of(source)
    assert good == [(1, "a\tb"), (3, "c\td"), (4, "y" * 100)]
    assert [number for number, _ in bad] == [2, 5]


@pytest.mark.parametrize(
    ("packer", "pack"), [("gzip", gzip.compress), ("xz", lzma.compress), ("bzip2", bz2.compress)]
)
def test_packed_files_are_no_text(
    packer: str,
    pack: Callable[[bytes], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = pack(b"ein Satz\ta sentence\n")
    (tmp_path / "pairs.tsv").write_bytes(packed)
    with pytest.raises(ValueError, match=f"pairs.tsv: is packed by {packer}, not text"):
        lines_of(TsvInput([str(tmp_path / "pairs.tsv")]))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    with pytest.raises(ValueError, match=f"<stdin>: is packed by {packer}"):
        lines_of(TsvInput(["-"]))


def test_header_and_several_files(tmp_path: Path) -> None:
    for name, text in (("a", "head\n1\n2\n"), ("b", "head"), ("c", "head\n3")):
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in "abc"]
    assert lines_of(TsvInput(paths, header=True))[0] == [(2, "1"), (3, "2"), (2, "3")]
    assert TsvInput(paths).total == 9 + 4 + 6


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb")))
    source = TsvInput(["-"])
    assert source.total is None
    assert [(b.name, b.first_line, b.data) for b in source.blocks()] == [
        ("<stdin>", 1, b"a\n"),
        ("<stdin>", 2, b"b"),
    ]
    with pytest.raises(ValueError, match="only one of them can be -"):
        TsvInput(["-", "-"])


def packed(path: Path, *frames: bytes) -> Path:
    """A .zst of some frames, one after the other."""
    command = ["zstd", "-q", "-c"]
    parts = [subprocess.run(command, input=f, stdout=-1, check=True).stdout for f in frames]
    path.write_bytes(b"".join(parts))
    return path


@needs_zstd
def test_zstd(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.zst", b"a\n" * 1000, b"b\n")
    assert len(lines_of(TsvInput([str(path)]))[0]) == 1001
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"a.zst: damaged zstd file \(.*premature end"):
        lines_of(TsvInput([str(path)]))
    path.write_bytes(b"a\tb\n")
    with pytest.raises(ValueError, match="damaged zstd file"):
        lines_of(TsvInput([str(path)]))


def test_zstd_without_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "a.zst").write_bytes(b"")
    with pytest.raises(ValueError, match="a.zst: is read by the program zstd, which is not here"):
        TsvInput([str(tmp_path / "a.zst")])


@pytest.mark.parametrize(
    ("spec", "line", "pairs"),
    [
        ("1,2", "a\tb\tc", [("a", "b")]),
        ("3,1", "a\tb\tc", [("c", "a")]),
        ("1-", "a\tb\t \t\tc", [("a", "b"), ("a", "c"), ("b", "c")]),
        ("2-4", "x\ta\tb\tc\td", [("a", "b"), ("a", "c"), ("b", "c")]),
    ],
)
def test_columns(spec: str, line: str, pairs: list[tuple[str, str]]) -> None:
    assert Columns.parse(spec).pairs(line) == (pairs, None)


@pytest.mark.parametrize("spec", ["", "1", "0,1", "0-", "1,1", "a,b", "2-1", "1-2-3", "-2", "1,,2"])
def test_bad_columns(spec: str) -> None:
    with pytest.raises(ValueError, match="--columns: got"):
        Columns.parse(spec)


def test_what_the_first_lines_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = 'he said "yes"\tRock & roll is here\nno marks\t"Go!" they said\n'
    (tmp_path / "raw.tsv").write_text(raw)
    (tmp_path / "quoted.tsv").write_text(
        '"he said ""yes"""\tRock & roll is here\nno marks\t"""Go!"" they said"\n"two\nlines"\tx\n'
    )
    (tmp_path / "ids.tsv").write_text("17\teng\tRock &amp; roll\n18\teng\tit rains\n")
    (tmp_path / "names.tsv").write_text("q1\tIn 1999 it rained.\nq2\t2 dogs\nq3\t7\n")
    found, bad = {}, []
    for name in ("raw.tsv", "quoted.tsv", "ids.tsv", "names.tsv"):
        source = TsvInput([str(tmp_path / name)], columns=Columns())
        blocks = [*source.blocks(), *source.blocks()]
        found[name] = [line for _, line in blocks[0].lines(lambda *line: bad.append(line))]
    assert found["quoted.tsv"] == found["raw.tsv"] == raw.splitlines()
    assert [number for number, _ in bad] == [3, 4]
    told = capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines()
    assert told[0] == "quoted.tsv: its cells are in quotes, and are read without"
    assert [line.split(" (")[0] for line in told[1:]] == [
        "ids.tsv: warning: column 1 has numbers or names, codes or labels",
        "ids.tsv: warning: column 2 has numbers or names, codes or labels",
        "names.tsv: warning: column 1 has numbers or names, codes or labels",
    ]


@pytest.mark.parametrize(
    ("cells", "example"),
    [
        (["eng", "deu", "pt-BR"], "eng"),
        (["https://example.org/a", "www.example.org", "It rains."], "https://example.org/a"),
        (["corpus/talks.en", "news.en", "a@b"], "corpus/talks.en"),
        (["Brazilian Portuguese"] * 4 + ["German"] * 4, "Brazilian Portuguese"),
        (["It rains."] * 3, ""),  # too few to be labels
        (["Where?", "Who is there?", "Yes.", "No."], ""),
        (["A long sentence that has five references."] * 8, ""),
        (["\u4eca\u5929\u4e0b\u96e8", "\u4ed6\u56de\u5bb6", "\u5979\u8d70\u4e86"], ""),
        ([], ""),
    ],
)
def test_columns_without_sentences(cells: list[str], example: str) -> None:
    assert tsv.no_sentence(cells) == example


def test_a_tab_within_a_sentence_and_pieces_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"it rains {n} times\tthere is rain {n} times" for n in range(8)]
    (tmp_path / "tabs").write_text("\n".join([*rows[:4], "a\tb c d\te f", *rows[4:], ""]))
    (tmp_path / "pieces").write_text("\u2581it \u2581rain s\tthere is rain\n")
    (tmp_path / "clusters").write_text("a b\tc d\te f\ng h\ti j\nk l\tm n\to p\n")
    for name in ("tabs", "pieces", "clusters"):
        list(TsvInput([str(tmp_path / name)], columns=Columns()).blocks())
    told = capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines()
    assert len(told) == 2
    assert "tabs: warning: 1 of the first 9 lines have more columns than the 2" in told[0]
    assert "(line 5 first)" in told[0]
    assert "pieces: warning: column 1 is tokenised or segmented text (it has '\u2581')" in told[1]


@pytest.mark.parametrize(
    ("rows", "warning"),
    [
        (
            [f"it rains {n} times\train {n} times, that&#39;s all" for n in range(9)],
            "column 2 has HTML escapes",
        ),
        ([f"eng_Latn it rains {n}\train {n} times" for n in range(9)], "lines with 'eng_'"),
        ([f'it rains {n} times\t["rain {n} times"]' for n in range(9)], "a mark of a tokenizer"),
        (
            [
                "sentence1\tsentence2",
                *(f"it rains {n} times\tthere is rain {n} times" for n in range(9)),
            ],
            "line 1 has the names of columns ('sentence1\\tsentence2')",
        ),
        ([f"it rains {n} times\tit rains {n} times" for n in range(9)], "are those of column 1"),
        # as ParaNMT is: lower case, spaces before marks
        ([f"it rains {n} times .\tthere is rain , {n} times ." for n in range(200)], ""),
    ],
)
def test_text_that_is_no_plain_sentence_is_told(
    rows: list[str], warning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs").write_text("\n".join([*rows, ""]), "utf-8")
    list(TsvInput([str(tmp_path / "pairs")], columns=Columns()).blocks())
    told = capsys.readouterr().err
    assert f"{tmp_path}/pairs: warning: " in told and warning in told if warning else told == ""

"""Reading columns: cells, headers, numbers, and errors that name file and line."""

import csv
import gzip
import math
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.files import InputError, Row, finite_number, read_rows


def row(*cells: str) -> Row:
    return Row(list(cells), "--gold: in.tsv:7")


def test_rows_of_plain_and_packed_files(tmp_path: Path) -> None:
    text = "id\tgrade\n 1\t\t3\n"
    (tmp_path / "in.tsv").write_text(text)
    (tmp_path / "in.tsv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("in.tsv", "in.tsv.gz"):
        rows = read_rows(tmp_path / name, "--gold")
        assert [found.cells for found in rows] == [["id", "grade"], [" 1", "", "3"]]
        assert rows[1].where == f"--gold: {tmp_path / name}:2"


def test_what_spreadsheets_write(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    for text in ('item;rating\n"a; b" ; 3\n', 'item,rating\n"a; b",3\n', "item\trating\na; b\t3"):
        path.write_text(text)
        rows = read_rows(path, "--answers", delimiters="\t;,", quoted=True)
        assert [found.cells for found in rows] == [["item", "rating"], ["a; b", "3"]], text
    path.write_text('item,rating,comment\n1,3,"one\ntwo, ""so"""\n2,4,\n')
    rows = read_rows(path, "--answers", delimiters="\t;,", quoted=True)
    assert [found.cells for found in rows[1:]] == [["1", "3", 'one\ntwo, "so"'], ["2", "4", ""]]
    assert [found.where.rpartition(":")[2] for found in rows] == ["1", "2", "4"]
    # Quotation marks of a text that is written without quotes open no cell.
    for mark in ('"so', '"so" he said'):
        path.write_text(f"item\trating\ttext\n1\t3\t{mark}\n2\t4\tyes\n3\t5\tno\n")
        rows = read_rows(path, "--answers", delimiters="\t;,", quoted=True)
        assert [found.cells[0] for found in rows] == ["item", "1", "2", "3"]
    path.write_text("item,rating\n" + "x" * 200_000 + ",1\n")
    assert read_rows(path, "--answers", delimiters="\t;,", quoted=True)[1].cells == []


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("")
    with pytest.raises(InputError, match=r"--gold: .*in is empty, expected id TAB sentence$"):
        read_rows(tmp_path / "in", "--gold", "id TAB sentence")


def test_numbers_of_columns() -> None:
    row("a", "b").expect(2, 2)
    row("a", "b").expect(1)
    got = "--gold: in.tsv:7: got 2 tab-separated columns, expected "
    with pytest.raises(InputError, match=got + "at least 3$"):
        row("a", "b").expect(3)
    with pytest.raises(InputError, match=got + "source id TAB target id$"):
        row("a", "b").expect(1, 1, "source id TAB target id")


def test_numbers() -> None:
    assert row("x", " 1e3 ").number(1) == 1000
    assert row("-1").number(0, low=-1, high=1) == -1
    at = "--gold: in.tsv:7: got "
    for text in ("nan", "inf", "-Infinity", "1e999", "", "one", "1,5", "0x10"):
        with pytest.raises(InputError, match=f"{at}grade '{text}' in column 2, expected a number$"):
            row("x", text).number(1, "grade")
    with pytest.raises(InputError, match=f"{at}'1.5' in column 1, expected a number from -1 to 1$"):
        row("1.5").number(0, low=-1, high=1)
    with pytest.raises(InputError, match=f"{at}1 tab-separated columns, expected at least 3$"):
        row("1.5").number(2)


@given(st.floats())
def test_finite_numbers_come_back(value: float) -> None:
    assert finite_number(repr(value)) == (value if math.isfinite(value) else None)


TALK = [['He said "yes".', '"Stop!" she said.', "5"], ["no marks", "a, b", "0.5"]]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_quoted_cells_are_read_without_their_quotes(
    tmp_path: Path, quoting: Literal[0, 1], capsys: pytest.CaptureFixture[str]
) -> None:
    for table in (TALK, [*TALK, ["two\nlines", '"a"\tb', "3"]]):
        with open(tmp_path / "t.tsv", "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, delimiter="\t", quoting=quoting).writerows(table)
        assert [row.cells for row in read_rows(tmp_path / "t.tsv", "--t")] == table
        assert "its cells are in quotes" in capsys.readouterr().err


def test_numbers_beside_quoted_cells_need_no_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['"hypothesis"\t"human_z"', '"A boat, a duck."\t-1.5e-3', '"A dog."\t2']  # R's, too
    (tmp_path / "t.tsv").write_text("\r\n".join(lines))
    rows = read_rows(tmp_path / "t.tsv", "--t")
    assert [row.cells for row in rows[1:]] == [["A boat, a duck.", "-1.5e-3"], ["A dog.", "2"]]
    assert "its cells are in quotes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ['"Stop!" she said.\t"No."', '"Go."\t"""', 'an inch is "\t""\t"So."', '"a ""b""\t"c"']
)
def test_marks_of_raw_files_are_text(
    tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.tsv").write_text(f"plain\ttext\n{line}\n")
    assert read_rows(tmp_path / "raw.tsv", "--t")[1].cells == line.split("\t")
    assert not capsys.readouterr().err

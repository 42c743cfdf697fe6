"""Tab-separated columns: rows of cells that know their flag, file and line."""

from __future__ import annotations

import csv
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from simile_plugin.files.errors import InputError
from simile_plugin.files.lines import read_lines


@dataclass(frozen=True)
class Row:
    """The cells of one line, and where it stands: "--flag: file:line"."""

    cells: list[str]
    where: str

    def expect(self, least: int, most: float = math.inf, what: str = "") -> None:
        """Raise InputError unless there are from `least` to `most` columns; what: they are."""
        if not least <= len(self.cells) <= most:
            wanted = f"{least}" if most == least else f"at least {least}"
            also = f"; {self.other_separator}" if self.other_separator else ""
            raise InputError(
                f"{self.where}: got {len(self.cells)} tab-separated columns, "
                f"expected {what or wanted}{also}"
            )

    def find(self, names: Sequence[str]) -> list[int]:
        """Return the columns (from 0) of a header with these names, whatever their case."""
        header = [cell.strip().lower() for cell in self.cells]
        return [header.index(name) for name in map(str.lower, names) if name in header]

    @property
    def other_separator(self) -> str:
        """Advice for a line without a TAB that has other marks between cells, or ""."""
        for mark, name in ((",", "commas"), (";", "semicolons")):
            if len(self.cells) == 1 and self.cells[0].count(mark) > 1:
                return (
                    f"it has {name} where TABs are expected; write it with TABs (python -c "
                    '\'import csv, sys; csv.writer(sys.stdout, delimiter="\\t", '
                    "quoting=csv.QUOTE_MINIMAL).writerows(csv.reader(sys.stdin, "
                    f'delimiter="{mark}"))\')'
                )
        return ""

    def number(
        self, column: int, what: str = "", low: float = -math.inf, high: float = math.inf
    ) -> float:
        """Return the number in a column (from 0); what: it is, for the error.

        Raises InputError if there is no such column, or no finite number from `low` to `high`.
        """
        self.expect(column + 1)
        value = finite_number(self.cells[column])
        if value is None or not low <= value <= high:
            limits = "" if math.inf in (-low, high) else f" from {low:g} to {high:g}"
            raise InputError(
                f"{self.where}: got {f'{what} ' if what else ''}{self.cells[column]!r} in column "
                f"{column + 1}, expected a number{limits}"
            )
        return value


def finite_number(text: str) -> float | None:
    """Return the number that a text is; None for NaN, an infinite one, or anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_rows(
    path: str | os.PathLike[str],
    flag: str,
    expected: str = "tab-separated columns",
    *,
    splits: int = -1,
    delimiters: str = "\t",
    quoted: bool = False,
) -> list[Row]:
    """Read a file of columns: plain, .gz, or "-" for standard input; a header is a row as others.

    Args:
        expected: what the file should hold, for the error.
        splits: how often a line is cut at most; -1 for no limit.
        delimiters: the first of these that is in line 1 separates the cells.
        quoted: cells may be in double quotes, as spreadsheets write them; spaces around go. Lines
            may all end by CR alone, as Excel for Mac writes them. Where a whole file is written so
            (:func:`is_quoted`), it is read so anyway, and standard error says it.

    Raises InputError if the file is empty or unreadable (see `read_lines`).
    """
    lines = read_lines(path, flag)
    if not lines:
        raise InputError(f"{flag}: {path} is empty, expected {expected}")
    if quoted and len(lines) == 1:
        lines = lines[0].split("\r")
    delimiter = next((mark for mark in delimiters if mark in lines[0]), delimiters[0])

    cells = [(n, line.split(delimiter, splits)) for n, line in enumerate(lines, 1)]
    if not quoted and is_quoted("\n".join(lines), delimiter):
        print(f"{flag}: {path}: its cells are in quotes, and are read without", file=sys.stderr)
        quoted = True
    if quoted:
        cells = _table(lines, delimiter) or [
            (n, _quoted(line, delimiter)) for n, line in enumerate(lines, 1)
        ]
        if splits >= 0:
            cells = [(n, [*row[:splits], delimiter.join(row[splits:])]) for n, row in cells]
    return [Row(row, f"{flag}: {path}:{n}") for n, row in cells]


def _quoted(line: str, delimiter: str) -> list[str]:
    """Split a line into cells; none if one has more than csv's 131,072 characters."""
    try:
        return [cell.strip() for row in csv.reader([line], delimiter=delimiter) for cell in row]
    except csv.Error:
        return []


def _table(lines: Sequence[str], delimiter: str) -> list[tuple[int, list[str]]]:
    """Return rows with the lines that they begin in; a quoted cell may go on in the next line.

    Nothing, if that cannot be meant: a quotation mark that stands for itself, as where cells are
    written without quotes, would open a cell that ends anywhere.
    """
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    rows, first = [], 1
    try:
        for row in reader:
            rows.append((first, [cell.strip() for cell in row]))
            first = reader.line_num + 1
    except csv.Error:
        return []
    widest = max(len(cells) for _, cells in rows)
    return rows if widest == len(rows[0][1]) else []


def is_quoted(text: str, delimiter: str = "\t") -> bool:
    """Return whether cells are quoted as pandas and spreadsheets do it, so that no mark is text.

    Then every cell with a quotation mark is in quotes with its own marks doubled, and one has such
    marks; or all cells but numbers are in quotes. In the files of WMT, STS-B and ParaNMT, marks
    stand anywhere.
    """
    if '"' not in text:
        return False
    inside = r'"[^"]*+(?:""[^"]*+)*+"'
    cell = rf'(?:{inside}|[^"{delimiter}\n]*+)'
    end = rf"[{delimiter}\n]"
    if re.search(rf'""[^"{delimiter}\n]|[^"{delimiter}\n]""|""""', text):
        return re.fullmatch(rf"{cell}(?:{end}{cell})*+", text) is not None
    cell = rf"(?:{inside}|[-+.0-9eE]*+)"
    return text.count('"') > 2 and re.fullmatch(rf"{cell}(?:{end}{cell})++", text) is not None

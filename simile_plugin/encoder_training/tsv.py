"""TSV files of any size as blocks of whole lines: plain, .gz, .zst or standard input."""

from __future__ import annotations

import csv
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import IO

from simile_plugin.encoder_training.beginnings import Beginnings
from simile_plugin.files import (
    InputError,
    Progress,
    check_standard_input,
    check_unpackable,
    is_header,
    is_quoted,
    mark_warning,
    text_chunks,
    untranslated_warning,
)

LONGEST_LINE = 1 << 20  # bytes; a longer line is bad, and only so much of it is held in memory
BOM = b"\xef\xbb\xbf"
STDIN = "<stdin>"
ID = re.compile(r"(?a:[-\w.:/#]*\d[-\w.:/#]*)$")  # q17, newstest2015.3: no sentence
NAME = re.compile(r"(?a:[^\s]*(?:://|[/@_\\]|\w\.\w)[^\s]*)$")  # of a page, a file, a person
CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,8})*$")  # of a language: en, deu_Latn, pt-BR
# A label comes back: so many times on average, of so many lines at least, of so many words at most.
COMES_BACK, ENOUGH_LINES, LABEL_WORDS = 4, 4, 3
USUAL_WIDTH = 0.75  # of the lines have so many columns, where they all should
LOOKED_AT = 1000  # lines of a file, for warnings


@dataclass(frozen=True)
class Block:
    """Whole lines of a file."""

    name: str  # of the file, for messages
    first_line: int  # its number, from 1
    data: bytes
    header: bool = False  # the first line of the file is left out
    quoted: bool = False  # cells are in quotes, which `lines` takes off; see `is_quoted`

    def lines(self, report: Callable[[int, str], None]) -> Iterator[tuple[int, str]]:
        """Yield (line number, text without its end) of each line; only LF ends a line.

        Lines that are no UTF-8 text go to ``report(line number, reason)`` instead.
        """
        rows = self.data.split(b"\n")
        if not rows[-1]:
            rows.pop()
        for number, row in enumerate(rows, self.first_line):
            if number == 1:
                if self.header:
                    continue
                row = row.removeprefix(BOM)
            if len(row) > LONGEST_LINE:
                report(number, f"longer than {LONGEST_LINE >> 20} MiB")
                continue
            try:
                text = row.decode("utf-8")
            except UnicodeDecodeError:
                report(number, "not UTF-8")
                continue
            if "\0" in text:
                report(number, "zero byte, as in UTF-16")
                continue
            text = text.rstrip("\r")
            if self.quoted and '"' in text:
                if text.count('"') % 2:
                    report(number, "a cell in quotes that goes over several lines")
                    continue
                try:
                    cells = next(csv.reader([text], delimiter="\t"))
                except csv.Error as error:
                    report(number, str(error))
                    continue
                text = "\t".join(cell.replace("\t", " ") for cell in cells)
            yield number, text


@dataclass(frozen=True)
class Columns:
    """The columns of a line that hold sentences."""

    chosen: tuple[int, ...] | None = (0, 1)  # columns from 0; None: all from `first` on
    first: int = 0

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Read ``1,2``, ``2-7`` or ``1-``, counted from 1."""
        if text[:-1].isdecimal() and text.endswith("-") and int(text[:-1]) > 0:
            return cls(None, int(text[:-1]) - 1)
        chosen: list[int] = []
        for part in text.split(","):
            ends = part.split("-")
            if len(ends) > 2 or not all(end.isdecimal() and 0 < int(end) < 10_000 for end in ends):
                raise InputError(
                    f"--columns: got {text!r}, expected numbers from 1 as in 1,2 or 2-7 or 1-"
                )
            chosen += range(int(ends[0]) - 1, int(ends[-1]))
        if len(chosen) < 2 or len(set(chosen)) < len(chosen):
            raise InputError(f"--columns: got {text!r}, expected two or more different columns")
        return cls(tuple(chosen))

    @property
    def is_cluster(self) -> bool:
        """True where a line can give several pairs."""
        return self.chosen is None or len(self.chosen) > 2

    def pairs(self, line: str) -> tuple[list[tuple[str, str]], str | None]:
        """Return the pairs of a line, or none and the reason.

        Two columns are a pair. More are a cluster of sentences that mean the same: all
        k * (k - 1) / 2 pairs of its k sentences that are not empty.
        """
        if self.chosen == (0, 1):
            cells = line.split("\t", 2)
            return ([], "no second column") if len(cells) < 2 else ([(cells[0], cells[1])], None)
        cells = line.split("\t")
        if self.chosen is not None and not self.is_cluster:
            if max(self.chosen) >= len(cells):
                return [], f"no column {max(self.chosen) + 1}"
            return [(cells[self.chosen[0]], cells[self.chosen[1]])], None
        wanted = range(self.first, len(cells)) if self.chosen is None else self.chosen
        there = [cells[i] for i in wanted if i < len(cells) and cells[i].strip()]
        return list(combinations(there, 2)), None if len(there) > 1 else "fewer than two sentences"

    def __str__(self) -> str:
        if self.chosen is None:
            return f"{self.first + 1}-"
        return ",".join(str(column + 1) for column in self.chosen)


FIRST_TWO = Columns()


class TsvInput:
    """Files that are read as a single file, block by block, in constant memory.

    Args:
        paths: plain files, .gz, .zst, or "-" for standard input.
        columns: that hold sentences. With them, standard error tells of cells in quotes, which are
            taken off, and of headers, marks that are no text, equal sides, and columns without
            sentences in a file's first lines; and of these lines where they come again.

    Attributes:
        total: bytes of all files; None with a pipe among them.

    Raises:
        InputError: for a folder, standard input named twice, or .zst without the program zstd.
    """

    def __init__(
        self, paths: Sequence[str], header: bool = False, columns: Columns | None = None
    ) -> None:
        self.paths, self.header, self.columns = tuple(paths), header, columns
        self._told: set[str] = set()
        self.total = _check_inputs(paths)
        self._before = 0  # bytes of the files that are done
        self._raw: IO[bytes] | None = None

    @property
    def position(self) -> int:
        """The bytes read so far, of the files as they are on disk."""
        # The position of the descriptor: the program zstd reads from it, too.
        here = os.lseek(self._raw.fileno(), 0, os.SEEK_CUR) if self._raw and self.total else 0
        return self._before + here

    def blocks(self) -> Iterator[Block]:
        """Yield blocks of whole lines, file after file."""
        self._before, self._raw = 0, None
        self._beginnings = Beginnings()
        for path in self.paths:
            if path == "-":
                yield from self._looked_at(text_chunks(sys.stdin.buffer, STDIN), STDIN)
                continue
            with open(path, "rb") as self._raw:
                yield from self._looked_at(text_chunks(self._raw, path), path)
                self._before, self._raw = self.position, None

    def _looked_at(self, chunks: Iterator[bytes], name: str) -> Iterator[Block]:
        quoted: bool | None = None
        for block in self._blocks_of(chunks, name):
            if quoted is None:
                quoted = self._look(block, self.columns) if self.columns else False
            if self.columns:
                self._tell(name, self._beginnings.look(name, block.first_line, block.data))
            yield replace(block, quoted=True) if quoted else block

    def _look(self, block: Block, columns: Columns) -> bool:
        """Warn of what the first lines of a file show; return True for cells in quotes."""
        told = []
        text = block.data.removeprefix(BOM).decode("utf-8", "replace").replace("\r\n", "\n")
        if quoted := is_quoted(text.removesuffix("\n")):
            told.append("its cells are in quotes, and are read without")
            block = replace(block, quoted=True)
        lines = [line for _, line in islice(block.lines(lambda *_: None), LOOKED_AT)]
        if not self.header and is_header(lines):
            told.append(
                f"warning: line 1 has the names of columns ({lines[0][:40]!r}), and is taken for "
                "sentences; leave it out (--header of filter-pairs or binarize-pairs)"
            )
        told += _column_doubts([line.split("\t") for line in lines], columns, block.first_line)
        self._tell(block.name, told)
        return quoted

    def _tell(self, name: str, doubts: Sequence[str]) -> None:
        told = [f"{name}: {text}" for text in doubts]
        for text in told:
            if text not in self._told:  # a file may be read twice
                print(text, file=sys.stderr, flush=True)
        self._told |= set(told)

    def _blocks_of(self, chunks: Iterator[bytes], name: str) -> Iterator[Block]:
        pending, line = b"", 1
        for chunk in chunks:
            if len(pending) > LONGEST_LINE:  # drop the rest of a line that is too long
                end = chunk.find(b"\n")
                chunk = chunk[end:] if end >= 0 else b""
            data = pending + chunk
            cut = data.rfind(b"\n") + 1
            if cut:
                yield Block(name, line, data[:cut], self.header)
                line += data.count(b"\n", 0, cut)
            pending = data[cut:][: LONGEST_LINE + 1]
        if pending:
            yield Block(name, line, pending, self.header)


def _column_doubts(rows: Sequence[list[str]], columns: Columns, first_line: int) -> Iterator[str]:
    """Yield warnings of columns without sentences, and of sentences with a TAB in them."""
    widths = Counter(map(len, rows))
    widest = max(widths, default=0)
    for column in range(columns.first, widest) if columns.chosen is None else columns.chosen:
        cells = [row[column] for row in rows if column < len(row)]
        if example := no_sentence(cells):
            yield (
                f"warning: column {column + 1} has numbers or names, codes or labels "
                f"({example[:40]!r}), but is taken for sentences; name the columns of sentences "
                "by --columns (of filter-pairs or binarize-pairs)"
            )
        elif text := mark_warning(f"column {column + 1}", cells):
            yield f"warning: {text}"
    if columns.is_cluster or not rows:
        return
    first, second = columns.chosen or (0, 1)
    sides = [(row[first], row[second]) for row in rows if len(row) > max(first, second)]
    left, right = [side[0] for side in sides], [side[1] for side in sides]
    if text := untranslated_warning(f"column {second + 1}", right, left, f"column {first + 1}"):
        yield f"warning: {text}"
    width, count = widths.most_common(1)[0]
    if widest > width and count >= USUAL_WIDTH * len(rows):
        wider = [number for number, row in enumerate(rows, first_line) if len(row) > width]
        yield (
            f"warning: {len(wider)} of the first {len(rows)} lines have more columns than the "
            f"{width} of the others (line {wider[0]} first): with a TAB within a sentence, a part "
            "is taken for all of it; replace such TABs by spaces"
        )


def no_sentence(cells: Sequence[str]) -> str:
    """Return an example cell of a column that mostly holds no sentences, else "".

    Such cells have no letters, are identifiers, addresses or codes of languages, or are labels: a
    few words that come back in many lines.
    """
    filled = [cell.strip() for cell in cells if cell.strip()]
    bare = [
        cell
        for cell in filled
        if not any(map(str.isalpha, cell)) or any(p.match(cell) for p in (ID, NAME, CODE))
    ]
    if 2 * len(bare) > len(filled):
        return bare[0]
    if len(filled) < ENOUGH_LINES or COMES_BACK * len(set(filled)) > len(filled):
        return ""
    short = all(len(cell.split()) <= LABEL_WORDS for cell in filled)
    return filled[0] if short else ""


def _check_inputs(paths: Sequence[str]) -> int | None:
    check_standard_input((path, path) for path in paths)
    if "-" in paths and sys.stdin is None:
        raise InputError("standard input (-) is closed; pipe the text in, or name a file")
    files = [path for path in paths if path != "-"]
    for path in files:
        if os.path.isdir(path):
            raise InputError(f"{path}: is a folder, expected a TSV file")
        if not os.access(path, os.R_OK):
            open(path, "rb").close()  # raises what is wrong
        check_unpackable(path, path)
    if len(files) < len(paths) or not all(map(os.path.isfile, files)):
        return None
    return sum(map(os.path.getsize, files))


class PairsProgress(Progress):
    """Share of the input read, and pairs a second."""

    def __init__(self, what: str, source: TsvInput) -> None:
        super().__init__(source.total, "B", what, scale=True)
        self.what, self.source = what, source
        self.started, self.pairs = time.perf_counter(), 0

    def add(self, pairs: int) -> None:
        """Count some more pairs as done."""
        self.pairs += pairs
        seconds = max(time.perf_counter() - self.started, 1e-9)
        text = f"{self.pairs} pairs, {self.pairs / seconds:.0f} pairs/s"
        total, position = self.source.total, self.source.position
        share = f"{100 * position / total:.0f} %, " if total else ""
        self.show(position, text, f"{self.what}: {share}{text}")

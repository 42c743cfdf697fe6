"""The answer to one question, of plain data: what every renderer shows, each in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simile_plugin.significance import EXACT_UP_TO, Chart

Data = dict[str, Any]  # numbers of a question for --json: plain dicts, lists and numbers
UNSPACED = (
    "the references have next to no spaces, so that BLEU and Length take whole sentences for "
    "words; give --tokenize char, or zh for Chinese, ja-mecab for Japanese"
)
HEADINGS = {"bleu": "BLEU", "sim": "SIM", "simile": "SIMILE", "learned": "LEARNED", "chrf": "chrF"}


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        sort: number to sort by, where it is not how the text begins.
        style: "", "good", "bad", "best" of its column, or "text" for what is to be read and not
            compared.
        link: place on the page, after #.
    """

    text: str
    sort: float | None = None
    style: str = ""
    link: str = ""


Row = Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """Headings and groups of rows; a group is a row and the rows that belong to it.

    Attributes:
        folded: title under which the page folds it away; "" to show it at once.

    Raises:
        ValueError: if a row is not as long as the headings.
    """

    columns: Sequence[str]
    groups: Sequence[Sequence[Row]]
    caption: str = ""
    folded: str = ""

    def __post_init__(self) -> None:
        for row in (row for group in self.groups for row in group):
            if len(row) != len(self.columns):
                raise ValueError(f"table: got {len(row)} cells under {len(self.columns)} headings")

    def grid(self) -> list[list[str]]:
        """Return headings and rows as strings; rows that belong to another are indented."""
        rows = [
            [("  " if part else "") + row[0].text, *(cell.text for cell in row[1:])]
            for group in self.groups
            for part, row in enumerate(group)
        ]
        return [list(self.columns), *rows]


def make_table(columns: Sequence[str], rows: Sequence[Sequence[object]], **more: Any) -> Table:
    """Make a table whose rows stand for themselves; see `cells`."""
    return Table(columns, [[cells(row)] for row in rows], **more)


def cells(row: Sequence[object]) -> Row:
    """Make a plain cell of every value that is not a cell."""
    return [cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row]


def best_of(values: Sequence[float]) -> float | None:
    """Return the highest value of a column, or None where there is nothing to compare."""
    return max(values) if len(set(values)) > 1 else None


def signed(difference: float, clear: bool, text: str) -> Cell:
    """Return a difference, coloured if it is clear."""
    return Cell(text, difference, "" if not clear else "good" if difference > 0 else "bad")


@dataclass(frozen=True)
class Figure:
    """A chart with what to read below it. folded: as of a table."""

    chart: Chart
    caption: str
    folded: str = ""


Runs = list[tuple[str, str]]  # pieces of a text, each with "" or with a style to mark it by


@dataclass(frozen=True)
class Passage:
    """Sentences to read below each other.

    Attributes:
        lines: labels with texts.
        tags: what a link on the page can choose it by.
    """

    title: str
    lines: Sequence[tuple[str, Runs]]
    tags: Sequence[str] = ()

    def texts(self) -> list[tuple[str, str]]:
        """Return the lines without their marks."""
        return [(label, " ".join(text for text, _ in runs)) for label, runs in self.lines]


def equal_once(lines: Sequence[tuple[str, Runs]]) -> list[tuple[str, Runs]]:
    """Join lines of equal text under their labels, with the marks of the last that has some."""
    joined: dict[str, tuple[list[str], Runs]] = {}
    for label, runs in lines:
        text = " ".join(text for text, _ in runs)
        labels, marks = joined.pop(text, ([], runs))
        joined[text] = ([*labels, label], runs if any(style for _, style in runs) else marks)
    return [(", ".join(labels), runs) for labels, runs in joined.values()]


@dataclass(frozen=True)
class Passages:
    """Example sentences grouped by kind; `more` are reached only by links."""

    kinds: Mapping[str, Sequence[Passage]]
    more: Sequence[Passage] = ()


@dataclass(frozen=True)
class Literal:
    """A command, or other text to be shown as it is; on the page only."""

    caption: str
    text: str


Part = Table | Figure | Passages | Literal


@dataclass(frozen=True)
class Answer:
    """The answer to one question, in reading order.

    Attributes:
        name: of the question: letters and hyphens.
        title, lead: heading and first sentence of its section on the page.
        heading, file: first line of the text, which ends with the name of a file or folder.
        data: the numbers, for --json.
        sentences: the answer in sentences, for a reader who reads nothing else.
        warnings: what a reader must not overlook.
        notes: how to read it.
        signatures: metric -> what was computed and how.
        scope: what was compared on what, in a line.
    """

    name: str
    title: str
    lead: str
    heading: str
    parts: Sequence[Part]
    data: Data
    file: str = ""
    sentences: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""

    @property
    def chart(self) -> Chart | None:
        """Return the first picture, if there is one."""
        return next((part.chart for part in self.parts if isinstance(part, Figure)), None)

    def all_notes(self) -> list[str]:
        """Return notes, then signatures."""
        return [*self.notes, *(f"{name}: {text}" for name, text in self.signatures.items())]


def optional(value: float | None, form: str, none: str = "-") -> str:
    """Format a number, or say that there is none."""
    return none if value is None else format(value, form)


def p_text(p_value: float, draws: int, tests: int = 1) -> str:
    """Format the p-value of a test of so many resamples: 0.012, <0.001, or <=0.001.

    It is never 0, which no test gives; "<=" marks the least that R resamples can give, 1 / (R + 1),
    and that times the number of tests after Holm.
    """
    if p_value < 0.0005:
        return "<0.001"
    return f"{'<=' if p_value * (draws + 1) < tests + 0.5 else ''}{p_value:.3f}"


def p_told(p_value: float, draws: int, tests: int = 1) -> str:
    """Format a p-value for a sentence: p = 0.012, p < 0.001 or p <= 0.001."""
    shown = p_text(p_value, draws, tests)
    number = shown.lstrip("<=")
    return f"p {shown.removesuffix(number) or '='} {number}"


def p_defined(sentences: int, draws: int) -> str:
    """Return how p of so many sentences was counted, and what so few say."""
    if sentences > EXACT_UP_TO:
        return (
            f"the share of {draws:,} resamples (paired bootstrap) that lie on the other side, so "
            "of one tail"
        )
    return (
        f"exact: the share of the {2**sentences:,} exchanges of the two outputs of sentences whose "
        f"difference is as large (one tail), at least {0.5**sentences:.3g}; intervals of so few "
        "sentences are too narrow"
    )


def after_holm(tests: int) -> str:
    """Return what is added to a text on p of so many tests; one alone is not adjusted."""
    return f", after Holm over {tests} comparisons" if tests > 1 else ""


def count(number: int, what: str) -> str:
    """Count things: 1 system, 2 systems."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def size_range(sizes: tuple[int, int]) -> str:
    """Format the lowest and highest size of n-best lists: 8, or 6 to 8."""
    low, high = sizes
    return str(high) if low == high else f"{low} to {high}"

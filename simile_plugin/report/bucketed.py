"""Numbers of several systems by bucket, as a table and as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simile_plugin.report.answer import Cell, Data, Table, cells
from simile_plugin.significance import COLORS, INK, Chart, Floats, interval


@dataclass(frozen=True)
class Around:
    """A difference from one of the systems, with its 95% interval."""

    difference: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Return whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high


@dataclass(frozen=True)
class BucketRow:
    """A bucket: what it holds how often, and a number a system.

    Attributes:
        values: None for a system of which there is none.
        against: system -> difference from one of the systems, where it is tested.
        tag: leads to sentences on the page; "" for none.
    """

    bucket: str
    count: int
    values: dict[str, float | None]
    against: dict[str, Around]
    tag: str = ""

    def data(self) -> Data:
        """Return it for --json, without an empty tag."""
        fields = asdict(self)
        return fields if self.tag else {k: v for k, v in fields.items() if k != "tag"}


Rows = Sequence[BucketRow]


def bucket_table(title: str, rows: Rows, form: str = ".2f", **more: Any) -> Table:
    """Tabulate a row a bucket, a column a system, * where an interval leaves out 0."""
    names = list(rows[0].values)
    groups = []
    for place, row in enumerate(rows):
        link = f"examples/{row.tag}" if row.tag else ""
        numbers = [_number(row, name, form) for name in names]
        groups.append([cells([Cell(row.bucket, place, link=link), f"{row.count:,}", *numbers])])
    return Table([title, "count", *names], groups, **more)


def _number(row: BucketRow, name: str, form: str) -> Cell:
    value, against = row.values[name], row.against.get(name)
    shown = "-" if value is None else f"{value:{form}}"
    if against is not None and against.clear:
        return Cell(f"{shown}*", value, "good" if against.difference > 0 else "bad")
    return Cell(f"{shown} " if row.against else shown, value)


def bucket_chart(label: str, y_label: str, rows: Rows) -> Chart:
    """Draw a group of bars a bucket, a bar a system in its colour; a bar links to its sentences."""
    names = list(rows[0].values)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        width = 0.8 / len(names)
        for order, name in enumerate(names):
            for place, row in enumerate(rows):
                height = row.values[name]
                if height is None:
                    continue
                x = place + (order + 0.5) * width - 0.4
                named = name if place == 0 else None
                (bar,) = axes.bar(x, height, width, color=COLORS[order % len(COLORS)], label=named)
                if row.tag:
                    bar.set_url(f"#examples/{row.tag}")
        axes.set_xticks(range(len(rows)), [row.bucket for row in rows])
        if len(rows) > 10:
            axes.tick_params(axis="x", rotation=45)
        axes.set_ylabel(y_label)
        axes.grid(axis="y")
        axes.axhline(0, color=INK, linewidth=0.8)
        figure.legend(loc="outside lower center", ncols=min(5, len(names)), frameon=False)

    return Chart(label, (9.5, 3.6), draw)


def spread(
    values: Mapping[str, float], draws: Mapping[str, Floats], base: str
) -> dict[str, Around]:
    """Return the difference of every other system from `base`, with its interval."""
    around = {name: interval(drawn - draws[base]) for name, drawn in draws.items() if name != base}
    return {
        name: Around(values[name] - values[base], ends.low, ends.high)
        for name, ends in around.items()
    }

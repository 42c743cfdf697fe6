"""Numbers of several systems by bucket, as a table and as bars.

A row is {bucket, count, values: system -> number, against: system -> {difference, low, high}}, the
differences from one of the systems with their 95% intervals; its `tag`, if any, leads to sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simile_plugin.report.answer import Cell, Data, Table, cells
from simile_plugin.significance import COLORS, INK, Chart, Floats, interval

Rows = Sequence[Data]


def is_clear(against: Data | None) -> bool:
    """Return whether an interval leaves out 0."""
    return against is not None and not against["low"] <= 0 <= against["high"]


def bucket_table(title: str, rows: Rows, form: str = ".2f", **more: Any) -> Table:
    """Tabulate a row a bucket, a column a system, * where an interval leaves out 0."""
    names = list(rows[0]["values"])
    told = []
    for place, row in enumerate(rows):
        own = []
        for name in names:
            against, value = row["against"].get(name), row["values"][name]
            clear = is_clear(against)
            style = ("good" if against["difference"] > 0 else "bad") if clear else ""
            shown = "-" if value is None else f"{value:{form}}"
            own.append(Cell(f"{shown}{'*' if clear else ' ' * bool(row['against'])}", value, style))
        link = f"examples/{row['tag']}" if "tag" in row else ""
        told.append([cells([Cell(row["bucket"], place, link=link), f"{row['count']:,}", *own])])
    return Table([title, "count", *names], told, **more)


def bucket_chart(label: str, y_label: str, rows: Rows) -> Chart:
    """Draw a group of bars a bucket, a bar a system in its colour; a bar links to its sentences."""
    names = list(rows[0]["values"])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        width = 0.8 / len(names)
        for order, name in enumerate(names):
            for place, row in enumerate(rows):
                if row["values"][name] is None:
                    continue
                x, height = place + (order + 0.5) * width - 0.4, row["values"][name]
                named = name if place == 0 else None
                (bar,) = axes.bar(x, height, width, color=COLORS[order % len(COLORS)], label=named)
                if "tag" in row:
                    bar.set_url(f"#examples/{row['tag']}")
        axes.set_xticks(range(len(rows)), [row["bucket"] for row in rows])
        if len(rows) > 10:
            axes.tick_params(axis="x", rotation=45)
        axes.set_ylabel(y_label)
        axes.grid(axis="y")
        axes.axhline(0, color=INK, linewidth=0.8)
        figure.legend(loc="outside lower center", ncols=min(5, len(names)), frameon=False)

    return Chart(label, (9.5, 3.6), draw)


def spread(values: Mapping[str, Any], draws: Mapping[str, Floats], base: str) -> dict[str, Data]:
    """Return the difference of every other system from `base`, with its interval."""
    around = {name: interval(own - draws[base]) for name, own in draws.items() if name != base}
    return {
        name: {"difference": values[name] - values[base], "low": own.low, "high": own.high}
        for name, own in around.items()
    }

"""Pieces of HTML: every function takes plain strings, which it escapes, and gives finished HTML."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NewType

from simile_plugin.files import InputError

Html = NewType("Html", str)  # escaped already, and well formed
LONGEST_LABEL = 28  # characters of a name in a chart; the whole name is its tooltip


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: what is shown.
        sort: number to sort by, where it is not how the text begins.
        style: "", "good", "bad", or "text" for what is to be read and not compared.
    """

    text: str
    sort: float | None = None
    style: str = ""


Row = Sequence[Cell | str]
Group = Sequence[Row]  # a row, and rows that belong to it


def join(parts: Sequence[Html]) -> Html:
    """Pieces below each other."""
    return Html("\n".join(part for part in parts if part))


def paragraph(text: str, style: str = "") -> Html:
    """One paragraph."""
    return Html(f"<p{_class(style)}>{escape(text)}</p>")


def heading(text: str) -> Html:
    """A heading inside of a section."""
    return Html(f"<h3>{escape(text)}</h3>")


def notes(lines: Sequence[str]) -> Html:
    """Small print: one point a line, or nothing."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return Html(f'<ul class="notes">{items}</ul>' if items else "")


def code(text: str) -> Html:
    """A command or another literal text."""
    return Html(f"<pre>{escape(text)}</pre>")


def folded(title: str, body: Html) -> Html:
    """Something that is closed at first."""
    return Html(f"<details><summary>{escape(title)}</summary>{body}</details>")


def table(header: Sequence[str], groups: Sequence[Group], caption: str = "") -> Html:
    """A table; groups of rows can be sorted by their first row's cells.

    Raises:
        ValueError: if a row is not as long as the header.
    """
    for group in groups:
        for row in group:
            if len(row) != len(header):
                raise InputError(f"table: got {len(row)} cells under {len(header)} headings")
    head = "".join(
        f'<th scope="col"{_class(_style_of(groups, column))}>{escape(title)}</th>'
        for column, title in enumerate(header)
    )
    bodies = "\n".join(
        "<tbody>" + "".join(_row(row, part > 0) for part, row in enumerate(group)) + "</tbody>"
        for group in groups
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return Html(
        f'<div class="scroll"><table class="sortable">{title}<thead><tr>{head}</tr></thead>\n'
        f"{bodies}</table></div>"
    )


def _style_of(groups: Sequence[Group], column: int) -> str:
    """A heading stands as the cells below it: "text" to the left."""
    first = groups[0][0][column] if groups else ""
    return "text" if isinstance(first, Cell) and first.style == "text" else ""


def _row(row: Row, part: bool) -> str:
    cells = "".join(_cell(cell if isinstance(cell, Cell) else Cell(cell)) for cell in row)
    return f"<tr{_class('part' if part else '')}>{cells}</tr>"


def _cell(cell: Cell) -> str:
    finite = cell.sort is not None and math.isfinite(cell.sort)
    sort = f' data-sort="{cell.sort:.6g}"' if finite else ""
    return f"<td{_class(cell.style)}{sort}>{escape(cell.text)}</td>"


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""


def picture(svg: str, caption: str, name: str) -> Html:
    """An SVG inside of the page, with ids of its own.

    Args:
        svg: made by this package, never by a user; matplotlib's are measured in points.
        name: put before its ids, since a page has many pictures and ids are unique.
    """
    svg = re.sub(
        r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.S
    )
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.S)  # would hold for the whole page
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'\bhref="#', f'href="#{name}-', svg)
    size = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    width = round(float(size[1]) * (1 if 'class="chart"' in svg else 4 / 3)) if size else 640
    named = "" if "aria-label" in svg else f' role="img" aria-label="{escape(caption)}"'
    return Html(
        f'<figure style="--width: {width}px"><div{named}>{svg.strip()}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


@dataclass(frozen=True)
class Bar:
    """A row of an interval chart: value, its interval, and single values (seeds)."""

    name: str
    value: float
    low: float
    high: float
    points: tuple[float, ...] = ()


def interval_chart(bars: Sequence[Bar], axis: str) -> str:
    """An SVG with one row a bar: a dot, its interval, small circles for the single values."""
    low = min(min(bar.low, bar.value, *bar.points) for bar in bars)
    high = max(max(bar.high, bar.value, *bar.points) for bar in bars)
    ticks = nice_ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    label = 16 + 7.5 * min(LONGEST_LABEL, max(len(bar.name) for bar in bars))
    width, row, bottom = 640.0, 26, 26 * len(bars) + 8

    def place(value: float) -> str:
        return f"{label + (width - label - 24) * (value - low) / ((high - low) or 1.0):.1f}"

    lines = [
        f'<line class="grid" x1="{place(t)}" y1="4" x2="{place(t)}" y2="{bottom}"/>'
        f'<text x="{place(t)}" y="{bottom + 17}" text-anchor="middle">{t:g}</text>'
        for t in ticks
    ]
    for number, bar in enumerate(bars):
        y = 8 + row * number + row / 2
        short = bar.name if len(bar.name) <= LONGEST_LABEL else f"{bar.name[: LONGEST_LABEL - 1]}…"
        told = f"{bar.name}: {bar.value:.2f} [{bar.low:.2f}, {bar.high:.2f}]"
        points = "".join(
            f'<circle class="seed" cx="{place(p)}" cy="{y}" r="3"/>' for p in bar.points
        )
        lines.append(
            f"<g><title>{escape(told)}</title>"
            f'<text x="{label - 10:.1f}" y="{y + 4.5}" text-anchor="end">{escape(short)}</text>'
            f'<line class="bar" x1="{place(bar.low)}" y1="{y}" x2="{place(bar.high)}" y2="{y}"/>'
            f'{points}<circle class="dot" cx="{place(bar.value)}" cy="{y}" r="4.5"/></g>'
        )
    lines.append(
        f'<text x="{(label + width - 24) / 2:.1f}" y="{bottom + 36}" text-anchor="middle">'
        f"{escape(axis)}</text>"
    )
    return f'<svg class="chart" viewBox="0 0 {width:g} {bottom + 44}">{"".join(lines)}</svg>'


def nice_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers from about `low` to about `high`, at most `most`, by steps of 1, 2 or 5."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20):
        step = power * factor
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    return [round(number * step, 10) for number in range(first, last + 1)] or [low]


def marked(first: str, second: str) -> tuple[Html, Html]:
    """Two strings with the words marked that the other one does not have in their place."""
    a, b = first.split(), second.split()
    left: list[str] = []
    right: list[str] = []
    for what, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for words, kept, style in ((a[a1:a2], left, "first"), (b[b1:b2], right, "second")):
            text = escape(" ".join(words))
            if text:
                kept.append(text if what == "equal" else f'<mark class="{style}">{text}</mark>')
    return Html(" ".join(left)), Html(" ".join(right))

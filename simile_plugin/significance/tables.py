"""One grid of strings, laid out for a terminal or for markdown; values for JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

Grid = Sequence[Sequence[str]]  # a header and rows of equal length


def text_table(grid: Grid) -> str:
    """Lay out columns for a terminal: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = []
    for row in grid:
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([f"{row[0]:<{widths[0]}}", *cells]).rstrip())
    rule = "-" * max(map(len, lines))
    return "\n".join([lines[0], rule, *lines[1:]])


def markdown_table(grid: Grid) -> str:
    """Lay out a markdown table: the first column to the left, the others to the right."""
    header, *rows = ([_escape(cell) for cell in row] for row in grid)
    rule = [":---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def _escape(cell: str) -> str:
    # Leading spaces mean depth in a terminal; markdown would drop them.
    depth = len(cell) - len(cell.lstrip())
    text = re.sub(r"([\\|<*`])", r"\\\1", cell.strip())
    return "&nbsp;" * depth + text if text else ""


def without_nan(value: Any) -> Any:
    """Return dicts, lists and numbers with None for NaN and infinity, which JSON has not."""
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""The report as one HTML file: works without a network, without scripts, in the dark, on paper.

Equal input gives equal bytes: there is no date but those that are given or stand in the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import isfinite
from pathlib import Path

from simile_plugin import __version__
from simile_plugin.report.answer import Answer, Cell, Part, Passage, Passages, Table
from simile_plugin.report.inputs import Inputs
from simile_plugin.report.render.html import fill_template
from simile_plugin.report.render.provenance import describe_report
from simile_plugin.significance import COLORS

MOST_NAMES = 6  # in a title
NOTHING_COMPARED = "No outputs were compared: the sections below stand for themselves."


def report_page(inputs: Inputs, answers: Sequence[Answer]) -> str:
    """Render the page of a report: answers, and how they were made."""
    scope = next((answer.scope for answer in answers if answer.scope), "")
    sections = [*answers, describe_report(inputs, answers)]
    title = inputs.options.title or _title(inputs, answers)
    return render_page(title, scope, sections, list(inputs.named_systems))


def render_page(
    title: str, subtitle: str, answers: Sequence[Answer], systems: Sequence[str] = ()
) -> str:
    """Render the whole document, a section an answer; the section of the results is open.

    systems: have the colours in which charts draw them, in this order.
    """
    return fill_template(
        Path(__file__).parent / "page",
        title=title,
        subtitle=subtitle,
        answers=answers,
        headline=[text for answer in answers for text in answer.sentences] or [NOTHING_COMPARED],
        warnings=dict.fromkeys(text for answer in answers for text in answer.warnings),
        version=__version__,
        blocks=_blocks,
        kind=lambda part: type(part).__name__,
        articles=_articles,
        colours={name: COLORS[place % len(COLORS)] for place, name in enumerate(systems)},
        sortable=_sortable,
        coloured=_coloured,
    )


def _title(inputs: Inputs, answers: Sequence[Answer]) -> str:
    asked = {answer.name for answer in answers}
    names = list(inputs.named_systems) if "results" in asked else []
    names = names or list(inputs.named_logs)
    if not names:
        return "Report"
    if len(names) > MOST_NAMES:
        return f"Comparison of {len(names)} systems"
    if len(names) == 1:
        return f"Report on {names[0]}"
    return f"Comparison of {', '.join(names[:-1])} and {names[-1]}"


def _blocks(answer: Answer) -> list[tuple[str, list[Part]]]:
    """Group parts by the title under which they are folded; those that are not come first."""
    ordered = sorted(answer.parts, key=lambda part: bool(getattr(part, "folded", "")))
    groups = groupby(ordered, key=lambda part: getattr(part, "folded", ""))
    return [(title, list(parts)) for title, parts in groups]


def _articles(passages: Passages) -> list[tuple[Passage, list[str]]]:
    """Return each passage once, with its kinds; those that only links lead to have none."""
    articles: dict[tuple[str, str], tuple[Passage, list[str]]] = {}
    for kind, group in (*passages.kinds.items(), ("", passages.more)):
        for passage in group:
            key = passage.title, repr(passage.lines)
            articles.setdefault(key, (passage, []))[1].extend([kind] if kind else [])
    return list(articles.values())


def _sortable(cell: Cell) -> str | None:
    """Return the number to sort by, for the script."""
    return f"{cell.sort:.6g}" if cell.sort is not None and isfinite(cell.sort) else None


def _coloured(table: Table) -> bool:
    styles = {cell.style for group in table.groups for row in group for cell in row}
    return bool(styles & {"good", "bad"})

"""Binds the answers to all questions into one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simile_plugin.report.page import Page, PageSection, render_page
from simile_plugin.report.page_answer import answer_quality, answer_ratings, answer_results
from simile_plugin.report.page_sections import (
    page_curves,
    page_provenance,
    page_ratings,
    page_results,
)
from simile_plugin.report.provenance import describe_files, describe_trainings
from simile_plugin.report.results_table import UNKNOWN_LIMIT

MOST_NAMES = 6  # in a title
ORDER = (
    *("results", "human", "examples", "curves", "nbest", "costs", "lexical", "quality", "gaming"),
)


@dataclass(frozen=True)
class Made:
    """How a report is made, for the page to say.

    Attributes:
        files: role -> paths (the reference; each system's outputs).
        logs: system -> training logs.
        left_out: what was found and not used, with the reason.
    """

    command: str
    files: Mapping[str, tuple[str, ...]]
    logs: Mapping[str, tuple[str, ...]]
    title: str | None = None
    date: str | None = None
    left_out: tuple[str, ...] = ()


def report_page(found: Mapping[str, Any], made: Made) -> str:
    """The HTML of everything that was found: question -> result of its analysis."""
    sections = [_section(name, found[name]) for name in ORDER if name in found]
    facts = [f"date: {made.date}"] if made.date else []
    if results := found.get("results"):
        facts.append(f"tests: {results.test.describe()}; the seed is that of the resampling")
        facts += [f"{names}: {signature}" for names, signature in results.signatures.items()]
    facts += [f"left out: {text}" for text in made.left_out]
    files, trainings = describe_files(made.files), describe_trainings(made.logs)
    sections.append(page_provenance(files, trainings, facts, made.command))
    page = Page(
        made.title or _title(found, made),
        _subtitle(found, made),
        tuple(_answer(found)),
        tuple(_warnings(found)),
        tuple(sections),
    )
    return render_page(page)


def _section(name: str, result: Any) -> PageSection:
    # The others import matplotlib: only who asks for them waits for it.
    if name == "results":
        return page_results(result)
    if name == "human":
        return page_ratings(result)
    if name == "curves":
        from simile_plugin.report.curves_figure import curves_figure

        return page_curves(result, curves_figure(result))
    from simile_plugin.report import page_details

    pages: dict[str, Callable[[Any], PageSection]] = {
        "costs": page_details.page_costs,
        "nbest": page_details.page_nbest,
        "lexical": page_details.page_lexical,
        "examples": page_details.page_examples,
        "quality": page_details.page_quality,
        "gaming": page_details.page_gaming,
    }
    return pages[name](result)


def _title(found: Mapping[str, Any], made: Made) -> str:
    names = [system.name for system in found["results"].systems] if "results" in found else []
    names = names or list(made.logs)
    if not names:
        return "Quality of metrics" if "quality" in found else "Report"
    if len(names) > MOST_NAMES:
        return f"Comparison of {len(names)} systems"
    if len(names) == 1:
        return f"Report on {names[0]}"
    return f"Comparison of {', '.join(names[:-1])} and {names[-1]}"


def _subtitle(found: Mapping[str, Any], made: Made) -> str:
    parts = []
    if results := found.get("results"):
        outputs = sum(len(system.files) for system in results.systems)
        parts.append(_count(len(results.systems), "system"))
        if outputs > len(results.systems):
            parts[-1] += f" ({_count(outputs, 'output')})"
        parts.append(f"{_count(results.sentences, 'sentence')} of {results.reference}")
    elif made.logs:
        parts.append(_count(sum(map(len, made.logs.values())), "training log"))
    return ", ".join([*parts, *([made.date] if made.date else [])])


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _answer(found: Mapping[str, Any]) -> list[str]:
    sentences = []
    if results := found.get("results"):
        sentences += answer_results(results)
    if ratings := found.get("human"):
        sentences += answer_ratings(ratings)
    if quality := found.get("quality"):
        sentences += answer_quality(quality)
    return sentences or ["No outputs were compared: the sections below stand for themselves."]


def _warnings(found: Mapping[str, Any]) -> list[str]:
    warnings = []
    results = found.get("results")
    if results and results.unknown_share > UNKNOWN_LIMIT:
        warnings.append(
            f"The encoder does not know {results.unknown_share:.0%} of the pieces: SIM and SIMILE "
            "say little here."
        )
    if gaming := found.get("gaming"):
        warnings += gaming.warnings
    return warnings

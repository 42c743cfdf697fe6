"""All that recipes/gpu/run.sh has found, in one markdown table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recipes.gpu.cells import load
from simile_plugin.files import atomic_write
from simile_plugin.significance import markdown_table

COLUMNS = ("part", "cell", "found", "s")


def facts(result: dict[str, Any], before: str = "") -> list[str]:
    """What a cell found, "name value"; what is nested with the names above it."""
    found = []
    for name, value in result.items():
        if isinstance(value, dict):
            found += facts(value, f"{before}{name} ")
        elif isinstance(value, float):
            found.append(
                f"{before}{name} {value:,.3g}"
                if abs(value) < 100
                else f"{before}{name} {value:,.0f}"
            )
        elif value is not None and value != []:
            found.append(f"{before}{name} {value}")
    return found


def sides(result: dict[str, Any]) -> dict[str, Any]:
    """An update's cell with its sides' times in one line, and ours beside the others."""
    if "sides" not in result:
        return result
    shown = {}
    for side, found in result["sides"].items():
        if found is None:
            shown[side] = "out of memory"
            continue
        ours = result["sides"]["ours"]
        ratio = f" (ours: {ours['total'] / found['total']:.2f})" if ours and side != "ours" else ""
        peak = "" if found["peak_gb"] is None else f", {found['peak_gb']:.2f} GB"
        shown[side] = f"{found['total']:.3f} s{peak}{ratio}"
    return shown | {name: value for name, value in result.items() if name != "sides"}


def rows_of(results: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row a cell: part, cell, what it found, seconds."""
    rows = []
    for part, cells in results.items():
        for name, result in cells.items():
            shown = {k: v for k, v in sides(result).items() if k != "seconds"}
            found = "; ".join(facts(shown)).split("\n")[0]  # of an error; all of it is in the JSON
            rows.append((part, name, found, f"{result['seconds']:g}"))
    return rows


def write_page(work: Path, parts: list[str], rehearsed: bool) -> None:
    """Write WORK/results.md."""
    rows = rows_of(load(work / "results.json"))
    failed = [
        f"{part}, {cell}: {found}" for part, cell, found, _ in rows if found.startswith("error")
    ]
    absent = [part for part in parts if not any(row[0] == part for row in rows)]
    title = "Rehearsed on a CPU in miniature: no figure counts" if rehearsed else "On a GPU"
    sentences = [f"{len(rows) - len(failed)} cells of {len(parts) - len(absent)} parts are done."]
    if absent:
        sentences.append(f"Not begun: {', '.join(absent)}.")
    sentences += [f"Failed: {text}" for text in failed]
    with atomic_write(work / "results.md") as out:
        out.write(f"# {title}\n\n{' '.join(sentences)}\n\n{markdown_table([COLUMNS, *rows])}\n")
    print(f"{work / 'results.md'}: {' '.join(sentences)}")

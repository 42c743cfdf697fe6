"""Draw the gains over MLE of results.md, a row a system, as docs/pictures/gains.svg.

forest.py recipes/evidence/results.md docs/pictures/gains.svg

Left: BLEU, a dot a seed and a bar at their mean. Right: SIM, the seeds' mean. Every gain is over
the MLE model that the system started from. Only rows of today's setting (600 updates or an
evening's, alpha 0.3) and of the Transformer-base are drawn.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from simile_plugin.files import InputError, as_script, read_lines

# What --preset long --seeds 3 makes.
EVENING = ", 2,400 updates, mean of the seeds' weights"
# Rows of results.md, by the name that the picture gives them.
SYSTEMS = {
    "noise": "a random reward",
    "likelihood alone (more-mle)": "likelihood, as many updates",
    "likelihood alone": "likelihood, as many updates",
    "1 - BLEU": "BLEU as the reward",
    "half": "half (the default)",
    f"half{EVENING}": "half, an evening",
}
COLOURS = dict(
    zip(dict.fromkeys(SYSTEMS.values()), ("gray", "gray", "blue", "red", "red"), strict=True)
)
TEST = "test: BLEU (seeds)"
BASE = "A Transformer-base of 32,000 pieces"
# Title in the picture; heading of results.md, its MLE row, and the columns of BLEU and SIM.
TEST_SETS = (
    ("French captions, test", "Multi30k French-English", "*MLE, model 3*", TEST, "SIM"),
    ("German captions, test", "Multi30k German-English", "*MLE, model 2*", TEST, "SIM"),
    ("Tatoeba German, test", "Tatoeba German-English", "*MLE, model 1*", TEST, "SIM"),
    ("News German, Transformer-base", BASE, "MLE", "newstest2018: BLEU (seeds)", "SIM"),
)
ROW, HEAD, LABEL, PANEL, GAP = 17, 30, 300, 300, 50
STYLE = """
svg { font: 13px system-ui, sans-serif; fill: #1f2328; background: #ffffff; }
.gray { fill: #6e7781; stroke: #6e7781; } .blue { fill: #0969da; stroke: #0969da; }
.red { fill: #cf222e; stroke: #cf222e; } .line { stroke: #d0d7de; } .zero { stroke: #57606a; }
.dot { fill-opacity: 0.35; stroke: none; } .title { font-weight: 600; }
text { stroke: none; } .label { fill: #1f2328; }
@media (prefers-color-scheme: dark) {
svg { fill: #e6edf3; background: #0d1117; } .label { fill: #e6edf3; }
.gray { fill: #9198a1; stroke: #9198a1; } .blue { fill: #58a6ff; stroke: #58a6ff; }
.red { fill: #ff7b72; stroke: #ff7b72; } .line { stroke: #30363d; } .zero { stroke: #9198a1; } }
"""


@dataclass
class Gains:
    """Gains of one system on one test set, in points."""

    system: str
    seeds: list[float]
    bleu: float
    sim: float


def tables_of(path: Path) -> dict[str, list[dict[str, str]]]:
    """Map each heading of ``path`` to the rows of its first table, cells by column.

    A column of a name that has been before gets a number: "SIM", "SIM 2".
    """
    tables: dict[str, list[dict[str, str]]] = {}
    heading, columns = "", list[str]()
    for line in read_lines(path, "RESULTS.md"):
        if line.startswith("#"):
            heading, columns = line.lstrip("# "), []
        elif line.startswith("|") and heading:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not columns and heading not in tables:
                columns = list(numbered(cells))
                tables[heading] = []
            elif columns and not cells[1].startswith("--"):
                tables[heading].append(dict(zip(columns, cells, strict=True)))
        else:
            columns = []
    return tables


def table_of(path: Path, heading: str) -> list[dict[str, str]]:
    """Rows of the first table under a heading of ``path``.

    Raises:
        InputError: if there is none.
    """
    tables = tables_of(path)
    if heading not in tables:
        raise InputError(f"{path}: got no table under a heading {heading!r}, expected one")
    return tables[heading]


def numbered(names: list[str]) -> Iterator[str]:
    """Yield ``names``, a repeated one with its count."""
    for index, name in enumerate(names):
        count = names[: index + 1].count(name)
        yield name if count == 1 else f"{name} {count}"


def first_number(cell: str) -> float:
    """Read the mean of a cell such as "39.98 ‡ (40.1, 40.2, 39.6)"."""
    match = re.match(r"-?\d+\.\d+", cell)
    if match is None:
        raise InputError(f"got the cell {cell!r}, expected a number")
    return float(match[0])


def seed_scores(cell: str) -> list[float]:
    """Read the seeds of a cell; where it has none, its mean."""
    seeds = re.search(r"\(([\d., -]+)\)", cell)
    return [float(seed) for seed in seeds[1].split(",")] if seeds else [first_number(cell)]


def is_todays(row: dict[str, str]) -> bool:
    """Tell whether a row is of alpha 0.3, and of 600 updates or an evening's, if it says so."""
    setting = row.get("updates, alpha", row.get("alpha", ""))
    if next(iter(row.values())).endswith(EVENING):
        return setting == "2,400, 0.3"
    return setting in ("", "600", "0.3", "600, 0.3")


def block_gains(rows: list[dict[str, str]], mle: str, bleu: str, sim: str) -> list[Gains]:
    """Gains of the rows between the MLE row ``mle`` and the next one, in the order of SYSTEMS."""
    names = [next(iter(row.values())) for row in rows]
    if mle not in names:
        raise InputError(f"got no row {mle!r} in the table, expected the MLE model of its systems")
    start = names.index(mle)
    base, gains = rows[start], list[Gains]()
    for name, row in zip(names[start + 1 :], rows[start + 1 :], strict=True):
        if "MLE, model" in name:
            break
        if name in SYSTEMS and is_todays(row):
            before = first_number(base[bleu])
            seeds = [score - before for score in seed_scores(row[bleu])]
            meaning = first_number(row[sim]) - first_number(base[sim])
            mean = first_number(row[bleu]) - before
            gains.append(Gains(SYSTEMS[name], seeds, mean, meaning))
    order = list(COLOURS)
    return sorted(gains, key=lambda each: order.index(each.system))


def text(x: float, y: float, words: str, style: str = "label", anchor: str = "start") -> str:
    """One element of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def panel(left: float, low: float, high: float, top: float, bottom: float, name: str) -> list[str]:
    """Grid lines and numbers of one panel, a line a point."""
    parts = [text(left + PANEL / 2, top - 22, name, "title label", "middle")]
    for tick in range(math.ceil(low), math.floor(high) + 1):
        x = left + PANEL * (tick - low) / (high - low)
        style = "zero" if tick == 0 else "line"
        parts.append(f'<line x1="{x:g}" x2="{x:g}" y1="{top}" y2="{bottom}" class="{style}"/>')
        parts.append(text(x, top - 6, f"{tick:+d}" if tick else "0", anchor="middle"))
    return parts


def draw(groups: list[tuple[str, list[Gains]]]) -> str:
    """The picture of groups of gains, each with its title."""
    top, low, high = 56, -3.25, 2.25
    rows = sum(len(gains) for _, gains in groups)
    bottom = top + rows * ROW + len(groups) * HEAD
    right = LABEL + PANEL + GAP
    width, height = right + PANEL + 20, bottom + 10
    parts = [
        *panel(LABEL, low, high, top, bottom, "BLEU gained over MLE (dots: seeds)"),
        *panel(right, low, high, top, bottom, "SIM gained over MLE"),
    ]

    def place(left: float, gain: float) -> float:
        return left + PANEL * (gain - low) / (high - low)

    y = float(top)
    for title, gains in groups:
        y += HEAD
        parts.append(text(0, y - 8, title, "title label"))
        for each in gains:
            colour, middle = COLOURS[each.system], y + ROW / 2 - 2
            parts.append(text(14, middle + 4, each.system))
            for seed in each.seeds:
                x = place(LABEL, seed)
                parts.append(f'<circle cx="{x:g}" cy="{middle}" r="5" class="{colour} dot"/>')
            for left, gain in ((LABEL, each.bleu), (right, each.sim)):
                x = place(left, gain) - 2
                parts.append(
                    f'<rect x="{x:g}" y="{middle - 6}" width="4" height="12" class="{colour}"/>'
                )
            y += ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" '
        f'role="img" aria-label="Gains over MLE by system and test set">'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def main(arguments: list[str]) -> None:
    """Write the picture; see the module's docstring."""
    if len(arguments) != 2:
        raise InputError("expected RESULTS.md and PICTURE.svg")
    results = Path(arguments[0])
    groups = [
        (title, block_gains(table_of(results, heading), mle, bleu, sim))
        for title, heading, mle, bleu, sim in TEST_SETS
    ]
    Path(arguments[1]).write_text(draw(groups), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(as_script(main)(sys.argv[1:]))

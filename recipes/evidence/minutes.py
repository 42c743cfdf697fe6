"""Draw what more minutes of training gain, a line a corpus, as docs/pictures/minutes.svg.

python -m recipes.evidence.minutes docs/results.md docs/pictures/minutes.svg

Left: BLEU, right: USE, a judge that no reward has seen. A row of the table "What more time buys"
whose name has "likelihood" is of the control, in gray; a cell is "+1.24 ‡, +1.06 †": test, heldout.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

from recipes.evidence.forest import STYLE, table_of, text
from simile_plugin.files import InputError, as_script

HEADING = "What more time buys"
# Title of a panel; of each corpus its name, its column of the table, and its colour.
PANELS = (
    (
        "BLEU gained over MLE",
        (("German", "German, model 2: BLEU", "red"), ("French", "French, model 3: BLEU", "blue")),
    ),
    ("USE gained over MLE", (("German", "USE", "red"), ("French", "USE 2", "blue"))),
)
WIDTH, HEIGHT, LEFT, TOP, BETWEEN = 330, 260, 40, 40, 110
LOW, HIGH, LAST = -1.0, 2.25, 150  # gains, in points; minutes
LINES = ".curve { fill: none; stroke-width: 2; } .heldout { stroke-dasharray: 4 4; }\n"

Curve = list[tuple[float, float]]


def curves(rows: list[dict[str, str]], column: str, control: bool) -> tuple[Curve, Curve]:
    """(minutes, gain) on test and on heldout, from no training at all on."""
    test, heldout = [(0.0, 0.0)], [(0.0, 0.0)]
    for row in sorted(rows, key=lambda row: float(row["minutes"])):
        if ("likelihood" in next(iter(row.values()))) == control:
            gains = re.findall(r"[+-]\d+\.\d+", row[column])
            if len(gains) != 2:
                raise InputError(f"got the cell {row[column]!r}, expected two gains")
            for curve, gain in zip((test, heldout), gains, strict=True):
                curve.append((float(row["minutes"]), float(gain)))
    return test, heldout


def draw_panel(left: float, title: str, lines: list[tuple[str, str, Curve, Curve]]) -> list[str]:
    """Axes and curves of one panel; each line has a name, a colour and its two curves."""

    def place(minutes: float, gain: float) -> tuple[float, float]:
        x = left + WIDTH * minutes / LAST
        return round(x, 1), round(TOP + HEIGHT * (HIGH - gain) / (HIGH - LOW), 1)

    parts = [text(left + WIDTH / 2, TOP - 18, title, "title label", "middle")]
    for tick in range(math.ceil(LOW), math.floor(HIGH) + 1):
        y = place(0, tick)[1]
        style = "line" if tick else "zero"
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y}" y2="{y}" class="{style}"/>')
        parts.append(text(left - 6, y + 4, f"{tick:+d}" if tick else "0", anchor="end"))
    for minutes in range(0, LAST + 1, 30):
        x = place(minutes, 0)[0]
        parts.append(text(x, TOP + HEIGHT + 16, str(minutes), anchor="middle"))
    parts.append(
        text(left + WIDTH / 2, TOP + HEIGHT + 34, "minutes of one CPU core", anchor="middle")
    )
    for name, colour, test, heldout in lines:
        for curve, style in ((heldout, " heldout"), (test, "")):
            points = " ".join("{},{}".format(*place(*point)) for point in curve)
            parts.append(f'<polyline points="{points}" class="{colour} curve{style}"/>')
        for point in test[1:]:
            x, y = place(*point)
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" class="{colour}"/>')
        x, y = place(*test[-1])
        # Two curves that end at one height have their names above and below it.
        highest = max(other[2][-1][1] for other in lines if other[2][-1][0] == test[-1][0])
        parts.append(text(x + 8, y + (-3 if test[-1][1] == highest else 13), name))
    return parts


def draw(rows: list[dict[str, str]]) -> str:
    """The picture of the table's rows."""
    parts = []
    for index, (title, corpora) in enumerate(PANELS):
        lines = []
        for control in (False, True):
            for name, column, colour in corpora:
                label = f"{name}, likelihood" if control else name
                shade = "gray" if control else colour
                lines.append((label, shade, *curves(rows, column, control)))
        parts += draw_panel(LEFT + index * (WIDTH + BETWEEN), title, lines)
    width, height = LEFT + 2 * (WIDTH + BETWEEN), TOP + HEIGHT + 66
    note = "half as the reward; line: first test set, dashes: second test set; gray: likelihood"
    parts.append(text(LEFT, height - 8, note))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Gain over MLE by minutes of training"><style>{STYLE}{LINES}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main(arguments: list[str]) -> None:
    """Write the picture; see the module's docstring."""
    if len(arguments) != 2:
        raise InputError("expected docs/results.md and PICTURE.svg")
    rows = table_of(Path(arguments[0]), HEADING)
    Path(arguments[1]).write_text(draw(rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(as_script(main)(sys.argv[1:]))

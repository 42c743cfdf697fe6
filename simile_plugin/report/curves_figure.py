"""The validation curves as a picture with two panels, and as text."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simile_plugin.files import InputError, atomic_write
from simile_plugin.report.curves import Curve, Curves
from simile_plugin.statistics import (
    COLORS,
    DASHES,
    MARKERS,
    STYLE,
    Grid,
    markdown_table,
    render_svg,
    text_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"cost_bleu": "Expected BLEU cost", "cost_simile": "Expected SIMILE cost"}
FORMATS = ("svg", "png")
BLOCKS = "▁▂▃▄▅▆▇█"
MARKERS_PER_LINE = 12
FILE_STYLE: Any = {
    **STYLE,
    "svg.fonttype": "path",  # letters as shapes: the same picture on every machine
    "svg.hashsalt": "simile",  # the same file from the same numbers
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


def check_picture_path(path: str) -> str:
    """The format of a picture by its name: svg or png.

    Raises:
        ValueError: for another ending.
    """
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise InputError(f"--svg: got {path}; expected a name that ends in .svg (or .png)")
    return kind


def write_figure(curves: Curves, path: str) -> None:
    """Draw one panel per cost, lines by system, bands from lowest to highest seed; atomically.

    Raises:
        ValueError: if `path` does not end in .svg or .png.
        OSError: if it cannot be written.
    """
    kind = check_picture_path(path)
    # matplotlib is slow to import, and with a terminal's backend it would want a display.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(FILE_STYLE):
        figure = Figure(figsize=_size(curves), layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure, curves)
        with atomic_write(path, "wb") as stream:
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(stream, format=kind, dpi=150, metadata=metadata)


def curves_figure(curves: Curves) -> str:
    """The same picture as inline SVG for a page."""
    costs = " and ".join(TITLES[cost] for cost in curves.costs)
    label = f"Validation by update: {costs}, of {', '.join(curves.files)}"
    return render_svg(label, _size(curves), partial(_draw, curves=curves))


def _size(curves: Curves) -> tuple[float, float]:
    return 5.0 * len(curves.costs), 4.2


def _draw(figure: Figure, curves: Curves) -> None:
    panels = figure.subplots(1, len(curves.costs), squeeze=False)[0]
    handles: dict[str, Any] = {}
    for panel, (cost, systems) in zip(panels, curves.costs.items(), strict=True):
        handles |= _draw_panel(panel, TITLES[cost], systems, list(curves.files))
    names = [name for name in curves.files if name in handles]
    several = any(len(files) > 1 for files in curves.files.values())
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=min(4, len(names)),
        frameon=False,
        handlelength=3.5,
        title="lines: mean of seeds, bands: lowest to highest seed" if several else None,
        title_fontsize=9,
    )


def _draw_panel(
    panel: Any, title: str, systems: dict[str, Curve], order: list[str]
) -> dict[str, Any]:
    """Draw one cost; returns a line a system for the legend."""
    from matplotlib.ticker import MaxNLocator

    lines = {}
    for name, curve in systems.items():
        place = order.index(name)
        color = COLORS[place % len(COLORS)]
        (lines[name],) = panel.plot(
            curve.updates,
            curve.mean,
            color=color,
            marker=MARKERS[place % len(MARKERS)],
            linestyle=DASHES[place % len(DASHES)],
            linewidth=1.8,
            markersize=6,
            markeredgecolor="white",
            markeredgewidth=0.7,
            markevery=max(1, -(-len(curve.updates) // MARKERS_PER_LINE)),
        )
        if len(curve.seeds) > 1:
            panel.fill_between(
                curve.updates, curve.low, curve.high, color=color, alpha=0.2, linewidth=0
            )
    panel.set_title(title, loc="left", fontsize=12)
    panel.set_xlabel("Update")
    panel.set_ylabel("Validation cost, lower is better")
    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    panel.grid(axis="y")
    return lines


def sparkline(curve: Curve, low: float, high: float) -> str:
    """One block per update, from `low` (lowest block) to `high`, of the seeds' mean."""
    steps = len(BLOCKS) - 1
    span = (high - low) or 1.0
    return "".join(BLOCKS[round((value - low) / span * steps)] for value in curve.mean)


def curve_grid(cost: str, systems: dict[str, Curve], width: int = 40) -> Grid:
    """A line a system: first, lowest (with its update) and last value, and the shape."""
    values = [value for curve in systems.values() for value in curve.mean]
    shapes = [
        sparkline(_thin(curve, width), min(values), max(values)) for curve in systems.values()
    ]
    longest = max(map(len, shapes))
    grid = [
        [f"{TITLES[cost]}, validation", "Seeds", "First", "Lowest", "At update", "Last", "Shape"]
    ]
    grid[0][-1] = f"{grid[0][-1]:<{longest}}"
    for (name, curve), shape in zip(systems.items(), shapes, strict=True):
        mean = curve.mean
        best = min(range(len(mean)), key=mean.__getitem__)
        numbers = [f"{mean[0]:.4f}", f"{mean[best]:.4f}", f"{curve.updates[best]:,}"]
        row = [name, str(len(curve.seeds)), *numbers, f"{mean[-1]:.4f}", f"{shape:<{longest}}"]
        grid.append(row)
    return grid


def _thin(curve: Curve, width: int) -> Curve:
    """At most `width` updates, evenly chosen, the first and the last among them."""
    count = len(curve.updates)
    if count <= width:
        return curve
    kept = [round(i * (count - 1) / (width - 1)) for i in range(width)]
    return Curve(
        tuple(curve.updates[i] for i in kept),
        tuple(tuple(seed[i] for i in kept) for seed in curve.seeds),
    )


def format_curves(curves: Curves) -> str:
    """Both costs for a terminal, and the notes."""
    tables = [text_table(curve_grid(cost, systems)) for cost, systems in curves.costs.items()]
    return "\n\n".join([*tables, *(["\n".join(curves.notes)] if curves.notes else [])]) + "\n"


def render_markdown(curves: Curves, picture: str | None = None) -> str:
    """Both costs in markdown, with the picture if there is one."""
    parts = ["## Validation costs by update"]
    if picture is not None:
        parts.append(f"![Expected BLEU cost and expected SIMILE cost by update]({picture})")
    parts += [markdown_table(curve_grid(cost, systems)) for cost, systems in curves.costs.items()]
    parts += ["\n".join(f"- {note}" for note in curves.notes)] if curves.notes else []
    return "\n\n".join(parts) + "\n"


def picture_link(picture: str, document: str) -> str:
    """Path of the picture as seen from the folder of the document."""
    return os.path.relpath(picture, os.path.dirname(document) or ".").replace(os.sep, "/")

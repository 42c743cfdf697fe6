"""Charts by matplotlib: inline SVG that takes its ink from the page around it, or a file."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#010203"  # becomes currentColor; in a file it is black
GRID = "#8080804d"
EDGE = "#808080"
# Near to those of Okabe & Ito, for colour-blind readers; markers and dashes serve grey ones.
COLORS = (
    "#1A80C4",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#8E6C3A",
    "#56B4E9",
    "#E69F00",
    "#7A5BC7",
    "#808080",
    "#B5406F",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
MARKERS_PER_LINE = 12
WIDE = 9.5  # inches: as wide as the text of a page
LONGEST_LABEL = 28  # characters of a name beside its row
STYLE: Any = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 11,
    "text.parse_math": False,  # a $ in a system's name is a $
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.08,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    ),
}
FILE_STYLE: Any = {
    **STYLE,
    "svg.fonttype": "path",  # letters as shapes: the same picture on every machine
    "svg.hashsalt": "simile",  # the same file from the same numbers
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


@dataclass(frozen=True)
class Chart:
    """A picture that is drawn when it is wanted: matplotlib is slow to import.

    Attributes:
        label: what it shows, for readers who cannot see it.
        size: (width, height) in inches.
        draw: draws it into an empty figure.
    """

    label: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]

    def inline(self) -> str:
        """Return one `<svg>` element for a page: text stays text, the ground is transparent.

        Ink is `currentColor`, nothing in it acts on the page, and its ids are unlike those of
        charts with another label.
        """
        stream = io.StringIO()
        self._save(stream, "svg", {**STYLE, "svg.fonttype": "none", "svg.hashsalt": self.label})
        text = stream.getvalue()
        text = re.sub(r"<metadata>.*?</metadata>\s*|<style\b.*?</style>\s*", "", text, flags=re.S)
        text = re.sub(r'(<g) id="[^"]*"', r"\1", text[text.index("<svg") :])
        text = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href=", "href=")
        text = text.replace(' target="_blank"', "")
        head, _, rest = text.partition(">")
        head = re.sub(r'\s(width|height|version)="[^"]*"', "", head)
        named = f'{head} role="img" aria-label="{escape(self.label)}">'
        return (named + rest).replace(INK, "currentColor").strip()

    def write(self, stream: IO[bytes], kind: str) -> None:
        """Write it as a file of its own, `kind` svg or png; the same bytes every time."""
        self._save(stream, kind, FILE_STYLE)

    def _save(self, stream: IO[Any], kind: str, style: Any) -> None:
        # With a terminal's backend matplotlib would want a display.
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        with matplotlib.rc_context(style), warnings.catch_warnings():
            if style is not FILE_STYLE:  # text stays text: the reader has fonts of his own
                warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure = Figure(figsize=self.size, layout="constrained")
            FigureCanvasAgg(figure)
            self.draw(figure)
            clear, dated = style is not FILE_STYLE, {"Date": None} if kind == "svg" else None
            figure.savefig(stream, format=kind, dpi=150, transparent=clear, metadata=dated)


@dataclass(frozen=True)
class Line:
    """A line of a chart; low and high, if any, are the edges of its band."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """Axes with lines by name; levels are horizontal lines by name."""

    title: str
    lines: Mapping[str, Line]
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)


def line_chart(
    label: str,
    panels: Sequence[Panel],
    x_label: str,
    y_label: str = "",
    legend: str | None = None,
    powers: Sequence[int] = (),
    order: Sequence[str] = (),
) -> Chart:
    """Panels beside each other; a name has one colour, marker and dash in all of them.

    legend: its title. powers: the ticks of x on a scale of powers of two, else whole numbers.
    order: names that have the first colours, shown here or elsewhere.
    """

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        names = list(dict.fromkeys([*order, *(name for panel in panels for name in panel.lines)]))
        handles: dict[str, Any] = {}
        for axes, panel in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            for name, line in panel.lines.items():
                handles[name] = _draw_line(axes, line, names.index(name))
            for name, heights in panel.levels.items():
                for height in heights:
                    handles[name] = axes.axhline(height, color=EDGE, linestyle="--", linewidth=1.2)
            axes.set_title(panel.title, loc="left", fontsize=12)
            axes.set_xlabel(x_label)
            axes.grid(axis="y")
            if powers:
                axes.set_xscale("log", base=2)
                axes.set_xticks(powers, [str(power) for power in powers])
                axes.minorticks_off()
            else:
                axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        figure.axes[0].set_ylabel(y_label)
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(4, len(handles)),
            frameon=False,
            handlelength=3.5,
            title=legend,
            title_fontsize=9,
        )

    return Chart(label, ((5.0 if len(panels) < 3 else 3.5) * len(panels), 4.2), draw)


def _draw_line(axes: Any, line: Line, place: int) -> Any:
    color = COLORS[place % len(COLORS)]
    (drawn,) = axes.plot(
        line.x,
        line.y,
        color=color,
        marker=MARKERS[place % len(MARKERS)],
        linestyle=DASHES[place % len(DASHES)],
        linewidth=1.8,
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.7,
        markevery=max(1, -(-len(line.x) // MARKERS_PER_LINE)),
    )
    if line.low:
        axes.fill_between(line.x, line.low, line.high, color=color, alpha=0.2, linewidth=0)
    return drawn


@dataclass(frozen=True)
class Bar:
    """A row of an interval chart: value, its interval, and single values (seeds, say)."""

    name: str
    value: float
    low: float
    high: float
    points: Sequence[float] = ()


def interval_chart(
    label: str,
    panels: Mapping[str, Sequence[Bar]],
    line: float | None = None,
    coloured: bool = False,
) -> Chart:
    """Panels beside each other, by title; a dot with its interval in each row.

    Small circles are the single values; line: where a dashed one stands; coloured: a colour a row.
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for where, (title, bars) in zip(axes, panels.items(), strict=True):
            for row, bar in enumerate(bars):
                color = COLORS[row % len(COLORS) if coloured else 0]
                where.plot([bar.low, bar.high], [row, row], color=color, linewidth=2)
                where.plot([bar.value], [row], "o", color=color, markersize=7)
                circles = list(bar.points) if len(bar.points) > 1 else []
                where.plot(circles, [row] * len(circles), "o", color=INK, mfc="none", ms=4)
            if line is not None:
                where.axvline(line, color=EDGE, linestyle="--", linewidth=1.2)
            where.set_yticks(range(len(bars)), [_short(bar.name) for bar in bars])
            where.set_ylim(len(bars) - 0.5, -0.5)
            where.set_title(title, loc="left", fontsize=12)
            where.grid(axis="x")

    rows = max(len(bars) for bars in panels.values())
    return Chart(
        label, (WIDE if len(panels) == 1 else 2.0 + 4.6 * len(panels), 1.0 + 0.34 * rows), draw
    )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"

"""Pictures for a page: inline SVG that takes its ink from the text around it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#010203"  # becomes currentColor; in a file it is black
GRID = "#8080804d"
# Near to those of Okabe & Ito, for colour-blind readers; markers and dashes serve grey ones.
COLORS = ("#1A80C4", "#D55E00", "#009E73", "#CC79A7", INK, "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
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


def render_svg(label: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """Draw a figure of (width, height) inches as one `<svg>` element for a page.

    Text stays text, the background is transparent, ink is `currentColor`, and ids are unlike
    those of other pictures (of another label). label: what the picture shows, for readers who
    cannot see it.
    """
    # matplotlib is slow to import, and with a terminal's backend it would want a display.
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings = {**STYLE, "svg.fonttype": "none", "svg.hashsalt": label}
    with matplotlib.rc_context(settings), io.StringIO() as stream:
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
        return _inline(stream.getvalue(), label)


def _inline(document: str, label: str) -> str:
    """The svg element of a document, without what would act on or clash with the page's."""
    text = document[document.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*|<style\b.*?</style>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(<g) id="[^"]*"', r"\1", text)
    head, _, rest = text.partition(">")
    head = re.sub(r'\s(width|height|version)="[^"]*"', "", head)
    style = "max-width:100%;height:auto;stroke-linejoin:round;stroke-linecap:butt"
    named = f'{head} role="img" aria-label="{escape(label)}" style="{style}">'
    return (named + rest).replace(INK, "currentColor").strip()

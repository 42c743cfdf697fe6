"""Draw one update of minimum risk training as docs/pictures/method.svg.

method.py docs/pictures/method.svg

The sentence is our own; candidates and scores are those of recipes/multi30k's German model: beam
search, N = 8 (five are drawn), Q at --risk-alpha 0.3, reward half with the encoder `default`.
"""

from __future__ import annotations

import sys
from pathlib import Path

SOURCE = "Eine Frau verkauft frisches Obst auf dem Markt."
REFERENCE = "A woman is selling fresh fruit at the market."
# Candidate, Q, BLEU, SIMILE; half is the mean of the last two.
CANDIDATES = (
    ("A woman selling fresh fruit at the market.", 0.242, 0.74, 0.96),
    ("A woman is selling fresh fruit at the market.", 0.163, 1.00, 1.00),
    ("A woman sell fresh fruit at the market.", 0.109, 0.63, 0.91),
    ("A woman selling fresh fruit on the market.", 0.107, 0.38, 0.95),
    ("A woman selling fresh fruit fruit at the market.", 0.099, 0.62, 0.95),
)
EXPECTED = 0.80  # the reward expected under Q, of all eight
STYLE = """
svg { font: 14px system-ui, sans-serif; background: #ffffff; } text { fill: #1f2328; }
.dim { fill: #57606a; } .head { font-weight: 600; } .bar { fill: #afb8c1; }
.up { fill: #1a7f37; font-weight: 600; } .down { fill: #cf222e; font-weight: 600; }
.rule { stroke: #d0d7de; }
@media (prefers-color-scheme: dark) { svg { background: #0d1117; } text { fill: #e6edf3; }
.dim { fill: #9198a1; } .bar { fill: #484f58; } .up { fill: #3fb950; } .down { fill: #ff7b72; }
.rule { stroke: #30363d; } }
"""


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    """One element of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{words}</text>'


def draw() -> str:
    """The picture: a source, its candidates with Q and reward, and where each one moves."""
    parts = [
        text(10, 28, "source", "dim"),
        text(110, 28, SOURCE),
        text(10, 52, "reference", "dim"),
        text(110, 52, REFERENCE),
        '<line x1="10" x2="860" y1="66" y2="66" class="rule"/>',
        text(10, 92, "the model's candidates", "head"),
        text(395, 92, "probability", "head"),
        text(540, 92, "BLEU", "head", "middle"),
        text(610, 92, "SIMILE", "head", "middle"),
        text(690, 92, "reward", "head", "middle"),
        text(745, 92, "the update", "head"),
    ]
    for row, (candidate, q, bleu, simile) in enumerate(CANDIDATES):
        y = 120 + 27 * row
        reward = (bleu + simile) / 2
        better = reward > EXPECTED
        parts += [
            text(10, y, candidate),
            f'<rect x="395" y="{y - 12}" width="{240 * q:.0f}" height="14" class="bar"/>',
            text(400 + 240 * q, y, f"{q:.2f}", "dim"),
            text(540, y, f"{bleu:.2f}", "dim", "middle"),
            text(610, y, f"{simile:.2f}", "dim", "middle"),
            text(690, y, f"{reward:.2f}", "", "middle"),
            text(
                745, y, "▲ more likely" if better else "▼ less likely", "up" if better else "down"
            ),
        ]
    parts.append(
        text(
            10,
            270,
            f"Five of eight candidates, whose expected reward is {EXPECTED:.2f}. "
            "What is above it becomes more likely, what is below it less.",
            "dim",
        )
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 870 288" role="img" '
        'aria-label="One update: candidates above the expected reward become more likely">'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")

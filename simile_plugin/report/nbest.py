"""How many candidates does training need? Test scores against N (the paper's Figure 13)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from simile_plugin.files import InputError
from simile_plugin.report.results_table import HEADINGS
from simile_plugin.report.scores import LENGTH_RATIO, ScoreSettings, score_systems
from simile_plugin.report.systems import System, read_systems
from simile_plugin.reward import bleu_signature, signature
from simile_plugin.statistics import COLORS, DASHES, INK, MARKERS, render_svg, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTPUT_FILE = re.compile(r"(?P<name>.+)\.n(?P<n>\d+)(?:\.(?P<seed>\d+))?\.txt(?:\.gz)?")
BASELINE = "mle.txt"
LAYOUT = "NAME.nN.txt or NAME.nN.SEED.txt, say simile.n8.1.txt"


@dataclass(frozen=True)
class NbestPoint:
    """A system trained with N candidates.

    Attributes:
        n: number of candidates; 0 for the system before risk training.
        files: one a seed.
        scores: bleu / sim / simile / chrf -> a score a seed, in percent.
    """

    n: int
    files: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]

    def mean(self, metric: str) -> float:
        """Mean of the seeds."""
        return math.fsum(self.scores[metric]) / len(self.scores[metric])


@dataclass(frozen=True)
class NbestResult:
    """Points by system, in the order of N.

    Attributes:
        baseline: the system before risk training, where the folder has it.
    """

    folder: str
    sentences: int
    points: dict[str, tuple[NbestPoint, ...]]
    baseline: NbestPoint | None
    signatures: dict[str, str]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        return asdict(self)


def analyse_nbest(
    folder: str,
    refs: Sequence[str],
    ref_name: str,
    settings: ScoreSettings,
    flag: str = "--nbest-folder",
    progress: Callable[[int], object] | None = None,
) -> NbestResult:
    """Score every output in a folder of NAME.nN.txt or NAME.nN.SEED.txt files, and mle.txt.

    Args:
        ref_name: flag and file of the references, for errors.
        progress: called with the number of sentences just scored.

    Raises:
        ValueError: for a folder without such files, or files that are not parallel.
    """
    files = _files(folder, flag)
    named = {f"{name} n{n}": tuple(paths) for (name, n), paths in files.items()}
    systems: list[System] = read_systems(flag, named, "text", refs, ref_name)
    metrics = score_systems(systems, refs, settings, progress).metrics
    points: dict[str, list[NbestPoint]] = {}
    baseline = None
    for ((name, n), paths), row in zip(files.items(), metrics, strict=True):
        scores = {
            metric: tuple(statistics.seed_scores().tolist())
            for metric, statistics in row.items()
            if metric != LENGTH_RATIO
        }
        point = NbestPoint(n, tuple(paths), scores)
        if n:
            points.setdefault(name, []).append(point)
        else:
            baseline = point
    signatures = {"BLEU": bleu_signature(settings.tokenize)}
    if settings.encoder is not None:
        signatures["SIM, SIMILE"] = signature(settings.encoder, settings.alpha)
    found = {name: tuple(sorted(own, key=lambda p: p.n)) for name, own in points.items()}
    return NbestResult(folder, len(refs), found, baseline, signatures, _notes(found))


def _files(folder: str, flag: str) -> dict[tuple[str, int], list[str]]:
    """(name, N) -> paths in the order of seeds; N is 0 for mle.txt."""
    if not os.path.isdir(folder):
        raise InputError(f"{flag}: {folder}: no such folder; expected one with {LAYOUT}")
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for entry in sorted(os.listdir(folder)):
        if match := OUTPUT_FILE.fullmatch(entry):
            key = match["name"], int(match["n"])
            found.setdefault(key, []).append((int(match["seed"] or 0), entry))
    if not found:
        raise InputError(f"{flag}: {folder} has no outputs; expected {LAYOUT}")
    zero = next((name for name, n in found if n == 0), None)
    if zero is not None:
        raise InputError(f"{flag}: {folder}: {zero}.n0: expected at least 1 candidate")
    if os.path.isfile(os.path.join(folder, BASELINE)):
        found[BASELINE, 0] = [(0, BASELINE)]
    return {
        key: [os.path.join(folder, entry) for _, entry in sorted(files)]
        for key, files in found.items()
    }


def _notes(points: dict[str, tuple[NbestPoint, ...]]) -> tuple[str, ...]:
    sizes = {name: {point.n for point in own} for name, own in points.items()}
    everywhere = set.union(*sizes.values())
    return tuple(
        f"{name}: no output for N = {', '.join(map(str, sorted(everywhere - own)))}"
        for name, own in sizes.items()
        if everywhere - own
    )


def format_nbest(result: NbestResult) -> str:
    """A line a system and N: scores, of several seeds the mean with the lowest and highest."""
    metrics = _metrics(result)
    grid = [["System", "N", "Seeds", *(HEADINGS[metric] for metric in metrics)]]
    rows = [("MLE", result.baseline)] if result.baseline else []
    rows += [(name, point) for name, own in result.points.items() for point in own]
    for name, point in rows:
        size = str(point.n) if point.n else "-"
        cells = [_cell(point, metric) for metric in metrics]
        grid.append([name, size, str(len(point.files)), *cells])
    heading = f"Scores by number of candidates on {result.sentences:,} sentences, {result.folder}"
    legend = [*result.notes, *(f"{name}: {text}" for name, text in result.signatures.items())]
    return "\n\n".join([heading, text_table(grid), "\n".join(legend)]) + "\n"


def _metrics(result: NbestResult) -> list[str]:
    return list(next(iter(result.points.values()))[0].scores)


def _cell(point: NbestPoint, metric: str) -> str:
    seeds = point.scores[metric]
    spread = f" ({min(seeds):.2f} to {max(seeds):.2f})" if len(seeds) > 1 else ""
    return f"{point.mean(metric):.2f}{spread}"


def nbest_figure(result: NbestResult) -> str:
    """Test BLEU, and SIM where it is known, against N as inline SVG; bands are seeds."""
    metrics = [metric for metric in ("bleu", "sim") if metric in _metrics(result)]
    names = " and ".join(HEADINGS[metric] for metric in metrics)
    label = f"Test {names} against the number of candidates, of {', '.join(result.points)}"
    draw = partial(_draw, result=result, metrics=metrics)
    return render_svg(label, (4.8 * len(metrics), 3.8), draw)


def _draw(figure: Figure, result: NbestResult, metrics: Sequence[str]) -> None:
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    sizes = sorted({point.n for own in result.points.values() for point in own})
    for panel, metric in zip(panels, metrics, strict=True):
        for place, (name, own) in enumerate(result.points.items()):
            color = COLORS[place % len(COLORS)]
            x = [point.n for point in own]
            panel.plot(
                x,
                [point.mean(metric) for point in own],
                color=color,
                marker=MARKERS[place % len(MARKERS)],
                linestyle=DASHES[place % len(DASHES)],
                label=name,
            )
            low = [min(point.scores[metric]) for point in own]
            high = [max(point.scores[metric]) for point in own]
            panel.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        if result.baseline is not None:
            before = result.baseline.mean(metric)
            panel.axhline(before, color=INK, linewidth=1, linestyle=":", label="MLE")
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        panel.set_title(f"Test {HEADINGS[metric]}", loc="left", fontsize=12)
        panel.set_xlabel("N, candidates a sentence in training")
        panel.grid(axis="y")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)

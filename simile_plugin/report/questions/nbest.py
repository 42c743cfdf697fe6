"""How many candidates does training need? Test scores against N (the paper's Figure 13)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from simile_plugin.files import InputError, Progress
from simile_plugin.report.answer import HEADINGS, Answer, Cell, Figure, make_table
from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems
from simile_plugin.report.inputs.texts import read_systems
from simile_plugin.significance import Chart, Line, Panel, line_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

FILE = re.compile(r"(?P<system>(?P<name>.+)\.n(?P<n>[1-9]\d*)|mle)(\.(?P<seed>\d+))?\.txt(\.gz)?")
FLAG = "--nbest-folder"
LAYOUT = "NAME.nN.txt or NAME.nN.SEED.txt, say simile.n8.1.txt"


@dataclass(frozen=True)
class Point:
    """A system trained with n candidates (0: before that): metric -> a corpus score a seed."""

    n: int
    files: tuple[str, ...]
    scores: dict[str, list[float]]


@dataclass(frozen=True)
class NbestScores:
    """The outputs of a folder: name -> points in the order of n; baseline: of mle.txt."""

    folder: str
    sentences: int
    points: dict[str, list[Point]]
    baseline: Point | None
    signatures: dict[str, str]
    notes: list[str]


def ask(inputs: Inputs) -> Answer:
    """Score every output of --nbest-folder: of NAME.nN[.SEED].txt files, and mle.txt.

    Raises:
        InputError: for a folder without such files, or files that are not parallel.
    """
    folder, refs = inputs.options.nbest_folder or "", inputs.refs
    if not os.path.isdir(folder):
        raise InputError(f"{FLAG}: {folder}: no such folder; expected one with {LAYOUT}")
    matches = [match for name in os.listdir(folder) if (match := FILE.fullmatch(name))]
    matches.sort(key=lambda match: (match["system"], int(match["seed"] or 0)))
    sizes = {match["system"]: match for match in matches if match["n"]}
    if not sizes:
        raise InputError(f"{FLAG}: {folder} has no outputs; expected {LAYOUT}")
    named: dict[str, tuple[str, ...]] = {}
    for match in matches:
        path = str(Path(folder, match[0]))
        named[match["system"]] = (*named.get(match["system"], ()), path)
    systems = read_systems(FLAG, named, refs, f"--ref {inputs.options.ref}", inputs.texts.lines)
    with Progress(len(refs), "sent") as bar:
        scored = score_all(systems, refs, inputs.scorer, bar.update)
    points: dict[str, list[Point]] = {}
    baseline = None
    for system, row in zip(systems, score_systems(systems, refs, scored), strict=True):
        row.pop(LENGTH_RATIO)
        scores = {metric: statistics.seed_scores().tolist() for metric, statistics in row.items()}
        if size := sizes.get(system.name):
            point = Point(int(size["n"]), system.files, scores)
            points.setdefault(size["name"], []).append(point)
        else:
            baseline = Point(0, system.files, scores)
    data = NbestScores(
        folder=folder,
        sentences=len(refs),
        points={name: sorted(of, key=lambda point: point.n) for name, of in points.items()},
        baseline=baseline,
        signatures=inputs.scorer.signatures("BLEU", "chrF", "SIM, SIMILE"),
        notes=_lacking(points),
    )
    return answer_nbest(data)


def _lacking(points: Mapping[str, Sequence[Point]]) -> list[str]:
    """Tell which systems have no output for an N that another one has."""
    everywhere = {point.n for of in points.values() for point in of}
    lacking = {name: sorted(everywhere - {point.n for point in of}) for name, of in points.items()}
    return [
        f"{name}: no output for N = {', '.join(map(str, sizes))}"
        for name, sizes in lacking.items()
        if sizes
    ]


def answer_nbest(data: NbestScores) -> Answer:
    """Show a line a system and N: scores, of several seeds the mean with lowest and highest."""
    points = [("MLE", data.baseline)] if data.baseline else []
    points += [(name, point) for name, of_system in data.points.items() for point in of_system]
    metrics = list(points[-1][1].scores)
    rows = [
        [
            name,
            str(point.n or "-"),
            str(len(point.files)),
            *(_cell(point.scores[metric]) for metric in metrics),
        ]
        for name, point in points
    ]
    header = ["System", "N", "Seeds", *(HEADINGS[metric] for metric in metrics)]
    return Answer(
        "nbest",
        "Size of the n-best list",
        "Test scores of systems that were trained with more and with fewer candidates a sentence.",
        f"Scores by number of candidates on {data.sentences:,} sentences,",
        [
            Figure(nbest_chart(data), "Test scores by the number of candidates N."),
            make_table(header, rows),
        ],
        asdict(data),
        data.folder,
        notes=data.notes,
        signatures=data.signatures,
    )


def _cell(seeds: list[float]) -> Cell:
    spread = f" ({min(seeds):.2f} to {max(seeds):.2f})" if len(seeds) > 1 else ""
    return Cell(f"{fmean(seeds):.2f}{spread}", fmean(seeds))


def nbest_chart(data: NbestScores) -> Chart:
    """Draw test BLEU, and SIM where it is known, against N; bands are seeds."""
    points = data.points
    known = next(iter(points.values()))[0].scores
    metrics = [metric for metric in ("bleu", "sim") if metric in known]
    panels = []
    for metric in metrics:
        lines = {}
        for name, of_system in points.items():
            seeds = [point.scores[metric] for point in of_system]
            mean, low, high = list(map(fmean, seeds)), list(map(min, seeds)), list(map(max, seeds))
            lines[name] = Line([point.n for point in of_system], mean, low, high)
        before = {"MLE": [fmean(data.baseline.scores[metric])]} if data.baseline else {}
        panels.append(Panel(f"Test {HEADINGS[metric]}", lines, before))
    names = " and ".join(HEADINGS[metric] for metric in metrics)
    label = f"Test {names} against the number of candidates, of {', '.join(points)}"
    sizes = sorted({point.n for of_system in points.values() for point in of_system})
    return line_chart(label, panels, "N, candidates a sentence in training", powers=sizes)

"""How many candidates does training need? Test scores against N (the paper's Figure 13)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from simile_plugin.files import InputError, Progress, read_lines
from simile_plugin.report.answer import HEADINGS, Answer, Cell, Data, Figure, make_table
from simile_plugin.report.inputs.systems import read_systems
from simile_plugin.report.inputs.texts import Read
from simile_plugin.significance import Chart, Line, Panel, line_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs
    from simile_plugin.report.inputs.scores import ScoreSettings

NEEDS = (("nbest_folder", "ref"),)
ASKED_BY = ("nbest_folder",)
PICTURED = True

OUTPUT_FILE = re.compile(r"(?P<name>.+)\.n(?P<n>\d+)(?:\.(?P<seed>\d+))?\.txt(?:\.gz)?")
BASELINE = "mle.txt"
FLAG = "--nbest-folder"
LAYOUT = "NAME.nN.txt or NAME.nN.SEED.txt, say simile.n8.1.txt"


def ask(inputs: Inputs) -> Answer:
    """Score every output of --nbest-folder."""
    options, refs = inputs.options, inputs.refs
    assert options.nbest_folder is not None
    with Progress(len(refs), "sent") as bar:
        data = score_folder(
            options.nbest_folder,
            refs,
            f"--ref {options.ref}",
            inputs.settings,
            bar.update,
            inputs.texts.lines,
        )
    return answer_nbest(data)


def score_folder(
    folder: str,
    refs: Sequence[str],
    ref_name: str,
    settings: ScoreSettings,
    progress: Callable[[int], object] | None = None,
    read: Read = read_lines,
) -> Data:
    """Score every output in a folder of NAME.nN.txt or NAME.nN.SEED.txt files, and mle.txt.

    Args:
        ref_name: flag and file of the references, for errors.
        progress: called with the number of sentences just scored.
        read: reads the lines of a file.

    Raises:
        InputError: for a folder without such files, or files that are not parallel.
    """
    from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems

    files = _files(folder)
    named = {f"{name} n{n}": tuple(paths) for (name, n), paths in files.items()}
    systems = read_systems(FLAG, named, refs, ref_name, read)
    metrics = score_systems(systems, refs, score_all(systems, refs, settings, progress))
    points: dict[str, list[Data]] = {}
    baseline = None
    for ((name, n), paths), row in zip(files.items(), metrics, strict=True):
        row.pop(LENGTH_RATIO)
        scores = {metric: own.seed_scores().tolist() for metric, own in row.items()}
        point = {"n": n, "files": paths, "scores": scores}
        if n:
            points.setdefault(name, []).append(point)
        else:
            baseline = point
    sizes = {name: {point["n"] for point in own} for name, own in points.items()}
    everywhere = set.union(*sizes.values())
    return {
        "folder": folder,
        "sentences": len(refs),
        "points": {name: sorted(own, key=lambda p: p["n"]) for name, own in points.items()},
        "baseline": baseline,
        "signatures": settings.signatures(),
        "notes": [
            f"{name}: no output for N = {', '.join(map(str, sorted(everywhere - own)))}"
            for name, own in sizes.items()
            if everywhere - own
        ],
    }


def _files(folder: str) -> dict[tuple[str, int], list[str]]:
    """Return (name, N) -> paths in the order of seeds; N is 0 for mle.txt."""
    if not os.path.isdir(folder):
        raise InputError(f"{FLAG}: {folder}: no such folder; expected one with {LAYOUT}")
    by_seed: dict[tuple[str, int], dict[int, str]] = {}
    for entry in sorted(os.listdir(folder)):
        if (match := OUTPUT_FILE.fullmatch(entry)) and not entry.startswith("."):
            if not int(match["n"]):
                raise InputError(f"{FLAG}: {folder}: {entry}: expected at least 1 candidate")
            seeds = by_seed.setdefault((match["name"], int(match["n"])), {})
            if (other := seeds.setdefault(int(match["seed"] or 0), entry)) != entry:
                raise InputError(
                    f"{FLAG}: {folder}: {other} and {entry} are one seed of one system; keep one "
                    "of them, or give each seed its number"
                )
    if not by_seed:
        raise InputError(f"{FLAG}: {folder} has no outputs; expected {LAYOUT}")
    if os.path.isfile(os.path.join(folder, BASELINE)):
        by_seed[BASELINE, 0] = {0: BASELINE}
    return {
        key: [os.path.join(folder, entry) for _, entry in sorted(seeds.items())]
        for key, seeds in by_seed.items()
    }


def answer_nbest(data: Data) -> Answer:
    """Show a line a system and N: scores, of several seeds the mean with lowest and highest."""
    points = [("MLE", data["baseline"])] if data["baseline"] else []
    points += [(name, point) for name, own in data["points"].items() for point in own]
    metrics = list(points[-1][1]["scores"])
    rows = [
        [
            name,
            str(point["n"] or "-"),
            str(len(point["files"])),
            *(_cell(point["scores"][metric]) for metric in metrics),
        ]
        for name, point in points
    ]
    header = ["System", "N", "Seeds", *(HEADINGS[metric] for metric in metrics)]
    return Answer(
        "nbest",
        "Size of the n-best list",
        "Test scores of systems that were trained with more and with fewer candidates a sentence.",
        f"Scores by number of candidates on {data['sentences']:,} sentences,",
        [
            Figure(nbest_chart(data), "Test scores by the number of candidates N."),
            make_table(header, rows),
        ],
        data,
        data["folder"],
        notes=data["notes"],
        signatures=data["signatures"],
    )


def _cell(seeds: Sequence[float]) -> Cell:
    spread = f" ({min(seeds):.2f} to {max(seeds):.2f})" if len(seeds) > 1 else ""
    return Cell(f"{fmean(seeds):.2f}{spread}", fmean(seeds))


def nbest_chart(data: Data) -> Chart:
    """Draw test BLEU, and SIM where it is known, against N; bands are seeds."""
    points = data["points"]
    known = next(iter(points.values()))[0]["scores"]
    metrics = [metric for metric in ("bleu", "sim") if metric in known]
    panels = []
    for metric in metrics:
        lines = {}
        for name, own in points.items():
            seeds = [point["scores"][metric] for point in own]
            mean, low, high = list(map(fmean, seeds)), list(map(min, seeds)), list(map(max, seeds))
            lines[name] = Line([point["n"] for point in own], mean, low, high)
        before = {"MLE": [fmean(data["baseline"]["scores"][metric])]} if data["baseline"] else {}
        panels.append(Panel(f"Test {HEADINGS[metric]}", lines, before))
    names = " and ".join(HEADINGS[metric] for metric in metrics)
    label = f"Test {names} against the number of candidates, of {', '.join(points)}"
    sizes = sorted({point["n"] for own in points.values() for point in own})
    return line_chart(label, panels, "N, candidates a sentence in training", powers=sizes)

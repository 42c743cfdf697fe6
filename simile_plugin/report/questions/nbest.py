"""How many candidates does training need? Test scores against N (the paper's Figure 13)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from simile_plugin.files import InputError, read_lines
from simile_plugin.report.answer import HEADINGS, Answer, Cell, Figure, make_table
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
        return fmean(self.scores[metric])


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


def analyse_nbest(
    folder: str,
    refs: Sequence[str],
    ref_name: str,
    settings: ScoreSettings,
    progress: Callable[[int], object] | None = None,
    read: Read = read_lines,
) -> NbestResult:
    """Score every output in a folder of NAME.nN.txt or NAME.nN.SEED.txt files, and mle.txt.

    Args:
        ref_name: flag and file of the references, for errors.
        progress: called with the number of sentences just scored.
        read: reads the lines of a file.

    Raises:
        InputError: for a folder without such files, or files that are not parallel.
    """
    from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems
    from simile_plugin.reward import bleu_signature, chrf_signature, signature

    files = _files(folder)
    named = {f"{name} n{n}": tuple(paths) for (name, n), paths in files.items()}
    systems = read_systems(FLAG, named, "text", refs, ref_name, read)
    scored = score_all(systems, refs, settings, progress)
    metrics = score_systems(systems, refs, scored)
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
    signatures = {"BLEU": bleu_signature(settings.tokenize), "chrF": chrf_signature()}
    if settings.encoder is not None:
        signatures["SIM, SIMILE"] = signature(settings.encoder, settings.alpha)
    found = {name: tuple(sorted(own, key=lambda p: p.n)) for name, own in points.items()}
    return NbestResult(folder, len(refs), found, baseline, signatures, _notes(found))


def _files(folder: str) -> dict[tuple[str, int], list[str]]:
    """(name, N) -> paths in the order of seeds; N is 0 for mle.txt."""
    if not os.path.isdir(folder):
        raise InputError(f"{FLAG}: {folder}: no such folder; expected one with {LAYOUT}")
    found: dict[tuple[str, int], dict[int, str]] = {}
    for entry in sorted(os.listdir(folder)):
        if (match := OUTPUT_FILE.fullmatch(entry)) and not entry.startswith("."):
            seeds = found.setdefault((match["name"], int(match["n"])), {})
            if (other := seeds.setdefault(int(match["seed"] or 0), entry)) != entry:
                raise InputError(
                    f"{FLAG}: {folder}: {other} and {entry} are one seed of one system; keep one "
                    "of them, or give each seed its number"
                )
    if not found:
        raise InputError(f"{FLAG}: {folder} has no outputs; expected {LAYOUT}")
    zero = next((name for name, n in found if n == 0), None)
    if zero is not None:
        raise InputError(f"{FLAG}: {folder}: {zero}.n0: expected at least 1 candidate")
    if os.path.isfile(os.path.join(folder, BASELINE)):
        found[BASELINE, 0] = {0: BASELINE}
    return {
        key: [os.path.join(folder, entry) for _, entry in sorted(seeds.items())]
        for key, seeds in found.items()
    }


def _notes(points: dict[str, tuple[NbestPoint, ...]]) -> tuple[str, ...]:
    sizes = {name: {point.n for point in own} for name, own in points.items()}
    everywhere = set.union(*sizes.values())
    return tuple(
        f"{name}: no output for N = {', '.join(map(str, sorted(everywhere - own)))}"
        for name, own in sizes.items()
        if everywhere - own
    )


# --- the answer ---


def ask(inputs: Inputs) -> Answer:
    """Every output of --nbest-folder, scored."""
    from simile_plugin.files import Progress

    args, refs = inputs.args, inputs.refs
    with Progress(len(refs), "sent") as bar:
        found = analyse_nbest(
            args.nbest_folder,
            refs,
            f"--ref {args.ref}",
            inputs.settings,
            progress=bar.update,
            read=inputs.texts.lines,
        )
    return answer_nbest(found)


def answer_nbest(result: NbestResult) -> Answer:
    """A line a system and N: scores, of several seeds the mean with the lowest and highest."""
    points = [("MLE", result.baseline)] if result.baseline else []
    points += [(name, point) for name, own in result.points.items() for point in own]
    metrics = list(points[-1][1].scores)
    rows = [
        [
            name,
            str(point.n) if point.n else "-",
            str(len(point.files)),
            *(_cell(point, metric) for metric in metrics),
        ]
        for name, point in points
    ]
    header = ["System", "N", "Seeds", *(HEADINGS[metric] for metric in metrics)]
    return Answer(
        "nbest",
        "Size of the n-best list",
        "Test scores of systems that were trained with more and with fewer candidates a sentence.",
        f"Scores by number of candidates on {result.sentences:,} sentences,",
        [
            Figure(nbest_chart(result), "Test scores by the number of candidates N."),
            make_table(header, rows),
        ],
        asdict(result),
        result.folder,
        notes=result.notes,
        signatures=result.signatures,
    )


def _cell(point: NbestPoint, metric: str) -> Cell:
    seeds = point.scores[metric]
    spread = f" ({min(seeds):.2f} to {max(seeds):.2f})" if len(seeds) > 1 else ""
    return Cell(f"{point.mean(metric):.2f}{spread}", point.mean(metric))


def nbest_chart(result: NbestResult) -> Chart:
    """Test BLEU, and SIM where it is known, against N; bands are seeds."""
    known = next(iter(result.points.values()))[0].scores
    metrics = [metric for metric in ("bleu", "sim") if metric in known]
    panels = []
    for metric in metrics:
        lines = {
            name: Line(
                [point.n for point in own],
                [point.mean(metric) for point in own],
                [min(point.scores[metric]) for point in own],
                [max(point.scores[metric]) for point in own],
            )
            for name, own in result.points.items()
        }
        before = {"MLE": [result.baseline.mean(metric)]} if result.baseline else {}
        panels.append(Panel(f"Test {HEADINGS[metric]}", lines, before))
    names = " and ".join(HEADINGS[metric] for metric in metrics)
    label = f"Test {names} against the number of candidates, of {', '.join(result.points)}"
    sizes = sorted({point.n for own in result.points.values() for point in own})
    return line_chart(label, panels, "N, candidates a sentence in training", powers=sizes)

"""Which reward is learned, and how fast? Both validation costs by update (Wieting et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from simile_plugin.files import InputError
from simile_plugin.report.answer import Answer, Figure, Table, count, make_table
from simile_plugin.report.inputs.logs import Runs, Validations
from simile_plugin.significance import Chart, Line, Panel, line_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

TITLES = {"cost_bleu": "Expected BLEU cost", "cost_simile": "Expected SIMILE cost"}


@dataclass(frozen=True)
class Curve:
    """A validation cost of one system: at each update a row of `seeds` a seed, and their mean.

    updates: those at which every seed has the number.
    """

    updates: list[int]
    seeds: list[list[float]]
    mean: list[float]


@dataclass(frozen=True)
class Curves:
    """The validation costs of several systems: files by system; cost -> system -> curve."""

    files: dict[str, list[str]]
    costs: dict[str, dict[str, Curve]]
    notes: list[str]


def ask(inputs: Inputs) -> Answer:
    """Draw the curves of every --log."""
    return answer_curves(collect_curves(inputs.runs), list(inputs.named_systems))


def collect_curves(runs: Runs) -> Curves:
    """Collect the validation costs of several systems, each with one training log per seed.

    Raises:
        InputError: if a log holds no cost of this criterion.
    """
    costs: dict[str, dict[str, Curve]] = {cost: {} for cost in TITLES}
    notes: list[str] = []
    for name, by_path in runs.items():
        for path, run in by_path.items():
            _check_costs(run, path)
        seeds = list(by_path.values())
        for cost in TITLES:
            if curve := _curve(seeds, cost):
                costs[cost][name] = curve
        notes += _notes(name, seeds)
    costs = {cost: curves for cost, curves in costs.items() if curves}
    if not costs:
        raise InputError("--log: no update has a cost in all seeds of a system; nothing to draw")
    files = {name: list(by_path) for name, by_path in runs.items()}
    return Curves(files, costs, notes)


def _check_costs(run: Validations, path: str) -> None:
    keys = {key for numbers in run.values() for key in numbers}
    if not keys & set(TITLES):
        raise InputError(
            f"--log: {path} validates without {' and '.join(TITLES)} (it has "
            f"{', '.join(sorted(keys)) or 'nothing'}); train with --criterion simile_risk"
        )


def _curve(runs: Sequence[Validations], cost: str) -> Curve | None:
    finite = [
        {u: n[cost] for u, n in run.items() if math.isfinite(n.get(cost, math.nan))} for run in runs
    ]
    common = sorted(set.intersection(*(set(values) for values in finite)))
    if not common:
        return None
    seeds = [[values[u] for u in common] for values in finite]
    mean = list(map(fmean, zip(*seeds, strict=True)))
    return Curve(common, seeds, mean)


def _notes(name: str, runs: Sequence[Validations]) -> list[str]:
    notes = []
    everywhere = set.intersection(*(set(run) for run in runs))
    anywhere = set.union(*(set(run) for run in runs))
    if anywhere - everywhere:
        notes.append(
            f"{name}: seeds validated at different updates; shown are the "
            f"{len(everywhere)} of {len(anywhere)} that all of them have"
        )
    if 0 not in everywhere:
        notes.append(f"{name}: no validation before the first update")
    for cost in TITLES:
        values = [n[cost] for run in runs for n in run.values() if cost in n]
        lost = sum(not math.isfinite(value) for value in values)
        if not values:
            notes.append(f"{name}: no {cost} in its log")
        elif lost:
            notes.append(f"{name}: {lost} of {len(values)} values of {cost} are not numbers")
    return notes


def answer_curves(data: Curves, order: Sequence[str] = ()) -> Answer:
    """Show both costs, drawn and in numbers; order: of colours, see `line_chart`."""
    caption = "Both validation costs by update, lower is better."
    tables = [curve_table(cost, curves) for cost, curves in data.costs.items()]
    return Answer(
        "curves",
        "Validation curves",
        "Expected BLEU cost and expected SIMILE cost at each validation: whether training on one "
        "reward lowers both.",
        "Validation costs by update",
        [Figure(curves_chart(data, order), caption), *tables],
        asdict(data),
        notes=data.notes,
        scope=count(sum(map(len, data.files.values())), "training log"),
    )


def curves_chart(data: Curves, order: Sequence[str] = ()) -> Chart:
    """Draw a panel a cost, lines by system, bands from lowest to highest seed."""
    titles = " and ".join(TITLES[cost] for cost in data.costs)
    several = any(len(files) > 1 for files in data.files.values())
    panels = []
    for cost, curves in data.costs.items():
        lines = {}
        for name, curve in curves.items():
            by_update = list(zip(*curve.seeds, strict=True))
            band = (list(map(min, by_update)), list(map(max, by_update)))
            edges = band if len(curve.seeds) > 1 else ()
            lines[name] = Line(curve.updates, curve.mean, *edges)
        panels.append(Panel(TITLES[cost], lines))
    return line_chart(
        f"Validation by update: {titles}, of {', '.join(data.files)}",
        panels,
        "Update",
        "Validation cost, lower is better",
        "lines: mean of seeds, bands: lowest to highest seed" if several else None,
        order=order,
    )


def curve_table(cost: str, curves: Mapping[str, Curve]) -> Table:
    """Tabulate each system's first, lowest (with its update) and last value."""
    rows = []
    for name, curve in curves.items():
        mean = curve.mean
        best = min(range(len(mean)), key=mean.__getitem__)
        numbers = [f"{mean[0]:.4f}", f"{mean[best]:.4f}", f"{curve.updates[best]:,}"]
        rows.append([name, len(curve.seeds), *numbers, f"{mean[-1]:.4f}"])
    header = [f"{TITLES[cost]}, validation", "Seeds", "First", "Lowest", "At update", "Last"]
    return make_table(header, rows)

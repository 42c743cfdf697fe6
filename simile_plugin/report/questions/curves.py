"""Which reward is learned, and how fast? Both validation costs by update (Wieting et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from simile_plugin.files import InputError
from simile_plugin.report.answer import Answer, Figure, Table, count, make_table
from simile_plugin.report.inputs.logs import Runs
from simile_plugin.report.inputs.tensorboard import Validations
from simile_plugin.significance import Chart, Line, Panel, line_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

NEEDS = (("log",),)
ASKED_BY = ("log",)
PICTURED = True

TITLES = {"cost_bleu": "Expected BLEU cost", "cost_simile": "Expected SIMILE cost"}
CRITERION_HINT = "train with --criterion simile_risk"
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40  # blocks of a line at most


@dataclass(frozen=True)
class Curve:
    """One validation number of one system by update.

    Attributes:
        updates: those at which every seed of the system has the number.
        seeds: (seeds, updates) values.
    """

    updates: tuple[int, ...]
    seeds: tuple[tuple[float, ...], ...]

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of the seeds at each update."""
        return tuple(map(fmean, zip(*self.seeds, strict=True)))

    @property
    def low(self) -> tuple[float, ...]:
        """Lowest seed at each update: the lower edge of the band."""
        return tuple(map(min, zip(*self.seeds, strict=True)))

    @property
    def high(self) -> tuple[float, ...]:
        """Highest seed at each update: the upper edge of the band."""
        return tuple(map(max, zip(*self.seeds, strict=True)))


@dataclass(frozen=True)
class Curves:
    """Curves by cost and system.

    Attributes:
        files: system -> one log per seed.
        costs: cost_bleu / cost_simile -> system -> curve; a system without a number is left out.
        notes: what the reader should know of the data, one sentence each.
    """

    files: dict[str, tuple[str, ...]]
    costs: dict[str, dict[str, Curve]]
    notes: tuple[str, ...]


def analyse_curves(runs: Runs) -> Curves:
    """The validation costs of several systems, each with one training log per seed.

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
            curve = _curve(seeds, cost)
            if curve is not None:
                costs[cost][name] = curve
        notes += _describe(name, seeds)
    costs = {cost: found for cost, found in costs.items() if found}
    if not costs:
        raise InputError("--log: no update has a cost in all seeds of a system; nothing to draw")
    return Curves({name: tuple(own) for name, own in runs.items()}, costs, tuple(notes))


def _check_costs(run: Validations, path: str) -> None:
    keys = {key for numbers in run.values() for key in numbers}
    if not keys & set(TITLES):
        found = ", ".join(sorted(keys)) or "nothing"
        raise InputError(
            f"--log: {path} validates without {' and '.join(TITLES)} (it has {found}); "
            f"{CRITERION_HINT}"
        )


def _curve(runs: Sequence[Validations], cost: str) -> Curve | None:
    """The curve over the updates that all seeds share, or None without any."""
    finite = [
        {u: n[cost] for u, n in run.items() if math.isfinite(n.get(cost, math.nan))} for run in runs
    ]
    common = sorted(set.intersection(*(set(values) for values in finite)))
    if not common:
        return None
    return Curve(tuple(common), tuple(tuple(values[u] for u in common) for values in finite))


def _describe(name: str, runs: Sequence[Validations]) -> list[str]:
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


# --- the answer ---


def ask(inputs: Inputs) -> Answer:
    """Curves of every --log."""
    return answer_curves(analyse_curves(inputs.runs))


def answer_curves(curves: Curves) -> Answer:
    """Both costs, drawn and in numbers."""
    data = asdict(curves)
    for cost, by_system in curves.costs.items():
        for name, curve in by_system.items():
            data["costs"][cost][name]["mean"] = curve.mean
    caption = "Both validation costs by update, lower is better."
    tables = [curve_table(cost, systems) for cost, systems in curves.costs.items()]
    return Answer(
        "curves",
        "Validation curves",
        "Expected BLEU cost and expected SIMILE cost at each validation: whether training on one "
        "reward lowers both.",
        "Validation costs by update",
        [Figure(curves_chart(curves), caption), *tables],
        data,
        notes=curves.notes,
        scope=count(sum(map(len, curves.files.values())), "training log"),
    )


def curves_chart(curves: Curves) -> Chart:
    """A panel a cost, lines by system, bands from lowest to highest seed."""
    costs = " and ".join(TITLES[cost] for cost in curves.costs)
    several = any(len(files) > 1 for files in curves.files.values())
    panels = []
    for cost, systems in curves.costs.items():
        lines = {
            name: Line(c.updates, c.mean, *((c.low, c.high) if len(c.seeds) > 1 else ()))
            for name, c in systems.items()
        }
        panels.append(Panel(TITLES[cost], lines))
    return line_chart(
        f"Validation by update: {costs}, of {', '.join(curves.files)}",
        panels,
        "Update",
        "Validation cost, lower is better",
        "lines: mean of seeds, bands: lowest to highest seed" if several else None,
    )


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """One block a value, from `low` (lowest block) to `high`."""
    steps = len(BLOCKS) - 1
    span = (high - low) or 1.0
    return "".join(BLOCKS[round((value - low) / span * steps)] for value in values)


def curve_table(cost: str, systems: Mapping[str, Curve]) -> Table:
    """A line a system: first, lowest (with its update) and last value, and the shape."""
    values = [value for curve in systems.values() for value in curve.mean]
    shapes = [sparkline(_thin(curve.mean), min(values), max(values)) for curve in systems.values()]
    longest = max(map(len, shapes))
    rows = []
    for (name, curve), shape in zip(systems.items(), shapes, strict=True):
        mean = curve.mean
        best = min(range(len(mean)), key=mean.__getitem__)
        numbers = [f"{mean[0]:.4f}", f"{mean[best]:.4f}", f"{curve.updates[best]:,}"]
        shown = [*numbers, f"{mean[-1]:.4f}", f"{shape:<{longest}}"]
        rows.append([name, str(len(curve.seeds)), *shown])
    header = [f"{TITLES[cost]}, validation", "Seeds", "First", "Lowest", "At update", "Last"]
    return make_table([*header, f"{'Shape':<{longest}}"], rows)


def _thin(values: Sequence[float]) -> Sequence[float]:
    """At most WIDTH of them, evenly chosen, the first and the last among them."""
    total = len(values)
    if total <= WIDTH:
        return values
    return [values[round(i * (total - 1) / (WIDTH - 1))] for i in range(WIDTH)]

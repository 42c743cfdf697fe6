"""Which reward is learned, and how fast? Both validation costs by update (Wieting et al. 2019).

The runs come from `logs`; `curves_figure` draws what is made here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simile_plugin.files import InputError
from simile_plugin.report.logs import read_validations
from simile_plugin.report.tensorboard_logs import Validations

COSTS = ("cost_bleu", "cost_simile")
CRITERION_HINT = "train with --criterion simile_risk"


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
        return tuple(math.fsum(column) / len(column) for column in zip(*self.seeds, strict=True))

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

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        content = asdict(self)
        for cost, by_system in self.costs.items():
            for name, curve in by_system.items():
                content["costs"][cost][name]["mean"] = curve.mean
        return content


def analyse_curves(
    named: Mapping[str, Sequence[str]], flag: str = "--log", subset: str = "valid"
) -> Curves:
    """Read the validation costs of several systems, each with one training log per seed.

    Raises:
        ValueError: if a log holds no validation, or no cost of this criterion.
    """
    costs: dict[str, dict[str, Curve]] = {cost: {} for cost in COSTS}
    notes: list[str] = []
    for name, paths in named.items():
        runs = [read_validations(path, flag, subset) for path in paths]
        for path, run in zip(paths, runs, strict=True):
            _check_costs(run, path, flag)
        for cost in COSTS:
            curve = _curve(runs, cost)
            if curve is not None:
                costs[cost][name] = curve
        notes += _describe(name, runs)
    costs = {cost: found for cost, found in costs.items() if found}
    if not costs:
        raise InputError(f"{flag}: no update has a cost in all seeds of a system; nothing to draw")
    files = {name: tuple(paths) for name, paths in named.items()}
    return Curves(files, costs, tuple(notes))


def _check_costs(run: Validations, path: str, flag: str) -> None:
    keys = {key for numbers in run.values() for key in numbers}
    if not keys & set(COSTS):
        found = ", ".join(sorted(keys)) or "nothing"
        raise InputError(
            f"{flag}: {path} validates without {' and '.join(COSTS)} (it has {found}); "
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
    for cost in COSTS:
        values = [n[cost] for run in runs for n in run.values() if cost in n]
        lost = sum(not math.isfinite(value) for value in values)
        if not values:
            notes.append(f"{name}: no {cost} in its log")
        elif lost:
            notes.append(f"{name}: {lost} of {len(values)} values of {cost} are not numbers")
    return notes

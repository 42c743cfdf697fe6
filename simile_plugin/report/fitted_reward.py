"""Tables of `simile fit-reward`: agreement with people, harm, weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.significance import text_table

if TYPE_CHECKING:
    from simile_plugin.evaluation import Fit

OF_SOURCE = "by how much the reference is nearer to the source"


def format_fit(fit: Fit) -> str:
    """Return the tables of a fit for a terminal: agreement with people, harm, weights."""
    return "\n\n".join(map(text_table, (_agreement(fit), _harm(fit), _weights(fit)))) + "\n"


def _agreement(fit: Fit) -> list[list[str]]:
    """Tabulate a row a metric: its mean over the files with an interval, and each file."""
    names = {
        path: Path(path).name.removesuffix(".gz").removesuffix(".tsv") for path in fit.quality.files
    }
    if len(set(names.values())) < len(names):  # files of one name in several folders
        names = {path: path for path in names}
    title = f"{fit.folds}: Spearman / Pearson"
    rows = [[title, "mean", "95% interval of Spearman", *names.values()]]
    columns = [fit.quality.mean, *fit.quality.files.values()]
    for metric, mean in fit.quality.mean["spearman"].items():
        cells = [
            "/".join(_percent(column[kind][metric].value) for kind in ("spearman", "pearson"))
            for column in columns
        ]
        rows.append(
            [metric, cells[0], f"{_percent(mean.low)} to {_percent(mean.high)}", *cells[1:]]
        )
    return rows


def _harm(fit: Fit) -> list[list[str]]:
    rows = [["harm (hypotheses not fitted on)", "count", "lower, %", "mean loss"]]
    for kind, seen in fit.harm.items():
        rows.append([kind, f"{seen.count:,}", f"{seen.lower:.1f}", f"{seen.drop:.2f}"])
    return rows


def _weights(fit: Fit) -> list[list[str]]:
    from simile_plugin.reward import FEATURES

    rows = [["feature", "weight", "of one deviation"]]
    for feature, weight in fit.reward.weights.items():
        name = f"{feature}: {FEATURES.get(feature, OF_SOURCE)}"
        rows.append([name, f"{weight:.3f}", f"{fit.importance[feature]:.3f}"])
    return rows


def _percent(value: float) -> str:
    return "-" if value != value else f"{value:.1f}"

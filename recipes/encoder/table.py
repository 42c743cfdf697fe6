"""The results of encoders of several seeds, side by side, and their mean.

python table.py RESULT.json...      each printed by simile eval-encoder --sts --judgements --json
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from simile_plugin.significance import markdown_table


def numbers(result: dict[str, Any]) -> dict[str, float | None]:
    """The figures of one encoder: mean over sets and all pairs of each STS year, judgements.

    None where there is no correlation: the encoder gives every pair of a set one similarity.
    """
    found: dict[str, float | None] = {}
    for part in result.get("sts", []):
        name = Path(part["folder"]).name
        found[f"{name}, mean of sets"] = part["mean_pearson"]
        found[f"{name}, all pairs"] = part["all_pearson"]
    means = result.get("judgements", {}).get("mean", {})
    for kind in ("spearman", "pearson"):
        for metric, estimate in means.get(kind, {}).items():
            found[f"judgements, {kind}, {metric}"] = estimate["value"]
    return found


def main(paths: list[str]) -> None:
    """Print a table."""
    columns = {Path(path).stem: numbers(json.loads(Path(path).read_text())) for path in paths}
    rows = []
    for name in next(iter(columns.values())):
        values = [column[name] for column in columns.values()]
        known = [value for value in values if value is not None]
        mean = statistics.mean(known) if len(known) == len(values) else None
        rows.append([name, *("-" if v is None else f"{v:.1f}" for v in (*values, mean))])
    header = ["", *(f"seed {name}" for name in columns), "mean"]
    print(markdown_table([header, *rows]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    main(parser.parse_args().results)

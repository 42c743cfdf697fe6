"""What encoders score, a row a system: mean over seeds, and their spread where there are several.

table.py FOLDER SYSTEM.SEED...      the folder holds of each SYSTEM.SEED.mine.json
(simile contrib mine-bitext --aligned --json), and of those that read English SYSTEM.SEED.sts.json
(simile eval-encoder --sts --json) and SYSTEM.SEED.hard.json (simile contrib hard-sts --json)
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from simile_plugin.files import InputError, as_script
from simile_plugin.significance import markdown_table

HARD = "Hard STS: "


def figures(sts: Path, mine: Path) -> dict[str, float | None]:
    """The figures of one encoder, in percent; None where one is undefined."""
    found: dict[str, float | None] = {}
    if sts.exists():
        result = json.loads(sts.read_text("utf-8"))
        for part in result["sts"]:
            found[Path(part["folder"]).name.removesuffix("-test")] = part["mean_pearson"]
        hard = json.loads(sts.with_name(sts.name.replace(".sts.", ".hard.")).read_text("utf-8"))
        for subset, scores in hard["hard"]["pearson"].items():
            if subset.startswith(HARD) or subset == "negation":
                found[subset.removeprefix(HARD)] = scores["SIM"]
    found["retrieval"] = json.loads(mine.read_text("utf-8"))["mean"]
    return found


def cell(values: list[float | None]) -> str:
    """Mean, and (lowest to highest) of several."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    mean = f"{statistics.mean(known):.1f}"
    return mean if len(known) == 1 else f"{mean} ({min(known):.1f} to {max(known):.1f})"


@as_script
def main(folder: str, names: list[str]) -> None:
    """Print the table."""
    rows: dict[str, list[dict[str, float | None]]] = defaultdict(list)
    for name in names:
        sts, mine = (Path(folder, f"{name}.{kind}.json") for kind in ("sts", "mine"))
        if not mine.exists():
            raise InputError(f"{mine}: not there; expected SYSTEM.SEED")
        rows[name.rpartition(".")[0]].append(figures(sts, mine))
    titles = list(next(iter(rows.values()))[0])
    table = [["", "seeds", *titles]]
    for system, found in rows.items():
        cells = [cell([one.get(title) for one in found]) for title in titles]
        table.append([system, str(len(found)), *cells])
    print(markdown_table(table))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("table.py: error: expected a folder and names of systems, as bgt.1")
    sys.exit(main(sys.argv[1], sys.argv[2:]))

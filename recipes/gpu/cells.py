"""Measurements that are kept one by one, so that a run that ends early loses one at most."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simile_plugin.files import InputError, atomic_write

Cell = Callable[[], dict[str, Any]]


def load(path: Path) -> dict[str, Any]:
    """The results so far, by cell."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def run_cells(
    path: Path, cells: dict[str, Cell], budget: float, known: Mapping[str, float] | None = None
) -> str:
    """Run the cells that have no result yet, and write each result as it comes.

    Args:
        path: JSON of the part; a cell that failed before is run again.
        budget: seconds; but for the first one, no cell begins that would end later if it took as
            long as the longest one, or as ``known`` says.
        known: seconds that cells are known to take.

    Returns:
        "done"; "failed", if a cell was, whose error and traceback are kept and shown; or "stopped".
    """
    begin, longest, done = time.monotonic(), 0.0, load(path)
    takes, ran = known or {}, False
    for name, cell in cells.items():
        if name in done and "error" not in done[name]:
            continue
        start = time.monotonic()
        if start - begin + (takes.get(name, longest) if ran else 0.0) > budget:
            print(
                f"{path.stem}: {budget:g} s are over, before {name}; run again to go on from there"
            )
            return "stopped"
        print(f"{path.stem}: {name}", flush=True)
        ran = True
        try:
            result = cell()
        except InputError:
            raise
        except Exception as error:
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        took = time.monotonic() - start
        longest = max(longest, took)
        done[name] = result | {"seconds": round(took, 2)}
        with atomic_write(path) as out:
            json.dump(done, out, indent=1)
    failed = [name for name in cells if "error" in done[name]]
    return "failed" if failed else "done"

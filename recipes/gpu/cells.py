"""Measurements that are kept one by one, so that a run that ends early loses one at most."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simile_plugin.files import InputError, atomic_write

Cell = Callable[[], dict[str, Any]]


def load(path: Path) -> dict[str, Any]:
    """The results so far, by part and cell."""
    try:
        return json.loads(path.read_text("utf-8")) if path.exists() else {}
    except ValueError as error:
        raise InputError(
            f"{path}: got no JSON ({error}); remove it, and all is measured anew"
        ) from error


def run_cells(path: Path, part: str, cells: dict[str, Cell], deadline: float) -> str:
    """Run the cells that have no result yet, and write each result as it comes.

    Args:
        path: JSON of all parts; a cell that failed before is run again.
        deadline: by time.monotonic(); no cell begins that would end later if it took as long as the
            part's longest one.

    Returns:
        "done"; "failed", if a cell was, whose error and traceback are kept and shown; or "stopped".
    """
    longest, found = 0.0, load(path)
    done = found.setdefault(part, {})
    for name, cell in cells.items():
        if name in done and "error" not in done[name]:
            continue
        start = time.monotonic()
        if start + longest > deadline:
            print(f"{part}: no time is left for {name}; run again to go on from there")
            return "stopped"
        print(f"{part}: {name}", flush=True)
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
            json.dump(found, out, indent=1)
    failed = [name for name in cells if "error" in done[name]]
    return "failed" if failed else "done"

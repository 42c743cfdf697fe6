"""Commands whose output is kept, and the bitext."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simile_plugin.files import read_parallel

ROOT = Path(__file__).parents[2]
LAST_LINES = 15


def output_of(command: Sequence[object], log: Path, **variables: Any) -> str:
    """Run a command; all that it prints is kept in ``log``, too.

    Raises:
        RuntimeError: if it fails, with the end of what it printed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **variables
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(done.stdout, "utf-8")
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        raise RuntimeError(f"{words[0]} ended with {done.returncode}; {log}:\n{tail}")
    return done.stdout


def write_bitext(names: Sequence[Path], out: Path, lines: int) -> int:
    """Join the German and English sides of NAME.de.gz and NAME.en.gz; pairs written.

    Args:
        lines: of each, at most (0: all); a pair with an empty side is left out.
    """
    count = 0
    with (
        open(f"{out}.de", "w", encoding="utf-8") as de,
        open(f"{out}.en", "w", encoding="utf-8") as en,
    ):
        for name in names:
            sides = read_parallel([(f"{name}.{side}.gz", "SIMILE_DATA") for side in ("de", "en")])
            for left, right in list(zip(*sides, strict=True))[: lines or None]:
                if left.strip() and right.strip():
                    de.write(left + "\n")
                    en.write(right + "\n")
                    count += 1
    return count

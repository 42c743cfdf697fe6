"""What the experiment of one language would take, from the logs of its first updates.

cost.py --mle estimate.mle.log --mle-flags config/fconv/mle.flags \\
    --risk estimate.risk.log --risk-flags config/fconv/risk.flags --trainings 18
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from simile_plugin.files import InputError, as_script
from simile_plugin.significance import markdown_table

UPDATE = re.compile(
    r"train_inner \| epoch \d+: +\d+ / (?P<epoch>\d+) .*\bnum_updates=(?P<updates>\d+), "
    r".*\bwall=(?P<wall>[0-9.]+)"
)


@dataclass(frozen=True)
class Speed:
    """Measured: seconds an update, updates an epoch."""

    seconds: float
    epoch: int


def measured(log: str) -> Speed:
    """Seconds an update between the first and the last progress line of a log.

    The first lines hold the start, which is not counted.

    Raises:
        InputError: where there are fewer than two such lines.
    """
    lines = [
        match for match in map(UPDATE.search, Path(log).read_text("utf-8").splitlines()) if match
    ]
    if len(lines) < 2:
        raise InputError(f"{log}: {len(lines)} progress lines, expected two or more")
    first, last = lines[0], lines[-1]
    updates = int(last["updates"]) - int(first["updates"])
    return Speed((float(last["wall"]) - float(first["wall"])) / updates, int(last["epoch"]))


def planned_updates(flags: str, epoch: int, more: str = "") -> int:
    """Updates that a file of flags asks for, together with the flags in ``more``, which win.

    Raises:
        InputError: where nothing bounds it.
    """
    words = shlex.split(Path(flags).read_text("utf-8"), comments=True) + more.split()
    value = {word: words[place + 1] for place, word in enumerate(words[:-1])}
    bounds = []
    if "--max-epoch" in value:
        bounds.append(int(value["--max-epoch"]) * epoch)
    if "--max-update" in value:
        bounds.append(int(value["--max-update"]))
    if not bounds:
        raise InputError(f"{flags}: neither --max-epoch nor --max-update")
    return min(bounds)


def report(args: argparse.Namespace) -> str:
    """A table of hours, and their sum."""
    head = "training", "runs", "updates each", "epochs each", "seconds an update", "hours together"
    rows, total = [head], 0.0
    kinds = [("risk", args.risk, args.risk_flags, [""] * args.trainings + args.more)]
    if args.mle:
        kinds.insert(0, ("MLE", args.mle, args.mle_flags, [""]))
    for name, log, flags, trainings in kinds:
        speed = measured(log)
        planned = Counter(planned_updates(flags, speed.epoch, more) for more in trainings)
        for updates, count in planned.items():
            hours = count * updates * speed.seconds / 3600
            total += hours
            epochs = math.ceil(updates / speed.epoch)
            each = f"{updates:,}", f"{epochs}", f"{speed.seconds:.3f}"
            rows.append((name, f"{count}", *each, f"{hours:,.1f}"))
    return (
        f"{markdown_table(rows)}\n\nTogether {total:,.1f} h on one device like this one, "
        "without validation and translation."
    )


@as_script
def main() -> None:
    """Parse and run; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for flag in ("--risk", "--risk-flags"):
        parser.add_argument(flag, required=True, metavar="FILE")
    for flag in ("--mle", "--mle-flags"):
        parser.add_argument(flag, metavar="FILE", help="none where there is an MLE model")
    parser.add_argument("--trainings", type=int, default=0, help="risk trainings of a language")
    parser.add_argument(
        "--more", action="append", default=[], metavar="FLAGS", help="one more, with these flags"
    )
    print(report(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())

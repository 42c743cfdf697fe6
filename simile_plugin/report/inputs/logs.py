"""What fairseq-train wrote about validation into its log (json, simple, tqdm)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from simile_plugin.files import InputError, read_lines
from simile_plugin.report.inputs.texts import Read

ENDS_IN_UPDATE = re.compile(r"num_updates \d+$")
SIMPLE_LINE = re.compile(r"valid on '(?P<subset>[^']*)' subset \| (?P<pairs>.*)")
UPDATE = "num_updates"
Validations = dict[int, dict[str, float]]  # update -> key -> number
Runs = dict[str, dict[str, Validations]]  # system -> log, one a seed -> its validations


def read_runs(
    named: Mapping[str, Sequence[str]],
    subset: str = "valid",
    read: Read = read_lines,
) -> Runs:
    """Read the validations of system -> one training log a seed, see `read_validations`."""
    return {
        name: {path: read_validations(path, "--log", subset, read) for path in paths}
        for name, paths in named.items()
    }


def read_validations(
    path: str, flag: str, subset: str = "valid", read: Read = read_lines
) -> Validations:
    """Read every validation of one run from its training log, by number of updates.

    The file is what `fairseq-train --log-file FILE` wrote or its captured stderr, under
    `--log-format json` or `simple` (also tqdm, which prints validations as simple does). A line
    cut short, as a killed run leaves it, is passed over. A run that was resumed into the same
    file is one run: an update that comes again replaces the earlier one, and when updates step
    back, what came after them is dropped, since the run no longer descends from it.

    Args:
        subset: fairseq's --valid-subset; keys come back without its name.

    Returns:
        {update: {key: number}} in ascending order; numbers may be NaN or infinite.

    Raises:
        InputError: if there is no validation, saying what the file holds instead.
    """
    lines = read(path, flag)
    validations: Validations = {}
    for line in lines:
        numbers = _json_numbers(line, subset) or _simple_numbers(line, subset)
        if not math.isfinite(numbers.get(UPDATE, math.nan)):
            continue
        update = int(numbers.pop(UPDATE))
        if (
            line is lines[-1]
            and ENDS_IN_UPDATE.search(line)
            and update < max(validations, default=0)
        ):
            continue  # a number that was cut, no run that was resumed
        validations = {earlier: kept for earlier, kept in validations.items() if earlier < update}
        validations[update] = numbers
    if not validations:
        raise InputError(_explain_nothing(lines, path, flag, subset))
    return validations


def _json_numbers(line: str, subset: str) -> dict[str, float]:
    start = line.find("{")
    if start < 0 or not line.rstrip().endswith("}"):
        return {}
    try:
        content = json.loads(line[start:])
    except (ValueError, RecursionError):  # no JSON, a number of 5,000 digits, 5,000 brackets
        return {}
    prefix = f"{subset}_"
    if f"{prefix}gnorm" in content:  # an epoch's training, where the subset is called train, too
        return {}
    pairs = {k.removeprefix(prefix): v for k, v in content.items() if k.startswith(prefix)}
    return _numbers(pairs)


def _simple_numbers(line: str, subset: str) -> dict[str, float]:
    match = SIMPLE_LINE.search(line)
    if match is None or match["subset"] != subset:
        return {}
    pairs = dict(pair.rpartition(" ")[::2] for pair in match["pairs"].split(" | "))
    return _numbers(pairs)


def _numbers(pairs: dict[str, Any]) -> dict[str, float]:
    """Keep what is a number; fairseq writes most numbers as strings."""
    numbers = {}
    for key, value in pairs.items():
        try:
            numbers[key.strip()] = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return numbers


def _explain_nothing(lines: Sequence[str], path: str, flag: str, subset: str) -> str:
    others = {match["subset"] for line in lines if (match := SIMPLE_LINE.search(line))}
    others |= {match[1] for line in lines if (match := re.search(r'"(\w+?)_num_updates"', line))}
    others -= {subset, "train"}
    if others:
        return (
            f"{flag}: {path} has no validation on '{subset}', only on {', '.join(sorted(others))}; "
            "name one by --valid-subset"
        )
    return (
        f"{flag}: {path} has no validation lines among its {len(lines)}; expected the log of "
        "fairseq-train with --log-format json or simple and validation on"
    )

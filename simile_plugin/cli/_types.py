"""Types of argparse flags that are declared one by one: as those of `_flags.py`."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable
from typing import Any

from simile_plugin.cli._flags import RESAMPLES as RESAMPLES_RANGE
from simile_plugin.cli._flags import converter
from simile_plugin.files import FILE, Range
from simile_plugin.files import SEED as SEED_RANGE


def _parser_of(kind: type, allowed: Range) -> Callable[[str], Any]:
    field: dataclasses.Field[Any] = dataclasses.field(metadata={"range": allowed})
    field.type = kind
    return converter(field, kind)


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` to `most`."""
    return _parser_of(int, Range.at_least(least) if most is None else Range.within(least, most))


def real_number(least: float = -math.inf) -> Callable[[str], float]:
    """Return a parser of finite numbers of at least `least`."""
    allowed = Range.at_least(least) if math.isfinite(least) else Range(lambda x: True, "{}")
    return _parser_of(float, allowed)


file_name = _parser_of(str, FILE)
SEED = _parser_of(int, SEED_RANGE)
RESAMPLES = _parser_of(int, RESAMPLES_RANGE)
ALPHA = real_number(0)  # SIMILE's exponent of the length penalty


def add_device(parser: argparse.ArgumentParser, default: str | None = "cpu") -> None:
    """Declare --device."""
    text = "where the encoder runs: cpu, cuda, cuda:1 (default cpu)"
    parser.add_argument("--device", default=default, metavar="DEV", help=text)


def add_resamples(parser: argparse.ArgumentParser) -> None:
    """Declare --resamples, of the intervals."""
    text = "bootstrap resamples of the intervals (default %(default)s)"
    parser.add_argument("--resamples", type=RESAMPLES, default=1000, metavar="N", help=text)

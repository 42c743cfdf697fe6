"""Types of flags for argparse: what a value must be, and the line that says so."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable

from simile_plugin.files import InputError, finite_number


def _got(text: str, expected: str) -> argparse.ArgumentTypeError:
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return argparse.ArgumentTypeError(f"got {shlex.quote(shown)}, expected {expected}")


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A whole number from `least` to `most`."""
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"
    expected = f"a whole number {limits}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise _got(text, expected) from None
        if value < least or (most is not None and value > most):
            raise _got(text, expected)
        return value

    return parse


def real_number(least: float = -math.inf) -> Callable[[str], float]:
    """A finite number of at least `least`; NaN and infinity are none."""
    expected = "a finite number" if least == -math.inf else f"a number of at least {least:g}"

    def parse(text: str) -> float:
        value = finite_number(text)
        if value is None or value < least:
            raise _got(text, expected)
        return value

    return parse


def file_name(text: str) -> str:
    """The name of a file or folder."""
    if not text:
        raise _got(text, "the name of a file or folder")
    return text


SEED = whole_number(0, 2**32 - 1)  # what NumPy's, torch's and fairseq's generators all take
RESAMPLES = whole_number(40, 100_000)  # a 95% interval leaves out one of 40; all are held in memory
ALPHA = real_number(0)  # SIMILE's exponent of the length penalty


def add_device(parser: argparse.ArgumentParser, default: str | None = "cpu") -> None:
    """Declare --device."""
    parser.add_argument(
        "--device",
        default=default,
        metavar="DEV",
        help="where the encoder runs: cpu, cuda, cuda:1 (default cpu)",
    )


def refuse_without_encoder(args: argparse.Namespace, *names: str) -> None:
    """Raise InputError for a flag, by its attribute, that is of no use without --encoder."""
    for name in names:
        if getattr(args, name) is not None and args.encoder is None:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag}: there is no --encoder DIR it could be for")


def add_resamples(parser: argparse.ArgumentParser) -> None:
    """Declare --resamples, of the intervals."""
    parser.add_argument(
        "--resamples",
        type=RESAMPLES,
        default=1000,
        metavar="N",
        help="bootstrap resamples of the intervals (default %(default)s)",
    )

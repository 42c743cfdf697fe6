"""Flags as fields of a dataclass: type, default, range, choices and help stand at the field.

Trainers and commands read the same fields: `simile_plugin/cli/_flags.py` makes argparse's flags of
them, fairseq and transformers make theirs.
"""

import dataclasses
import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simile_plugin.files.errors import InputError


@dataclass(frozen=True)
class Range:
    """Values that a flag takes; in `expected`, {} stands for "a number" or "a whole number"."""

    contains: Callable[[Any], bool]
    expected: str

    @classmethod
    def at_least(cls, least: float) -> "Range":
        """Return the numbers from `least` on."""
        return cls(lambda x: x >= least, f"{{}} of at least {least:g}")

    @classmethod
    def above(cls, bound: float) -> "Range":
        """Return the numbers greater than `bound`."""
        return cls(lambda x: x > bound, f"{{}} above {bound:g}")

    @classmethod
    def within(cls, least: float, most: float) -> "Range":
        """Return the numbers from `least` to `most`, both included."""
        return cls(lambda x: least <= x <= most, f"{{}} from {least} to {most}")


FILE = Range(bool, "the name of a file or folder")
SEED = Range.within(0, 2**32 - 1)  # what NumPy's, torch's and fairseq's generators all take
_ANY = Range(lambda x: True, "{}")


def option(help: str, default: Any = dataclasses.MISSING, **metadata: Any) -> Any:
    """Return a dataclass field that is a flag; without a default it must be given.

    Types: bool (a flag without a value), int, float, str, each perhaps `| None`; list of them (a
    flag with several values, or with `nargs`); tuple of them (as many values).

    Args:
        help: with the unit and the paper's value; the default is added unless "(default" is there.
        default: a list is copied.
        metadata: of `metavar`, `range` (a Range), `choices`, `nargs`, `group` (title of the section
            in --help), `names` (("-r", "--ref"); a name without a dash is a positional argument).
    """
    if isinstance(default, list):
        return dataclasses.field(
            default_factory=default.copy, kw_only=True, metadata={"help": help, **metadata}
        )
    return dataclasses.field(default=default, kw_only=True, metadata={"help": help, **metadata})


def flag_name(name: str) -> str:
    """Return the flag of a field: risk_alpha -> --risk-alpha."""
    return f"--{name.replace('_', '-')}"


def check_fields(settings: Any, of: Any = None) -> None:
    """Check each field of a dataclass against its range and choices; None is no value.

    of: a dataclass, where only its fields of `settings` are to be checked.

    Raises:
        InputError: "--flag: got X, expected Y", for the first that is not taken.
    """
    for field in dataclasses.fields(of or settings):
        value = getattr(settings, field.name)
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None and (problem := problem_of(field, one)):
                names = field.metadata.get("names", [flag_name(field.name)])
                raise InputError(f"{names[-1]}: {problem}")


def problem_of(field: dataclasses.Field[Any], value: Any, typed: str | None = None) -> str:
    """Return "got X, expected Y" for a value that the field does not take, else "".

    A number must be finite, and text for a number (what argparse could not convert) is none.
    typed: what a user typed for it.
    """
    allowed: Range = field.metadata.get("range", _ANY)
    choices = field.metadata.get("choices")
    noun = _noun(field)
    expected = allowed.expected.format(noun)
    if isinstance(value, float) and not math.isfinite(value):
        general = "{}" in allowed.expected
        expected = allowed.expected.format("a finite number") if general else "a finite number"
    elif isinstance(value, str) and noun:
        pass
    elif choices and value not in choices:
        expected = " or ".join(map(str, choices))
    elif allowed.contains(value):
        return ""
    shown = str(value) if typed is None else typed
    shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
    return f"got {shlex.quote(shown)}, expected {expected}"


def _noun(field: dataclasses.Field[Any]) -> str:
    """Return the words for the kind of number that a field has, "" for text."""
    if "float" in str(field.type):
        return "a number"
    return "a whole number" if "int" in str(field.type) else ""

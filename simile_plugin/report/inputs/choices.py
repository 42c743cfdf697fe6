"""Choose the systems that are compared, and how their differences are tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simile_plugin.files import InputError
from simile_plugin.significance import BOOTSTRAP_RESAMPLES, SEED

LEVEL = 0.05


@dataclass(frozen=True)
class PairedTest:
    """Settings of the paired bootstrap (Koehn 2004) and of the intervals."""

    kind: str = field(default="bootstrap", init=False)
    resamples: int = BOOTSTRAP_RESAMPLES
    seed: int = SEED


def choose_baselines(names: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Choose the one or two systems that the others are tested against.

    Without a wish: those named MLE and BLEU, as in the paper, or else the first one.

    Raises:
        InputError: for an unknown name, a repeated one, or more than two.
    """
    for name in wanted:
        if name not in names:
            raise InputError(f"--baseline: got {name}; expected one of {', '.join(names)}")
    if len(wanted) > 2 or len(set(wanted)) < len(wanted):
        raise InputError(
            f"--baseline: got {','.join(wanted)}; expected one or two different systems"
        )
    by_default = [n for word in ("mle", "bleu") for n in names if n.casefold() == word]
    return tuple(wanted or by_default[:2] or names[:1])


def choose_pair(
    flag: str, names: Sequence[str], wanted: str | None, default: Sequence[str]
) -> tuple[str, str]:
    """Choose two systems: those of `flag`, "FIRST,SECOND", or those by default.

    Raises:
        InputError: for one system only, unknown names, or not two of them.
    """
    if len(names) < 2:
        raise InputError(f"--sys: got {', '.join(names)} alone; a comparison needs two systems")
    pair = [name.strip() for name in wanted.split(",")] if wanted else default
    for name in pair:
        if name not in names:
            raise InputError(f"{flag}: got {name}; expected two of {', '.join(names)}")
    if len(pair) != 2 or pair[0] == pair[1]:
        raise InputError(f"{flag}: got {wanted}; expected two different systems")
    return pair[0], pair[1]

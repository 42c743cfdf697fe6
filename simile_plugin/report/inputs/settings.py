"""How differences are tested, and the ranges of what can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simile_plugin import significance
from simile_plugin.files import InputError

LEVEL = 0.05
FEWEST_RESAMPLES = 40  # a 95% interval leaves out one of 40 at either end
MOST_DRAWS = 1_000_000  # a score is kept for each draw and system: 8 MB a system


@dataclass(frozen=True)
class PairedTest:
    """How differences are tested.

    Attributes:
        kind: "bootstrap" (Koehn 2004), "randomisation" (two-sided, slower), or "both".
        resamples: bootstrap resamples; the intervals come from them under either kind.
        trials: trials of approximate randomisation.
        seed: of the random draws.

    Raises:
        InputError: for too few draws, too many to keep, or a negative seed.
    """

    kind: str = "bootstrap"
    resamples: int = significance.BOOTSTRAP_RESAMPLES
    trials: int = significance.RANDOMISATION_TRIALS
    seed: int = significance.SEED

    def __post_init__(self) -> None:
        for flag, value, least in (
            ("--resamples", self.resamples, FEWEST_RESAMPLES),
            ("--trials", self.trials, 1),
        ):
            if value < least:
                raise InputError(f"{flag}: got {value}; expected at least {least}")
            if value > MOST_DRAWS:
                raise InputError(f"{flag}: got {value}; expected at most {MOST_DRAWS:,}")
        if self.seed < 0:
            raise InputError(f"--seed: got {self.seed}; expected at least 0")

    def describe(self) -> str:
        """The test in words, for a legend."""
        bootstrap = f"paired bootstrap, {self.resamples:,} resamples"
        randomisation = f"paired approximate randomisation, {self.trials:,} trials"
        words = {
            "bootstrap": bootstrap,
            "randomisation": randomisation,
            "both": f"{bootstrap}, and {randomisation}",
        }
        return f"{words[self.kind]}, seed {self.seed}"


def choose_baselines(names: list[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The one or two systems that the others are tested against.

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


def choose_pair(flag: str, names: list[str], wanted: str | None, default: list[str]) -> list[str]:
    """Two systems: those of `flag`, "FIRST,SECOND", or those by default.

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
    return pair

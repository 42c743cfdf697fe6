"""Stops a run that cannot end well: one whose gradients are no numbers, or whose reward is gamed.

A gamed reward's cost falls while lengths or repetition leave. A run that can gain little, as the
model knows its training sentences by heart, is warned of.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simile_plugin.files import InputError

logger = logging.getLogger(__name__)

GAMING_ADVICE = (
    "the reward is being gamed: take an earlier checkpoint, raise --mle-weight, lower "
    "--risk-cost-scale or the learning rate, or train on --reward half"
)
NONFINITE_ADVICE = (
    "lower --learning-rate or --risk-cost-scale, raise --mle-weight, set --max-grad-norm; with "
    "--fp16 try --bf16"
)
RISE_ADVICE = (
    "lower the learning rate; or, if costs in training are far below it, train on sentences that "
    "the MLE model has not learned by heart (docs/how-to/choose-pairs.md)"
)
KNOWN_ADVICE = (
    "the model seems to know them by heart, and its candidates for them teach little: train on "
    "pairs that MLE training has not read (docs/how-to/choose-pairs.md)"
)
CONTROL_ADVICE = "see --risk-length-control, --risk-cost-scale and --mle-weight"
# What training on SIMILE alone showed, and training on BLEU did not: lengths 3 % beyond the start
# and 1, and a quarter more repeated bigrams (at least half a percent of all, or it is chance).
# The report's gaming section has the same numbers.
LENGTH_SIGN, REPETITION_SIGN, REPETITION_FLOOR = 0.03, 0.25, 0.005
# Cost of training sentences by that of validation. Trainings that gained had 0.93 and more (those
# of Multi30k), those that gained nothing 0.76 (Tatoeba) and 0.65 (MAFAND).
KNOWN_BY_HEART = 0.85
VALIDATIONS = 2  # in a row outside the band, before training stops
# BLEU before the first update below which a model does not translate these sources at all.
LEAST_BLEU = 1.0
UNTRAINED_ADVICE = (
    "are source and target exchanged, or is the model of another direction, language or vocabulary?"
)
# Before so many updates, or the second validation after the first, what moved may be chance.
LEAST_UPDATES, LEAST_VALIDATIONS = 50, 2


# Metrics of a validation that are judged.
WATCHED = ("cost", "length_ratio", "bleu", "repetition")


@dataclass
class RunWatch:
    """What a run's updates and validations said.

    Attributes:
        first: cost, length ratio, BLEU and repetition of the run's first validation.
        seen: validations after it.
        outside: validations in a row that would end the run, see :meth:`see`.
        nonfinite: updates in a row that were skipped.
        known: whether training sentences that are known by heart have been warned of.
        stop: why training stops after the current validation, or "".
        advice, remedy: what to do about a gamed reward, and about NaN, in a framework's flags.
        error: what is raised.
    """

    first: list[float] | None = None
    seen: int = 0
    outside: int = 0
    nonfinite: int = 0
    known: bool = False
    stop: str = ""
    advice: ClassVar[str] = GAMING_ADVICE
    remedy: ClassVar[str] = NONFINITE_ADVICE
    error: ClassVar[type[Exception]] = InputError

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"first": self.first, "outside": self.outside, "seen": self.seen}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`."""
        self.first, self.outside = state["first"], int(state["outside"])
        self.seen = int(state.get("seen", LEAST_VALIDATIONS))  # version 0.1.0 did not count

    def check_goes_on(self, band: float) -> None:
        """Raise ``error`` for a run, started again, that was stopped because it was gamed."""
        if band and self.outside >= VALIDATIONS:
            raise self.error(f"this run was stopped: {self.advice}; --risk-length-band 0 goes on")

    def skip(self, limit: int, update: int) -> None:
        """Count an update with a NaN or infinite gradient, which is skipped.

        Raises:
            Exception: of the class ``error``, for more than ``limit`` in a row.
        """
        self.nonfinite += 1
        if self.nonfinite > limit:
            raise self.error(
                f"the gradient was NaN or infinite {self.nonfinite} times in a row "
                f"(--risk-max-skipped {limit}): {self.remedy}"
            )
        logger.warning(
            f"update {update}: the gradient is NaN or infinite; the update is skipped "
            f"({self.nonfinite} in a row)"
        )

    def see_metrics(
        self,
        metrics: Mapping[str, Any],
        band: float,
        updates: int,
        prefix: str = "",
        trained: float | None = None,
    ) -> None:
        """Judge a validation by its metrics, where it has them and they are finite; see `see`.

        Args:
            trained: mean cost of training sentences so far; None is not known, or of no weight.
        """
        seen = [metrics.get(prefix + name, math.nan) for name in WATCHED]
        numbers = [math.nan if value is None else float(value) for value in seen]
        if all(map(math.isfinite, numbers)):
            cost, length_ratio, bleu, repetition = numbers
            known = trained is not None and trained < KNOWN_BY_HEART * cost
            if known and not self.known and updates >= LEAST_UPDATES:
                self.known = True
                logger.warning(
                    f"candidates for training sentences cost {trained:.2f}, those of validation "
                    f"{cost:.2f}: {KNOWN_ADVICE}"
                )
            self.see(cost, length_ratio, bleu, repetition, band, updates)

    def see(
        self,
        cost: float,
        length_ratio: float,
        bleu: float,
        repetition: float,
        band: float,
        updates: int = LEAST_UPDATES,
    ) -> None:
        """Judge a validation: does the trained cost fall while BLEU falls and lengths leave?

        Nothing is said before ``LEAST_UPDATES`` and ``LEAST_VALIDATIONS``, nor where BLEU is not
        below the first one's. A warning for a cost above the first one; for one that is not, where
        length_ratio > 1.03 * max(1, first) or < min(1, first) / 1.03, or with ``REPETITION_SIGN``
        more repetition than the first one would have at this length. The end where, for
        ``VALIDATIONS`` in a row, length_ratio leaves ``band`` in the same way, or repetition has
        doubled.

        Args:
            cost: expected cost of the trained reward, 0 to 1.
            length_ratio: words of the best candidates over words of the references.
            bleu: of the best candidates, 0 to 100.
            repetition: share of the bigrams of one of them that it has said before, their mean.
            band: ``--risk-length-band``; 0 never ends a run.
            updates: that the run has made.
        """
        if self.first is None:
            self.first = [cost, length_ratio, bleu, repetition]
            if bleu < LEAST_BLEU and length_ratio > 0 and not updates:
                logger.warning(f"BLEU is {bleu:.2f} before the first update: {UNTRAINED_ADVICE}")
            return
        self.seen += 1
        first_cost, first_ratio, first_bleu, *others = self.first
        first_repetition = others[0] if others else repetition  # a run of version 0.1.0 goes on
        length = _leaves(length_ratio, first_ratio, 1 + LENGTH_SIGN)
        # Of a text that is longer by a factor, as much larger a share repeats.
        usual = first_repetition * max(1.0, length_ratio / first_ratio if first_ratio else 1.0)
        more = repetition - usual
        repeats = more > REPETITION_SIGN * usual and more > REPETITION_FLOOR
        early = updates < LEAST_UPDATES or self.seen < LEAST_VALIDATIONS
        if early or bleu >= first_bleu:
            self.outside = 0
            return
        if cost > first_cost:
            logger.warning(f"cost rose from {first_cost:.4f} to {cost:.4f}: {RISE_ADVICE}")
        if cost >= first_cost or not (length or repeats):
            self.outside = 0
            return
        signs = [f"the length ratio went from {first_ratio:.3f} to {length_ratio:.3f}"] * length
        signs += [f"repeated bigrams from {first_repetition:.2%} to {repetition:.2%}"] * repeats
        change = (
            f"cost fell from {first_cost:.4f} to {cost:.4f}, but {' and '.join(signs)}, and BLEU "
            f"fell from {first_bleu:.2f} to {bleu:.2f}"
        )
        far = bool(band) and _leaves(length_ratio, first_ratio, band)
        far = far or (repeats and more > usual)
        if not far or not band:
            self.outside = 0
            logger.warning(f"{change}: the reward may be gamed; {CONTROL_ADVICE}")
            return
        self.outside += 1
        if self.outside < VALIDATIONS:
            logger.warning(f"{change}; training stops if the next validation finds the same")
        else:
            self.stop = f"{change}: {self.advice}; --risk-length-band 0 never stops"


def _leaves(ratio: float, first: float, band: float) -> bool:
    """Return whether a ratio of lengths is beyond the first one and 1 by more than a factor."""
    return not min(1.0, first) / band <= ratio <= band * max(1.0, first)

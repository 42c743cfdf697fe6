"""Stops a run that cannot end well: one whose gradients are no numbers, or whose reward is gamed.

A gamed reward's cost falls while lengths or repetition leave. A run that can gain little, as the
model knows its training sentences by heart, is warned of.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from simile_plugin.files import InputError
from simile_plugin.reward import LENGTH_SIGN, REPETITION_FLOOR, REPETITION_SIGN
from simile_plugin.risk.known_pairs import KNOWN_BY_HEART

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
VALIDATIONS = 2  # in a row outside the band, before training stops
# BLEU before the first update below which a model does not translate these sources at all.
LEAST_BLEU = 1.0
UNTRAINED_ADVICE = (
    "are source and target exchanged, or is the model of another direction, language or vocabulary?"
)
# Before so many updates, or the second validation after the first, what moved may be chance.
LEAST_UPDATES, LEAST_VALIDATIONS = 50, 2
# Share of the first BLEU from which on it has fallen: less moves by chance, and is made good again.
LEVEL = 0.99


class Validation(NamedTuple):
    """The metrics of a validation that are judged.

    Attributes:
        cost: expected cost of the trained reward, 0 to 1.
        length_ratio: words of the best candidates over words of the references.
        bleu: of the best candidates, 0 to 100.
        repetition: share of the bigrams of one of them that it has said before, their mean.
    """

    cost: float
    length_ratio: float
    bleu: float
    repetition: float

    def longer_or_shorter(self, first: Validation, band: float) -> bool:
        """Return whether the length ratio is beyond the first one and 1 by more than a factor."""
        shortest, longest = min(1.0, first.length_ratio), max(1.0, first.length_ratio)
        return not shortest / band <= self.length_ratio <= band * longest

    def excess_repetition(self, first: Validation) -> tuple[float, float]:
        """Return how much more is repeated than in the first one, and what that is measured by.

        A text k times as long repeats a k times larger share of its bigrams.
        """
        longer = self.length_ratio / first.length_ratio if first.length_ratio else 1.0
        usual = first.repetition * max(1.0, longer)
        return self.repetition - usual, usual

    def repeats(self, first: Validation) -> bool:
        """Return whether repetition shows that the reward is gamed."""
        more, usual = self.excess_repetition(first)
        return more > REPETITION_SIGN * usual and more > REPETITION_FLOOR


@dataclass
class RunWatch:
    """The counts of a run's updates and validations by which it is warned or stopped.

    Attributes:
        first: the run's first validation.
        seen: validations after it.
        outside: validations in a row that would end the run, see :meth:`see`.
        nonfinite: updates in a row that were skipped.
        known: whether training sentences that are known by heart have been warned of.
        stop: why training stops after the current validation, or "".
        advice, remedy: what to do about a gamed reward, and about NaN, in a framework's flags.
        error: what is raised.
    """

    first: Validation | None = None
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
        first = None if self.first is None else list(self.first)
        return {"first": first, "outside": self.outside, "seen": self.seen}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`."""
        self.first = None if state["first"] is None else Validation(*state["first"])
        self.outside, self.seen = int(state["outside"]), int(state["seen"])

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
        seen = [metrics.get(prefix + name, math.nan) for name in Validation._fields]
        validation = Validation(*(math.nan if value is None else float(value) for value in seen))
        if not all(map(math.isfinite, validation)):
            return
        by_heart = trained is not None and trained < KNOWN_BY_HEART * validation.cost
        if by_heart and not self.known and updates >= LEAST_UPDATES:
            self.known = True
            logger.warning(
                f"candidates for training sentences cost {trained:.2f}, those of validation "
                f"{validation.cost:.2f}: {KNOWN_ADVICE}"
            )
        self.see(validation, band, updates)

    def see(self, validation: Validation, band: float, updates: int = LEAST_UPDATES) -> None:
        """Judge a validation: does the trained cost fall while BLEU falls and lengths leave?

        Nothing is said before ``LEAST_UPDATES`` and ``LEAST_VALIDATIONS``, nor where BLEU is at
        least ``LEVEL`` of the first one's. A warning for a cost above the first one; for one that
        is not, where length_ratio > 1.03 * max(1, first) or < min(1, first) / 1.03, or with
        ``REPETITION_SIGN`` more repetition than the first one would have at this length. The end
        where, for ``VALIDATIONS`` in a row, length_ratio leaves ``band`` in the same way, or
        repetition has doubled.

        Args:
            band: ``--risk-length-band``; 0 never ends a run.
            updates: that the run has made.
        """
        first = self.first
        if first is None:
            self._begin(validation, updates)
            return
        self.seen += 1
        early = updates < LEAST_UPDATES or self.seen < LEAST_VALIDATIONS
        worse = not early and validation.bleu < LEVEL * first.bleu
        if worse and validation.cost > first.cost:
            logger.warning(
                f"cost rose from {first.cost:.4f} to {validation.cost:.4f}: {RISE_ADVICE}"
            )
        signs = _signs(validation, first)
        if not worse or validation.cost >= first.cost or not signs:
            self.outside = 0
            return
        change = (
            f"cost fell from {first.cost:.4f} to {validation.cost:.4f}, but {' and '.join(signs)}, "
            f"and BLEU fell from {first.bleu:.2f} to {validation.bleu:.2f}"
        )
        more, usual = validation.excess_repetition(first)
        doubled = validation.repeats(first) and more > usual
        if not band or not (doubled or validation.longer_or_shorter(first, band)):
            self.outside = 0
            logger.warning(f"{change}: the reward may be gamed; {CONTROL_ADVICE}")
            return
        self.outside += 1
        if self.outside < VALIDATIONS:
            logger.warning(f"{change}; training stops if the next validation finds the same")
        else:
            self.stop = f"{change}: {self.advice}; --risk-length-band 0 never stops"

    def _begin(self, validation: Validation, updates: int) -> None:
        self.first = validation
        if validation.bleu < LEAST_BLEU and validation.length_ratio > 0 and not updates:
            logger.warning(
                f"BLEU is {validation.bleu:.2f} before the first update: {UNTRAINED_ADVICE}"
            )


def _signs(validation: Validation, first: Validation) -> list[str]:
    """Return the changes since the first validation that a gamed reward shows, in words."""
    signs = []
    if validation.longer_or_shorter(first, 1 + LENGTH_SIGN):
        signs.append(
            f"the length ratio went from {first.length_ratio:.3f} to {validation.length_ratio:.3f}"
        )
    if validation.repeats(first):
        signs.append(f"repeated bigrams from {first.repetition:.2%} to {validation.repetition:.2%}")
    return signs

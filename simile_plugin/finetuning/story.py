"""What a person reads of a fine-tuning: its plan, a line a validation, a table at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simile_plugin.finetuning.options import Options
from simile_plugin.finetuning.presets import PAPER_EPOCHS
from simile_plugin.risk import what_to_expect

if TYPE_CHECKING:
    from simile_plugin.risk import RiskSettings

MEASURED_UPDATES = 5  # after so many an update's seconds are said

# Metric of a validation, its title, and how a number and a difference of it are written.
COLUMNS = (
    ("cost", "cost", "8.4f", "+8.4f"),
    ("bleu", "BLEU", "8.2f", "+8.2f"),
    ("chrf", "chrF", "8.2f", "+8.2f"),
    ("sim", "SIM", "8.2f", "+8.2f"),
    ("length_ratio", "length", "8.3f", "+8.3f"),
    ("repetition", "repeats", "8.2%", "+8.2%"),
)


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


@dataclass
class RunStory:
    """Tells a run while it goes on.

    Attributes:
        reward: what is trained on, and how.
        updates: how many there will be.
        batch: sentences of an update.
        sentences: of the training data.
        rate: the learning rate, and whether it falls.
        interval: updates between validations.
        validation_set: its sentences; 0: there is none.
        say: takes a line.
        now: seconds of a clock.
        validations: metrics by update.
        known: costs of training and validation sentences before the first update.
        keeps_last: of equally good models the last is kept, not the first.
        metric: of a validation, by which the best model is kept.
        highest: its best value is the highest one.
    """

    reward: str
    updates: int
    batch: int
    sentences: int
    rate: str
    interval: int
    validation_set: int
    say: Callable[[str], object] = say
    now: Callable[[], float] = time.monotonic
    validations: dict[int, dict[str, float]] = field(default_factory=dict)
    known: dict[str, float] = field(default_factory=dict)
    done: int = 0  # updates
    keeps_last: bool = False
    metric: str = "bleu"
    highest: bool = True
    earlier: int = 0  # of them by a run that was stopped, or ended
    _since: float | None = None
    _measured: int = 0
    _training: float = 0.0
    _validating: list[float] = field(default_factory=list)

    def plan(self) -> str:
        """Return what the run is going to do, in four lines."""
        epochs = self.updates * self.batch / max(1, self.sentences)
        checks = f"{self.validation_set:,} sentences, before the first update and every "
        return "\n".join(
            (
                f"reward      {self.reward}",
                f"updates     {self.updates:,} of {self.batch} sentences, {epochs:.1f} epochs of "
                f"{self.sentences:,}",
                f"rate        {self.rate}",
                f"validation  {checks}{self.interval}" if self.validation_set else "no validation",
            )
        )

    def begin(self) -> None:
        """Start the clock: an update or a validation begins now."""
        self._since = self.now()

    def _lap(self) -> float | None:
        before, self._since = self._since, self.now()
        return None if before is None else self._since - before

    def update(self, number: int) -> None:
        """Count an update, or several, that ended now."""
        lap, before, self.done = self._lap(), self.done, number
        if lap is None or number <= before:
            return
        said = self._measured >= MEASURED_UPDATES
        self._training += lap
        self._measured += number - before
        if not said and self._measured >= MEASURED_UPDATES:
            each = self._training / self._measured
            self.say(f"        {each:.2g} s an update: {self.left()} left")

    def validation(self, number: int, metrics: Mapping[str, float]) -> None:
        """Tell a validation that ended now, in one line; its names are those of the log."""
        if (lap := self._lap()) is not None:
            self._validating.append(lap)
        self.done = number
        if not self.validations:
            self.say(" update" + "".join(f"{title:>9}" for _, title, *_ in columns_of(metrics)))
        self.validations[number] = dict(metrics)
        left = f"   {self.left()} left" if self._measured and number < self.updates else ""
        self.say(f"{number:7,}{numbers_of(metrics)}{left}")

    def known_pairs(self, cost: float, sentences: int) -> None:
        """Say what gain to expect, by the cost of training sentences before the first update."""
        validation = self.validations[min(self.validations)]["cost"]
        self.known = {"sentences": sentences, "training": cost, "validation": validation}
        self.say(f"pairs: {what_to_expect(cost, validation, sentences)}")

    def out_of_patience(self, patience: int) -> bool:
        """Return whether so many validations in a row were no better; 0 never is."""
        after = [update for update in self.validations if update] or [*self.validations]
        best = max(after, key=self._worth)  # the first of equals: an equal one is no better
        return 0 < patience <= sum(update > best for update in self.validations)

    def ended_early(self, patience: int) -> bool:
        """Return whether so much patience ended the training before its last update."""
        return (
            bool(self.validations) and self.done < self.updates and self.out_of_patience(patience)
        )

    def left(self) -> str:
        """Return the time that updates and validations still take, in words."""
        updates = max(0, self.updates - self.done)
        seconds = updates * self._training / max(1, self._measured)
        if self._validating:
            checks = -(-updates // self.interval)
            seconds += checks * sum(self._validating) / len(self._validating)
        return in_words(seconds)

    @property
    def trained(self) -> bool:
        """Return whether an update was made by this run."""
        return self.done > self.earlier

    def _worth(self, update: int) -> float:
        value = self.validations[update].get(self.metric, 0.0)
        return value if self.highest else -value

    @property
    def metric_name(self) -> str:
        """Return the metric that chooses, as a person reads it."""
        return {key: title for key, title, *_ in COLUMNS}.get(self.metric, self.metric)

    def best(self, since: int = 0) -> int:
        """Return the update whose validation is the best by `metric`; of equals see `keeps_last`.

        since: look at the validations from this update on, if there are any.
        """
        updates = [update for update in self.validations if update >= since]
        order = sorted(updates or self.validations, reverse=self.keeps_last)
        return max(order, key=self._worth)

    def table(self, before: str, chosen: int) -> str:
        """Return the validation before the first update, the chosen one, and what changed."""
        first = self.validations[min(self.validations)]
        return validation_table({before: first, f"update {chosen:,}": self.validations[chosen]})


def validation_table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return validations, a line each, and the difference of the last one from the first."""
    names, (first, *_, last) = [*rows, "difference"], rows.values()
    columns, width = columns_of(first), max(map(len, names))
    change = "".join(f" {last[key] - first[key]:{sign}}" for key, _, _, sign in columns)
    lines = [" " * width + "".join(f"{title:>9}" for _, title, *_ in columns)]
    lines += [f"{name:<{width}}{numbers_of(metrics)}" for name, metrics in rows.items()]
    return "\n".join([*lines, f"{names[-1]:<{width}}{change}"])


def columns_of(metrics: Mapping[str, float]) -> list[tuple[str, str, str, str]]:
    """Return those of COLUMNS that a validation has."""
    return [column for column in COLUMNS if column[0] in metrics]


def numbers_of(metrics: Mapping[str, float]) -> str:
    """Return the numbers of a validation under the titles of its columns."""
    return "".join(f" {metrics[key]:{form}}" for key, _, form, _ in columns_of(metrics))


def in_words(seconds: float) -> str:
    """Return a time as people say it: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def make_story(
    options: Options, risk: RiskSettings, sentences: int, validation_set: int, devices: int = 1
) -> RunStory:
    """Return the plan of a run, ready to tell it, from the numbers of its sentence pairs.

    Args:
        devices: that share an update, of which each has its batches.
    """
    batch = options.batch_size * options.update_freq * devices
    falling = " falling to 0" if options.schedule == "linear" else ", constant"
    return RunStory(
        reward=f"{risk.reward} (--risk-alpha {risk.risk_alpha:g} --risk-cost-scale "
        f"{risk.risk_cost_scale:g} --mle-weight {risk.mle_weight:g})",
        updates=options.max_updates or -(-PAPER_EPOCHS * sentences // batch),
        batch=batch,
        sentences=sentences,
        rate=f"{options.learning_rate:g}{falling}",
        interval=options.valid_interval,
        validation_set=validation_set,
    )

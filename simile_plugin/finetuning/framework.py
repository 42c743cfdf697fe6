"""What the two frameworks have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from simile_plugin.finetuning.options import Options
from simile_plugin.finetuning.story import RunStory


class Finetuning(Protocol):
    """The steps of a fine-tuning that each framework does in its way."""

    @property
    def options(self) -> Options:
        """The flags, as given."""

    def say(self, line: str, /) -> object:
        """Print a line; only the first of several processes does."""

    def train(self, run: Path, seed: int) -> RunStory:
        """Train in a folder, or go on there; tell it, and leave its best model there."""

    def end(self, story: RunStory, run: Path) -> str:
        """Return what is said where a training has ended: its model, and what to do next."""

    def model(self, run: Path, validated: bool) -> Path:
        """Return where a training leaves its model, the best by validation if there were any."""

    def average(self, models: Sequence[Path], run: Path) -> Path:
        """Write the mean of models into a folder, and return where it is."""

    def validate(self, model: Path, run: Path) -> dict[str, float]:
        """Return the metrics of a model on the validation set, as a training has them."""

    def next_steps(self, model: Path, logs: Sequence[Path]) -> str:
        """Return the commands that translate by a model, and compare."""

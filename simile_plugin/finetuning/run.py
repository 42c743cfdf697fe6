"""A fine-tuning from its beginning to its end, whichever framework trains."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from simile_plugin.finetuning.options import Options
from simile_plugin.finetuning.story import RunStory
from simile_plugin.reward import Reward
from simile_plugin.risk import RiskSettings, check_settings, read_control


class Finetuning(Protocol):
    """What a framework does in a fine-tuning."""

    @property
    def options(self) -> Options:
        """The flags, as given."""

    def train(self, run: Path) -> RunStory:
        """Train in a folder, or go on there; tell it, and leave its best model there."""

    def end(self, story: RunStory, run: Path) -> str:
        """Return what is said where a training has ended: its model, and what to do next."""


def check_reward(risk: RiskSettings) -> str:
    """Refuse a reward that cannot be had, before anything is read or told.

    Returns:
        what identifies it: a learned reward by its content, wherever its folder lies.

    Raises:
        InputError: naming --reward or --encoder.
    """
    check_settings(risk)
    control, spec = read_control(risk.reward)
    reward = Reward(spec)
    if not risk.simile_encoder:
        reward.refuse_missing_encoder("--encoder")
    return risk.reward.replace(spec, reward.identity) if control else reward.identity


def finetune(finetuning: Finetuning) -> None:
    """Train, tell it, and say where the model is.

    Raises:
        InputError: for input that cannot work.
    """
    run = Path(finetuning.options.output)
    story = finetuning.train(run)
    if not story.trained:
        story.say(
            f"nothing was trained: {run} has its {story.updates:,} updates; for more give "
            "--max-updates, for another training another --output"
        )
    if last := finetuning.end(story, run):
        story.say(f"\n{last}")

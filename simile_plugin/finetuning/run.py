"""A fine-tuning from its beginning to its end, whichever framework trains."""

from __future__ import annotations

from pathlib import Path

from simile_plugin.finetuning.framework import Finetuning
from simile_plugin.finetuning.seeds import finetune_seeds
from simile_plugin.finetuning.story import RunStory
from simile_plugin.reward import Reward
from simile_plugin.risk import RiskSettings, check_settings, read_control


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
    options = finetuning.options
    if options.seeds > 1:
        finetune_seeds(finetuning)
        return
    run = Path(options.output)
    story = finetuning.train(run, options.seed)
    if not story.trained:
        finetuning.say(nothing_trained(run, story, options.patience))
    elif story.ended_early(options.patience):
        finetuning.say(stopped_early(story, options.patience))
    if last := finetuning.end(story, run):
        finetuning.say(f"\n{last}")


def stopped_early(story: RunStory, patience: int) -> str:
    """Return why a training ended before its last update."""
    return (
        f"stopped after update {story.done:,} of {story.updates:,}: the last {patience} "
        f"validations had no better {story.metric_name} (--patience)"
    )


def nothing_trained(run: Path, story: RunStory, patience: int) -> str:
    """Return why a command that was repeated trained nothing, and what to do for more."""
    if story.ended_early(patience):
        return (
            f"nothing was trained: {run} ended after update {story.done:,} of {story.updates:,}, "
            f"as the last {patience} validations had no better {story.metric_name}; a larger "
            "--patience goes on"
        )
    return (
        f"nothing was trained: {run} has its {story.updates:,} updates; for more give "
        "--max-updates, for another training another --output"
    )

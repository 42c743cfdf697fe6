"""One training by several seeds, and the mean of their weights.

Seeds of one training differ by chance. The mean of their weights is one model, as fast as each, and
on three corpora better than they are on average (Wortsman et al. 2022, "Model soups";
recipes/evidence/results.md has the figures).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simile_plugin.files import InputError
from simile_plugin.finetuning.begun import RECORD
from simile_plugin.finetuning.framework import Finetuning
from simile_plugin.finetuning.story import RunStory, validation_table


def finetune_seeds(finetuning: Finetuning) -> None:
    """Train by each seed in RUN/seed.K, average the models, validate the mean, say which to use.

    A training that is done is not repeated.

    Raises:
        InputError: for input that cannot work, and a folder that holds a single training.
    """
    options, run, say = finetuning.options, Path(finetuning.options.output), finetuning.say
    if (run / RECORD).exists():
        raise InputError(
            f"--seeds: {run} holds a single training; name another --output, or leave --seeds out"
        )
    stories: dict[Path, RunStory] = {}
    for count in range(options.seeds):
        seed = options.seed + count
        folder = run / f"seed.{seed}"
        say(f"{'' if not count else chr(10)}seed {seed}: training {count + 1} of {options.seeds}")
        story = stories[folder] = finetuning.train(folder, seed)
        if not story.trained:
            early = story.ended_early(options.patience)
            updates = f"ended after update {story.done:,} of" if early else "has its"
            say(f"done before: {folder} {updates} {story.updates:,}{'' if early else ' updates'}")
        elif story.ended_early(options.patience):
            say(f"stopped after update {story.done:,}: no better {story.metric_name} (--patience)")
    validated = bool(story.validations)
    models = {folder: finetuning.model(folder, validated) for folder in stories}
    mean = chosen = finetuning.average([*models.values()], run)
    if validated:
        say(f"\nvalidating {mean}, the mean of their weights")
        metrics = finetuning.validate(mean, run)
        say(f"\non the validation set:\n{table_of_seeds(stories, metrics)}\n")
        chosen, advice = choose(stories, models, mean, metrics["bleu"])
        say(advice)
    else:
        say(f"\nno validation set: {mean} is the mean of {options.seeds} models")
    say(finetuning.next_steps(chosen, [*stories]))


def best_of(story: RunStory) -> Mapping[str, float]:
    """Return the metrics of the model that a training leaves."""
    return story.validations[story.best()]


def table_of_seeds(stories: Mapping[Path, RunStory], mean: Mapping[str, float]) -> str:
    """Return a line for the model before, each seed's best and the mean; then the mean's gain."""
    first = next(iter(stories.values())).validations
    rows: dict[str, Mapping[str, float]] = {"before": first[min(first)]}
    for folder, story in stories.items():
        rows[f"{folder.name}, update {story.best():,}"] = best_of(story)
    return validation_table(rows | {"mean of weights": mean})


def choose(
    stories: Mapping[Path, RunStory], models: Mapping[Path, Path], mean: Path, bleu: float
) -> tuple[Path, str]:
    """Return which model to use, and why, in a line.

    The mean is held against the seeds' average: the best of them owes a part of its lead to having
    been chosen on this set.

    Args:
        bleu: of the mean on the validation set.
    """
    scores = {folder: best_of(story)["bleu"] for folder, story in stories.items()}
    first = next(iter(stories.values())).validations
    average, best = sum(scores.values()) / len(scores), max(scores, key=lambda f: scores[f])
    before = first[min(first)]["bleu"]
    if max(bleu, scores[best]) <= before:
        advice = "no model is better on validation than before; docs/how-to/bleu-falls.md says what"
        return mean, f"{advice} to try"
    if bleu >= average:
        return mean, (
            f"use {mean}, the mean: BLEU {bleu:.2f}, where the seeds have {average:.2f} on average"
        )
    return models[best], (
        f"use {models[best]}: BLEU {scores[best]:.2f}; the mean has {bleu:.2f}, below the seeds' "
        f"average of {average:.2f}"
    )

"""Which model is used of several seeds and the mean of their weights."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from simile_plugin.files import InputError
from simile_plugin.finetuning.begun import update_record
from simile_plugin.finetuning.options import Options
from simile_plugin.finetuning.run import finetune
from simile_plugin.finetuning.seeds import choose, table_of_seeds
from simile_plugin.finetuning.story import RunStory


def story(*bleu: float) -> RunStory:
    """A training whose validations, every 100 updates, had these BLEU scores."""
    made = RunStory("half", 600, 30, 29000, "2e-4", 100, 1000)
    made.validations = {100 * i: {"cost": 0.5, "bleu": value} for i, value in enumerate(bleu)}
    made.done = 600
    return made


STORIES = {Path("r/seed.1"): story(30.0, 31.0, 30.5), Path("r/seed.2"): story(30.0, 31.2, 32.0)}
MODELS = {folder: folder / "best.pt" for folder in STORIES}
MEAN = Path("r/mean.pt")


def test_the_mean_is_used_unless_it_is_below_the_seeds_average() -> None:
    # the seeds have (31 + 32) / 2 = 31.5 on average
    model, advice = choose(STORIES, MODELS, MEAN, 31.8)
    assert model == MEAN
    assert advice == "use r/mean.pt, the mean: BLEU 31.80, where the seeds have 31.50 on average"
    model, advice = choose(STORIES, MODELS, MEAN, 31.4)
    assert model == Path("r/seed.2/best.pt")
    assert advice == (
        "use r/seed.2/best.pt: BLEU 32.00; the mean has 31.40, below the seeds' average of 31.50"
    )


def test_no_model_is_better_than_before() -> None:
    stories = {Path("r/seed.1"): story(30.0, 29.0), Path("r/seed.2"): story(30.0, 28.0)}
    _, advice = choose(stories, MODELS, MEAN, 29.9)
    assert advice.startswith("no model is better on validation than before; docs/how-to/bleu-falls")


def test_the_table_has_the_best_of_each_seed() -> None:
    rows = table_of_seeds(STORIES, {"cost": 0.4, "bleu": 31.8, "loss": 9.0}).splitlines()
    assert [row.split() for row in rows] == [
        ["cost", "BLEU"],
        ["before", "0.5000", "30.00"],
        ["seed.1,", "update", "100", "0.5000", "31.00"],
        ["seed.2,", "update", "200", "0.5000", "32.00"],
        ["mean", "of", "weights", "0.4000", "31.80"],
        ["difference", "-0.1000", "+1.80"],
    ]


class Framework:
    """Trains nothing, and notes what it was asked for."""

    def __init__(self, output: Path, bleu: Sequence[float] = (30.0, 31.0)) -> None:
        self.options = Options(output=str(output), seeds=2, seed=4)
        self.bleu, self.asked, self.said = bleu, list[object](), list[str]()

    def say(self, line: str) -> None:
        self.said.append(line)

    def train(self, run: Path, seed: int) -> RunStory:
        self.asked.append((run.name, seed))
        return story(*self.bleu)

    def end(self, story: RunStory, run: Path) -> str:
        raise AssertionError("only a single training ends by itself")

    def model(self, run: Path, validated: bool) -> Path:
        return run / ("best" if validated else "last")

    def average(self, models: Sequence[Path], run: Path) -> Path:
        self.asked.append([str(model.relative_to(run)) for model in models])
        return run / "mean"

    def validate(self, model: Path, run: Path) -> dict[str, float]:
        self.asked.append(model.name)
        return {"cost": 0.4, "bleu": 31.5}

    def next_steps(self, model: Path, runs: Sequence[Path]) -> str:
        return f"next: {model.name} of {len(runs)}"


def test_seeds_are_trained_averaged_and_validated(tmp_path: Path) -> None:
    framework = Framework(tmp_path)
    finetune(framework)
    assert framework.asked == [
        *(("seed.4", 4), ("seed.5", 5)),
        *(["seed.4/best", "seed.5/best"], "mean"),
    ]
    assert framework.said[0] == "seed 4: training 1 of 2"
    assert framework.said[-2].startswith(f"use {tmp_path / 'mean'}, the mean: BLEU 31.50")
    assert framework.said[-1] == "next: mean of 2"


def test_without_a_validation_set_the_last_models_are_averaged(tmp_path: Path) -> None:
    framework = Framework(tmp_path, ())
    finetune(framework)
    assert framework.asked[2:] == [["seed.4/last", "seed.5/last"]]
    assert framework.said[-2] == f"\nno validation set: {tmp_path / 'mean'} is the mean of 2 models"


def test_a_folder_of_a_single_training_is_refused(tmp_path: Path) -> None:
    update_record(tmp_path, begun={})
    with pytest.raises(InputError, match=f"--seeds: {tmp_path} holds a single training; name"):
        finetune(Framework(tmp_path))

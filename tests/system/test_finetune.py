"""simile finetune on a tiny model: the real command line, stopped and repeated."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from recipes.reliability.trainings import Trainings
from simile_plugin.cli import _finetuning, finetune, main
from simile_plugin.finetuning import FairseqOptions
from simile_plugin.finetuning.fairseq_log import read_line


@pytest.fixture
def command(trainings: Trainings) -> list[str]:
    words = "finetune bin mle/checkpoint_last.pt --output tuned --encoder encoder --batch-size 6"
    words += " --valid-interval 2 --risk-candidates 3 --risk-max-len-a 1 --max-updates"
    return [sys.executable, "-m", "simile_plugin", *words.split()]


def run(command: list[str], trainings: Trainings) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=trainings.folder, capture_output=True, text=True)


def test_a_model_is_tuned_and_the_run_goes_on(command: list[str], trainings: Trainings) -> None:
    done = run([*command, "2"], trainings)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "reward      half (--risk-alpha 0.3 --risk-cost-scale 30" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows if len(row) == 7 and row[0].isdigit()] == ["0", "2"]
    header = next(row for row in rows if row[:1] == ["update"])
    assert header[1:] == ["cost", "BLEU", "chrF", "SIM", "length", "repeats"]
    assert "fairseq-generate bin --path tuned/checkpoint_best.pt" in done.stdout
    known = json.loads((trainings.folder / "tuned" / "finetuning.json").read_text())["known_pairs"]
    measured = (
        f"pairs: candidates for {known['sentences']} training sentences cost "
        f"{known['training']:.3f}, those of validation {known['validation']:.3f} (ratio "
        f"{known['training'] / known['validation']:.2f}): the model "
    )
    assert measured in done.stdout
    validated = next(row[1] for row in rows if row[:1] == ["0"])
    assert validated == f"{known['validation']:.4f}"
    assert (trainings.folder / "tuned" / "checkpoint_best.pt").exists()
    again = run([*command, "4", "--learning-rate", "1e-3", "--update-freq", "2"], trainings)
    assert again.returncode == 0, again.stderr + again.stdout
    assert "--learning-rate: this run had 0.0002, it goes on with 0.001\n" in again.stderr
    assert "--update-freq: this run had 1, it goes on with 2\n" in again.stderr
    assert again.stderr.count("it goes on with") == 2
    rows = [line.split() for line in again.stdout.splitlines()]
    assert [row[0] for row in rows if len(row) == 7 and row[0].isdigit()] == ["0", "2", "4"]
    assert "nothing was trained" not in again.stdout
    repeated = run([*command, "4"], trainings)
    assert "nothing was trained: tuned has its 4 updates; for more give" in repeated.stdout
    refused = run([*command, "6", "--reward", "bleu"], trainings)
    assert refused.returncode == 2
    assert (
        "--output: the run in tuned was begun with --reward half, got --reward bleu; give the same"
        in refused.stderr
    )
    other = trainings.folder / "other.pt"
    other.write_bytes((trainings.folder / "tuned" / "checkpoint_best.pt").read_bytes())
    command[5] = "other.pt"
    refused = run([*command, "4"], trainings)
    assert refused.returncode == 2
    assert (
        "--output: the run in tuned was begun with another model than other.pt; give the"
        in refused.stderr
    )


def test_another_metric_chooses_the_model_and_its_words(
    command: list[str], trainings: Trainings
) -> None:
    command[7] = "by-cost"
    done = run([*command, "4", "--fairseq-flags=--best-checkpoint-metric=cost"], trainings)
    assert done.returncode == 0, done.stderr + done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    costs = {int(row[0]): float(row[1]) for row in rows if len(row) >= 7 and row[0].isdigit()}
    assert sorted(costs) == [0, 2, 4]
    kept = torch.load(trainings.folder / "by-cost" / "checkpoint_best.pt", weights_only=False)
    best = kept["extra_state"]["train_iterator"]["iterations_in_epoch"]
    if min(costs, key=lambda update: costs[update]) == 0:
        assert "no validation was better: by-cost/checkpoint_best.pt is the model" in done.stdout
    else:
        assert (
            f"by-cost/checkpoint_best.pt: best cost on validation, update {best}\n" in done.stdout
        )
    assert "BLEU on validation" not in done.stdout


def test_validations_are_those_of_the_plan(command: list[str], trainings: Trainings) -> None:
    """An epoch has five updates; its end is validated where it is that of the training."""
    for name, flags, expected in (
        ("planned", "--num-workers=0", ["0", "4", "7"]),
        ("one-epoch", "--max-epoch=1", ["0", "4", "5"]),
    ):
        command[7], command[command.index("--valid-interval") + 1] = name, "4"
        done = run([*command, "7", f"--fairseq-flags={flags}"], trainings)
        assert done.returncode == 0, done.stderr + done.stdout
        rows = [line.split() for line in done.stdout.splitlines()]
        table = [row[0] for row in rows if len(row) >= 7 and row[0].isdigit()]
        assert table == expected
        last = torch.load(trainings.folder / name / "checkpoint_last.pt", weights_only=False)
        assert last["optimizer_history"][-1]["num_updates"] == int(expected[-1])


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["checkpoint_best.pt", "checkpoint_last.pt"])
@pytest.mark.parametrize("way", ["itself", "link to the folder", "link to the model", "foreign"])
def test_a_users_model_is_not_written_over(
    way: str, name: str, command: list[str], trainings: Trainings, tmp_path: Path
) -> None:
    model = tmp_path / "m" / name
    model.parent.mkdir()
    shutil.copy(trainings.folder / "mle" / "checkpoint_last.pt", model)
    output, expected = model.parent, "MLE.pt, {}, is {}, which the training would write over"
    if way == "link to the folder":
        output = tmp_path / "link"
        output.symlink_to(model.parent)
    elif way == "link to the model":  # fairseq writes through it
        output = tmp_path / "run"
        output.mkdir()
        (output / name).symlink_to(model)
    elif way == "foreign":
        expected = "{1} is not of a run of simile finetune, and the training would write over it"
    before = content_of(model.parent), content_of(output)
    # A relative path, as people write it.
    given = (
        "mle/checkpoint_last.pt" if way == "foreign" else os.path.relpath(model, trainings.folder)
    )
    command[5], command[7] = given, str(output)
    done = run([*command, "2"], trainings)
    assert done.returncode == 2
    assert "--output: " + expected.format(given, output / name) in done.stderr
    assert "name a new folder" in done.stderr and "--save-dir" not in done.stderr
    assert (content_of(model.parent), content_of(output)) == before


def test_another_data_bin_is_refused(
    command: list[str], trainings: Trainings, tmp_path: Path
) -> None:
    output = tmp_path / "tuned"
    command[7] = str(output)
    assert run([*command, "2"], trainings).returncode == 0
    other = tmp_path / "bin"
    shutil.copytree(trainings.folder / "bin", other)
    command[4] = str(other)
    same = run([*command, "4"], trainings)  # the same files elsewhere
    assert same.returncode == 0, same.stderr
    trained = run([*command, "6", "--train", "bin"], trainings)  # its own pairs, named again
    assert trained.returncode == 0, trained.stderr
    assert "pairs       those of bin" in trained.stdout
    for path in other.glob("train.*"):  # another validation set
        shutil.copy(path, str(path).replace("train.", "valid."))
    shutil.rmtree(output / "data")
    done, before = run([*command, "8"], trainings), content_of(output)
    assert done.returncode == 2
    assert (
        f"the run in {output} was begun with other sentences or dictionaries than {other}"
        in done.stderr
    )
    assert content_of(output) == before


def test_without_a_validation_set_the_model_is_named(
    command: list[str], trainings: Trainings, tmp_path: Path
) -> None:
    data, output = tmp_path / "bin", tmp_path / "tuned"
    shutil.copytree(trainings.folder / "bin", data, ignore=shutil.ignore_patterns("valid*"))
    command[4], command[7] = str(data), str(output)
    for updates in ("2", "3", "7"):  # a line of the log comes every fifth
        done = run([*command, updates], trainings)
        assert done.returncode == 0, done.stderr
        assert "nothing was trained" not in done.stdout
        model = f"{output / 'checkpoint_last.pt'} is the model after update {updates}"
        assert done.stdout.endswith(f"no validation set: {model}\n")
    assert (
        f"nothing was trained: {output} has its 7 updates" in run([*command, "7"], trainings).stdout
    )


def test_the_mean_of_two_seeds(command: list[str], trainings: Trainings, tmp_path: Path) -> None:
    output = tmp_path / "tuned"
    command[7] = str(output)
    seeds = [*command, "2", "--seeds", "2"]
    done = run(seeds, trainings)
    assert done.returncode == 0, done.stderr + done.stdout
    mean = output / "checkpoint_average.pt"
    states = [
        torch.load(path, weights_only=False)["model"]
        for path in (*(output / f"seed.{k}" / "checkpoint_best.pt" for k in (1, 2)), mean)
    ]
    for name, weights in states[2].items():
        assert torch.allclose(weights, (states[0][name] + states[1][name]) / 2)
    assert f"validating {mean}, the mean of their weights" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    table = [row for row in rows if row[:1] == ["before"] or row[:3] == ["mean", "of", "weights"]]
    assert [len(row) for row in table] == [7, 9]
    assert "fairseq-generate bin --path " in done.stdout
    before = content_of(output / "seed.2")
    again = run(seeds, trainings)
    assert again.returncode == 0, again.stderr
    assert f"done before: {output / 'seed.2'} has its 2 updates" in again.stdout
    assert content_of(output / "seed.2") == before
    alone = run([*command, "2"], trainings)
    assert alone.returncode == 2
    assert f"{mean} is not of a run of simile finetune" in alone.stderr
    refused = run([*seeds, "--fairseq-flags=--max-valid-steps=1"], trainings)
    assert "--seeds: got --max-valid-steps in --fairseq-flags" in refused.stderr


def test_flags_go_before_the_presets() -> None:
    parser = argparse.ArgumentParser()
    finetune.add_arguments(parser)
    args = parser.parse_args("bin mle.pt --output o --preset paper --reward bleu".split())
    options, risk = _finetuning.read_options(args, FairseqOptions)
    assert (risk.reward, risk.risk_alpha, risk.risk_cost_scale) == ("bleu", 1.0, 1.0)
    assert (options.max_updates, options.schedule) == (None, "constant")
    assert risk.risk_length_control == 0.0
    args = parser.parse_args("bin mle.pt --output o --risk-alpha 1".split())
    options, risk = _finetuning.read_options(args, FairseqOptions, pretrained=True)
    assert (risk.reward, risk.risk_alpha, risk.risk_cost_scale) == ("half", 1.0, 30.0)
    assert options.learning_rate == pytest.approx(2e-5)


def test_a_rate_of_0_would_train_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("finetune bin mle.pt --output o --encoder default --learning-rate 0".split()) == 2
    assert "--learning-rate: got 0" in capsys.readouterr().err


def test_lines_of_the_log() -> None:
    line = '2026-11-26 21:44:26 | INFO | valid | {"valid_bleu": "31.5", "valid_num_updates": "2"}'
    assert read_line(line) == ("valid", {"bleu": 31.5, "num_updates": 2.0})
    assert read_line("2026 | INFO | fairseq_cli.train | {'_name': None}") == ("", {})
    assert read_line("Traceback") == ("", {})

"""simile finetune on a tiny model: the real command line, stopped and repeated."""

import argparse
import subprocess
import sys

import pytest

from recipes.reliability.trainings import Trainings
from simile_plugin.cli import _finetuning, finetune
from simile_plugin.fairseq_hooks.finetuning import read_line


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
    assert (trainings.folder / "tuned" / "checkpoint_best.pt").exists()
    again = run([*command, "4"], trainings)
    assert again.returncode == 0, again.stderr + again.stdout
    rows = [line.split() for line in again.stdout.splitlines()]
    assert [row[0] for row in rows if len(row) == 7 and row[0].isdigit()] == ["0", "2", "4"]
    assert "nothing was trained" not in again.stdout
    repeated = run([*command, "4"], trainings)
    assert "nothing was trained: tuned has its 4 updates; for more give" in repeated.stdout
    refused = run([*command, "6", "--reward", "bleu"], trainings)
    assert refused.returncode == 2
    assert "--reward: the training in tuned has half, got bleu; name another" in refused.stderr
    other = trainings.folder / "other.pt"
    other.write_bytes((trainings.folder / "tuned" / "checkpoint_best.pt").read_bytes())
    command[5] = "other.pt"
    refused = run([*command, "4"], trainings)
    assert refused.returncode == 2
    assert "--output: the training in tuned began from another model than" in refused.stderr


def test_flags_go_before_the_presets() -> None:
    parser = argparse.ArgumentParser()
    finetune.add_arguments(parser)
    args = parser.parse_args("bin mle.pt --output o --preset paper --reward bleu".split())
    _finetuning.fill_in(args)
    assert (args.reward, args.risk_alpha, args.risk_cost_scale) == ("bleu", 1.0, 1.0)
    assert (args.max_updates, args.schedule, args.risk_length_control) == (None, "constant", 0.0)
    args = parser.parse_args("bin mle.pt --output o --risk-alpha 1".split())
    _finetuning.fill_in(args, pretrained=True)
    assert (args.reward, args.risk_alpha, args.risk_cost_scale) == ("half", 1.0, 30.0)
    assert args.learning_rate == pytest.approx(2e-5)


def test_lines_of_the_log() -> None:
    line = '2026-11-26 21:44:26 | INFO | valid | {"valid_bleu": "31.5", "valid_num_updates": "2"}'
    assert read_line(line) == ("valid", {"bleu": 31.5, "num_updates": 2.0})
    assert read_line("2026 | INFO | fairseq_cli.train | {'_name': None}") == ("", {})
    assert read_line("Traceback") == ("", {})

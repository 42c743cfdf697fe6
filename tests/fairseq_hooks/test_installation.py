"""install() changes the process once, uninstall() restores it, and importing changes nothing."""

import argparse
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from fairseq_cli import train
from torch.backends import cuda

from simile_plugin import fairseq_hooks
from simile_plugin.fairseq_hooks import installation
from simile_plugin.fairseq_hooks.torch_load import UNSAFE_VARIABLE
from simile_plugin.fairseq_training import criterion  # noqa: F401 (registers its flags)
from simile_plugin.files import InputError
from tests.process_state import changed, state

TESTS = Path(__file__).parents[1]


@pytest.fixture
def clean():
    fairseq_hooks.install()  # what it imports stays
    fairseq_hooks.uninstall()
    yield
    fairseq_hooks.uninstall()


def test_installed_once_and_taken_back(clean, monkeypatch):
    monkeypatch.setenv(UNSAFE_VARIABLE, "1")
    before = state()
    fairseq_hooks.install()
    once = state()
    fairseq_hooks.install()
    assert changed(once, state()) == []
    found = changed(before, once)
    assert {"hook", "environment", "safe"} < set(found) and "at exit" not in found
    assert not cuda.cudnn_sdp_enabled()
    for owner, name, _ in installation.wraps():
        assert getattr(owner, name).__wrapped__, name
    fairseq_hooks.uninstall()
    assert changed(before, state()) == []
    assert os.environ[UNSAFE_VARIABLE] == "1" and cuda.cudnn_sdp_enabled()


def test_importing_the_criterion_changes_nothing():
    code = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "import fairseq.models, fairseq.tasks, fairseq_cli.train, simile_plugin.reward\n"
        "from process_state import changed, state\n"
        "sys.argv[:] = ['fairseq-train', '--criterion', 'simile_risk', '--help']\n"
        "before = state()\n"
        "import simile_plugin.fairseq_training.criterion, simile_plugin.fairseq_hooks\n"
        "print('CHANGED', changed(before, state()))\n"
    )
    environment = {**os.environ, UNSAFE_VARIABLE: "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip().splitlines()[-1] == "CHANGED []", done.stderr


def test_a_second_copy_of_the_trainer_is_watched_too(clean, monkeypatch):
    # python -m fairseq_cli.train runs a copy of the module under the name __main__
    copy = types.ModuleType("__main__")
    vars(copy).update(vars(train))
    monkeypatch.setitem(sys.modules, "__main__", copy)
    original = copy.train
    fairseq_hooks.install()
    assert copy.train.__wrapped__ is train.train.__wrapped__ is original


def test_help_shows_the_flags_of_the_criterion(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "--criterion", "simile_risk", "--help"])
    parser = argparse.ArgumentParser()
    installation.show_flags_with_help(lambda parser: None, parser)
    assert "--simile-encoder" in parser.format_help()


def test_bf16_is_for_a_tpu_only_where_there_may_be_one(monkeypatch):
    def parse(**flags):
        return argparse.Namespace(**flags), []

    for xm, bf16, tpu in ((None, True, False), (None, False, True), (object(), True, True)):
        monkeypatch.setattr("fairseq.utils.xm", xm)
        found, _ = installation.let_bf16_run_on_a_gpu(parse, bf16=bf16, tpu=True)
        assert found.tpu is tpu


def test_mbarts_task_finds_its_settings(clean):
    fairseq_hooks.install()
    task = TranslationFromPretrainedBARTTask.__new__(TranslationFromPretrainedBARTTask)
    task.cfg = object()
    assert task.args is task.cfg


def test_a_missing_task_or_architecture_is_named():
    with pytest.raises(InputError, match="--task: not given; expected translation, or"):
        installation.name_a_missing_task_or_arch({"translation": 1}.__getitem__, None)

    def without_arch(*message):
        raise RuntimeError(*message)

    with pytest.raises(InputError, match="--arch: not given; expected that of the model"):
        installation.name_a_missing_task_or_arch(without_arch)

"""fairseq on current torch: checkpoints, the first validation, one-line errors."""

import argparse
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from simile_plugin import compat


@pytest.fixture(autouse=True)
def _allowed():
    compat.allow_fairseq_checkpoints()


def test_checkpoints_load(tmp_path):
    state = {
        "args": argparse.Namespace(arch="transformer", lr=[0.1]),
        "model": {"weight": torch.ones(2)},
        "extra_state": {"metrics": np.arange(4), "best": np.float64(1.5)},
    }
    path = tmp_path / "checkpoint.pt"
    torch.save(state, path)
    found = torch.load(path)
    assert found["args"].arch == "transformer"
    assert found["extra_state"]["metrics"].tolist() == [0, 1, 2, 3]
    assert found["extra_state"]["best"] == 1.5
    torch.save(state, path, _use_new_zipfile_serialization=False)  # as torch < 1.6 wrote it
    assert torch.load(path)["args"].lr == [0.1]


def test_code_in_a_checkpoint_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (exec, ("raise SystemExit('it ran')",))

    path = tmp_path / "evil.pt"
    torch.save({"args": Evil()}, path)
    with pytest.raises(pickle.UnpicklingError, match="exec"):
        torch.load(path)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)


def test_errors_of_ours_are_one_line():
    code = (
        "from simile_plugin import compat\n"
        "from simile_plugin.reward import parse_reward\n"
        "compat.explain_in_one_line()\n"
        "parse_reward('simlie')\n"
    )
    done = run_python(code)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "--reward: got 'simlie'" in done.stderr
    shown = run_python("import os; os.environ['SIMILE_TRACEBACK'] = '1'\n" + code)
    assert "Traceback" in shown.stderr


def test_other_errors_keep_their_traceback():
    done = run_python(
        "from simile_plugin import compat\ncompat.explain_in_one_line()\nint('no number')\n"
    )
    assert "Traceback" in done.stderr


def test_apply_twice_is_apply_once():
    from fairseq_cli import train

    compat.apply()
    first, hook = train.train, sys.excepthook
    compat.apply()
    assert train.train is first and sys.excepthook is hook


def test_a_second_copy_of_the_trainer_validates_first_too():
    # python -m fairseq_cli.train runs a copy of the module under the name __main__
    done = run_python(
        "import sys\n"
        "from fairseq_cli.train import train, validate, validate_and_save\n"
        "from simile_plugin import compat\n"
        "compat.validate_before_first_update()\n"
        "print(sys.modules['__main__'].train.validates_first)\n"
    )
    assert done.stdout.strip().endswith("True"), done.stderr

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


def test_a_loss_scale_at_its_floor_gets_advice():
    from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler

    scaler = DynamicLossScaler(init_scale=2e-4, min_loss_scale=1e-4)
    scaler.update()
    with pytest.raises(FloatingPointError) as caught:
        scaler.check_overflow(float("inf"))
    line = compat.one_line(caught.value)
    assert line.startswith("Minimum loss scale reached (0.0001).") and "\n" not in line
    assert "For risk training: lower --lr or --risk-cost-scale" in line


def test_other_damage_than_ours_passes_through(tmp_path):
    from fairseq import checkpoint_utils

    from simile_plugin import checkpoints

    checkpoints.install()

    class Evil:
        def __reduce__(self):
            return (exec, ("raise SystemExit('it ran')",))

    torch.save({"args": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(pickle.UnpicklingError, match="exec"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "evil.pt"))
    for name, content in (("empty.pt", b""), ("text.pt", b"hello\n" * 50)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}: cut short or damaged .*copy it again"):
            checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "none.pt"))

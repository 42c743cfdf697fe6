"""What is said in one line, and what keeps its traceback."""

import re
import sys

import pytest
import torch

from simile_plugin import fairseq_hooks
from simile_plugin.fairseq_hooks import errors
from simile_plugin.fairseq_hooks.torch_load import UNSAFE_VARIABLE
from simile_plugin.files import InputError


@pytest.fixture(autouse=True)
def _installed():
    fairseq_hooks.install()
    yield
    fairseq_hooks.uninstall()


def said(error, capsys):
    """What a process that ends with an error writes to standard error."""
    try:
        raise error
    except Exception:
        sys.excepthook(*sys.exc_info())
    return capsys.readouterr().err


def test_errors_of_ours_are_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bin/fairseq-train"])
    line = "fairseq-train: error: --reward: got simlie\n"
    assert said(InputError("--reward: got simlie"), capsys) == line
    assert "Traceback" in said(ValueError("ours or fairseq's"), capsys)
    monkeypatch.setenv("SIMILE_TRACEBACK", "1")
    assert "Traceback" in said(InputError("--reward: got simlie"), capsys)


def test_a_loss_scale_at_its_floor_gets_advice():
    from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler

    scaler = DynamicLossScaler(init_scale=2e-4, min_loss_scale=1e-4)
    scaler.update()
    with pytest.raises(FloatingPointError) as caught:
        scaler.check_overflow(float("inf"))
    line = errors.one_line(caught.value)
    assert line.startswith("Minimum loss scale reached (0.0001).") and "\n" not in line
    assert "For risk training: lower --risk-cost-scale or the learning rate" in line
    for flags in ("--lr; simile finetune: --learning-rate", "--clip-norm (simile finetune: --max-"):
        assert flags in line


def test_damage_is_named_and_a_missing_file_is_fairseqs_matter(tmp_path):
    from fairseq import checkpoint_utils

    for name, content in (("empty.pt", b""), ("text.pt", b"hello\n" * 50)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}: cut short or damaged .*copy it again"):
            checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "none.pt"))


class Runs:
    """Pickled as a call that makes a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (open, (str(self.trace), "w"))


def test_a_refused_checkpoint_is_one_line_without_bad_advice(tmp_path, monkeypatch, capsys):
    from fairseq import checkpoint_utils

    fairseq_hooks.uninstall()
    monkeypatch.setenv(UNSAFE_VARIABLE, "1")
    fairseq_hooks.install()
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is not needed" in capsys.readouterr().err
    torch.save({"args": Runs(tmp_path / "ran")}, tmp_path / "evil.pt")
    with pytest.raises(InputError) as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "evil.pt"))
    assert not (tmp_path / "ran").exists()
    line = errors.one_line(caught.value)
    assert re.search(r"evil.pt: not read: .* could run anything .*GLOBAL.*open", line)
    assert "weights_only" not in line and "\n" not in line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError("Model file not found: no.pt"), "--path no.pt: no such file; expected one"),
        (
            AssertionError("Criterion does not match; please reset the optimizer. A vs B"),
            "--save-dir or --restore-file: the checkpoint there is of a run with A, this one has B",
        ),
        (
            ValueError("--finetune-from-model and --restore-file can not be together: {'a': 1}"),
            "--finetune-from-model and --restore-file can not be together: ",
        ),
        (
            Exception("The dataset is empty. This could indicate that all elements in the"),
            "DATA: no sentence is left to train on, or to validate; expected some that are within",
        ),
    ],
)
def test_what_fairseq_says_names_the_flag(error, line):
    found = errors.one_line(error)
    assert found.startswith(line) and "\n" not in found


@pytest.mark.parametrize("error", [ValueError("x"), OSError("z"), Exception()])
def test_no_line_for_what_no_user_did(error):
    assert errors.one_line(error) is None

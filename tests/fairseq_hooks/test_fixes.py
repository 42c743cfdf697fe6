"""fairseq on current torch: checkpoints, the first validation, one-line errors."""

import argparse
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

from simile_plugin.fairseq_hooks import fixes as compat


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
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_errors_of_ours_are_one_line():
    code = (
        "from simile_plugin import compat\n"
        "from simile_plugin.reward.lists import parse_reward\n"
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

    compat.install()
    first, hook = train.train, sys.excepthook
    compat.install()
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

    from simile_plugin.fairseq_hooks import checkpoints

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


class Runs:
    """Pickled as a call that makes a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (open, (str(self.trace), "w"))


def test_a_refused_checkpoint_is_one_line_without_bad_advice(tmp_path):
    torch.save({"args": Runs(tmp_path / "ran")}, tmp_path / "evil.pt")
    code = (
        "from simile_plugin import compat\n"
        "compat.install()\n"
        "from fairseq import checkpoint_utils\n"
        f"checkpoint_utils.load_checkpoint_to_cpu({str(tmp_path / 'evil.pt')!r})\n"
    )
    done = run_python(f"import os; os.environ[{compat.UNSAFE_VARIABLE!r}] = '1'\n" + code)
    assert not (tmp_path / "ran").exists()
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is not needed and has been unset" in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert re.search(r"error: .*evil.pt: not read: .* could run anything .*GLOBAL.*open", line)
    assert "weights_only" not in done.stderr and "Traceback" not in done.stderr


def test_settings_of_a_checkpoint_are_not_run(tmp_path):
    from fairseq import utils
    from fairseq.models import fconv

    from tests.fairseq_models import make_model, make_task

    compat.evaluate_literals_only()
    trace = tmp_path / "ran"
    payload = f"[(16, 3)] if open({str(trace)!r}, 'w') else []"
    for name in ("encoder_layers", "decoder_layers", "decoder_attention"):
        with pytest.raises(ValueError, match="expected numbers, strings, True"):
            make_model("fconv", make_task(), **{name: payload})
    for read in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool, fconv.eval):
        with pytest.raises(ValueError, match="expected numbers, strings, True"):
            read(payload)
    assert not trace.exists()
    assert utils.eval_bool(None, default=True) is True and utils.eval_bool("False") is False
    assert utils.eval_str_list("[1, 2]", int) == [1, 2]
    assert fconv.eval("[(16, 3)] * 2") == [(16, 3), (16, 3)]


def test_every_module_of_fairseq_reads_literals_only():
    done = run_python(
        "import re, sys\n"
        "from pathlib import Path\n"
        "from simile_plugin import compat, literal\n"
        "compat.install()\n"
        "import fairseq.optim, fairseq.tasks\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    file = getattr(module, '__file__', None)\n"
        "    if name.startswith('fairseq.') and file:\n"
        "        if re.search(r'(?<![\\w.])eval\\(', Path(file).read_text(encoding='utf-8')):\n"
        "            print(name, vars(module)['eval'] is literal.evaluate)\n"
    )
    found = dict(line.split() for line in done.stdout.splitlines() if line.count(" ") == 1)
    assert set(found.values()) == {"True"}
    assert {"fairseq.utils", "fairseq.models.fconv", "fairseq.models.hubert.hubert"} <= set(found)


def test_a_setting_of_two_lines_is_no_second_flag():
    from recipes.model_flags import flag_of

    action = argparse.ArgumentParser().add_argument("--encoder-layers")
    assert flag_of(action, "[(16, 3)]") == "--encoder-layers=[(16, 3)]"
    with pytest.raises(ValueError, match="--encoder-layers: got .*expected one line"):
        flag_of(action, "1\n--user-dir=elsewhere")


@pytest.mark.parametrize("cut", [b"X", b"\x80\x02}q\x00u.", b"R"])
def test_a_pickle_cut_anywhere_is_one_line(tmp_path, cut):
    (tmp_path / "cut.pt").write_bytes(cut)
    with pytest.raises(Exception) as caught:  # struct.error, IndexError, ...
        torch.load(tmp_path / "cut.pt", weights_only=True)
    assert "checkpoint: not read: it is damaged, or" in compat.one_line(caught.value)


def test_mbarts_task_finds_its_settings():
    compat.install()
    task = TranslationFromPretrainedBARTTask.__new__(TranslationFromPretrainedBARTTask)
    task.cfg = object()
    assert task.args is task.cfg

"""simile finetune-hf, killed by signals again and again, ends with the bits of a whole run."""

import json
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file

from simile_plugin.cli import main
from tests.hugging_face_models import marian, save, write_corpus

TIMES = ("runtime", "per_second", "flos")


# In an interpreter of its own, which has trained nothing and can fork: importing takes longer than
# training here. A child trains; it is killed some moments after another checkpoint is whole.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from simile_plugin.cli import main
from simile_plugin.hugging_face import last_checkpoint
random.seed(1)
output = Path(sys.argv[-1])
for number in (signal.SIGKILL, signal.SIGTERM) * 2:
    before = last_checkpoint(output)
    if not (child := os.fork()):
        os._exit(main(sys.argv[1:]))
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if last_checkpoint(output) != before:
            time.sleep(random.uniform(0, 0.1))
            os.kill(child, number)
            if os.WTERMSIG(os.waitpid(child, 0)[1]) == number:
                break
        time.sleep(0.005)
    else:
        sys.exit("it ended before it could be killed")
"""


def history(output):
    """What was logged, but for times."""
    logs = json.loads((output / "trainer_state.json").read_text())["log_history"]
    kept = [{k: v for k, v in log.items() if not k.endswith(TIMES)} for log in logs]
    return [log for log in kept if "train_loss" not in log]  # of the last process alone


def test_killed_again_and_again(tmp_path, encoder_folder):
    save(marian(tmp_path / "files", dropout=0.2), tmp_path / "model")
    files = write_corpus(tmp_path)
    command = [
        *("finetune-hf", str(tmp_path / "model"), "--train", *files, "--valid", *files),
        *("--encoder", str(encoder_folder), "--batch-size", "2", "--max-updates", "12"),
        *("--risk-candidates", "3", "--risk-max-len-a", "1", "--risk-search", "sampling"),
        *("--valid-interval", "2", "--log-interval", "1", "--learning-rate", "0.01", "--output"),
    ]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main([*command, str(whole)]) == 0
    arguments = [sys.executable, "-c", KILLER, *command, str(killed)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (killed / "checkpoint-11").mkdir()  # killed while a checkpoint is written
    (killed / "checkpoint-11" / "model.safetensors").write_bytes(b"half")
    assert main([*command, str(killed)]) == 0
    for last in ("", "checkpoint-12"):  # the best, which may be the model before, and the last
        ours, theirs = (load_file(run / last / "model.safetensors") for run in (killed, whole))
        assert ours.keys() == theirs.keys()
        assert all(ours[name].equal(theirs[name]) for name in ours)
    assert history(killed) == history(whole)
    before = load_file(Path(command[1]) / "model.safetensors")
    assert any(not ours[name].equal(before[name]) for name in ours)

"""The real command lines on a tiny copy task: MLE, fine-tuning, kill and resume, bad input."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from simile_plugin.fairseq_hooks import allow_fairseq_checkpoints, read_checkpoint
from tests.system.test_no_network import blocked

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
WORDS = "a red house stands on the hill two boys wait beside cold water".split()
MODEL = [
    "--arch", "transformer_tiny", "--max-source-positions", "64", "--max-target-positions", "64",
    "--optimizer", "adam", "--lr", "1e-3", "--batch-size", "8", "--no-epoch-checkpoints",
    "--log-format", "json", "--log-interval", "1", "--num-workers", "0", "--seed", "1",
]  # fmt: skip


def run(program, *arguments, check=True):
    with tempfile.TemporaryDirectory() as folder:
        tried = Path(folder) / "network"
        done = subprocess.run(
            [BIN / program, *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**blocked(tried), "PYTHONWARNINGS": "ignore"},
        )
        assert not tried.exists(), tried.read_text()
    if check:
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done


def train(data, save_dir, *flags, check=True):
    return run(
        "fairseq-train", data, "--user-dir", ROOT / "user_dir", "--save-dir", save_dir,
        *MODEL, *flags, check=check,
    )  # fmt: skip


def risk_flags(world, *more):
    return [
        "--criterion", "simile_risk", "--simile-encoder", world / "encoder",
        "--finetune-from-model", world / "mle/checkpoint_last.pt", "--risk-candidates", "3", *more,
    ]  # fmt: skip


def logged(done, tag):
    """The JSON objects that fairseq logged under a tag."""
    lines = (done.stdout + done.stderr).splitlines()
    return [json.loads(m[1]) for line in lines if (m := re.search(rf"\| {tag} \| (.*)", line))]


@pytest.fixture(scope="module")
def world(tmp_path_factory, encoder_folder):
    """Binarised copy task, an MLE model of a few updates, the encoder."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copytree(encoder_folder, folder / "encoder")
    generator = random.Random(1)
    for split, count in (("train", 96), ("valid", 16)):
        text = "".join(
            " ".join(generator.choices(WORDS, k=generator.randint(2, 6))) + "\n"
            for _ in range(count)
        )
        for language in ("xx", "en"):
            (folder / f"{split}.{language}").write_text(text)
    run(
        "fairseq-preprocess", "-s", "xx", "-t", "en", "--trainpref", folder / "train",
        "--validpref", folder / "valid", "--destdir", folder / "bin", "--joined-dictionary",
    )  # fmt: skip
    train(
        folder / "bin", folder / "mle", "--max-update", 8,
        "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1",
    )  # fmt: skip
    return folder


def test_fine_tuning_validates_first_and_logs_both_costs(world, tmp_path):
    done = train(
        world / "bin", tmp_path / "run", *risk_flags(world), "--max-update", 2,
        "--best-checkpoint-metric", "simile", "--maximize-best-checkpoint-metric",
    )  # fmt: skip
    valid = logged(done, "valid")
    assert [int(line["valid_num_updates"]) for line in valid] == [0, 2]
    for key in ("cost", "cost_bleu", "cost_simile", "bleu", "sim", "simile", "length_ratio",
                "distinct", "entropy_q", "reward_std", "zero_std"):  # fmt: skip
        assert f"valid_{key}" in valid[0]
    assert [int(line["num_updates"]) for line in logged(done, "train_inner")] == [1, 2]
    allow_fairseq_checkpoints()
    best = read_checkpoint(str(tmp_path / "run/checkpoint_best.pt"))
    better = float(valid[1]["valid_simile"]) >= float(valid[0]["valid_simile"])
    # What is worse than the start is not the best.
    assert best["optimizer_history"][-1]["num_updates"] == (2 if better else 0)
    assert float(valid[1]["valid_best_simile"]) == max(
        float(line["valid_simile"]) for line in valid
    )
    # translating with the result needs nothing but fairseq and --user-dir
    translated = run(
        "fairseq-generate", world / "bin", "--user-dir", ROOT / "user_dir", "--gen-subset", "valid",
        "--path", tmp_path / "run/checkpoint_last.pt", "--num-workers", "0",
    )  # fmt: skip
    assert len(re.findall(r"^D-\d+\t", translated.stdout, re.MULTILINE)) == 16


@pytest.fixture(scope="module")
def one_process(world, tmp_path_factory):
    """Three batches in two updates, the second of one batch only; no dropout."""
    folder = tmp_path_factory.mktemp("one")
    flags = [*risk_flags(world), "--batch-size", "32", "--max-epoch", "1", "--dropout", "0"]
    return flags, train(world / "bin", folder, *flags, "--update-freq", "2"), folder


def test_two_processes_train_like_one(world, one_process, tmp_path):
    # in the second update one process has a dummy batch, which must count nowhere
    flags, one, folder = one_process
    together = [
        "--cpu", "--distributed-world-size", "2", "--distributed-backend", "gloo",
        "--ddp-backend", "legacy_ddp", "--distributed-no-spawn",
        "--distributed-init-method", f"file://{tmp_path}/store",
    ]  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        ranks = [("--distributed-rank", rank) for rank in (0, 1)]
        done = list(
            pool.map(
                lambda rank: train(world / "bin", tmp_path, *flags, *together, *rank, check=False),
                ranks,
            )
        )
    # the one that fails takes the other with it: show the ends of both
    assert [one.returncode for one in done] == [0, 0], [one.stderr[-1500:] for one in done]
    two = done[0]
    times = ("wall", "wps", "ups", "ms_", "sents_s", "hyps_s", "peak_gb")
    for tag in ("train_inner", "valid", "train"):
        first, second = logged(one, tag), logged(two, tag)
        assert len(first) == len(second) > 0
        for left, right in zip(first, second, strict=True):
            assert left.keys() == right.keys()
            for key in left:
                if not any(part in key for part in times):
                    assert float(left[key]) == pytest.approx(float(right[key]), rel=2e-3), key
    allow_fairseq_checkpoints()
    weights = [
        torch.load(run_folder / "checkpoint_last.pt")["model"] for run_folder in (folder, tmp_path)
    ]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-4), name


def test_killed_and_resumed(world, tmp_path):
    flags = [*risk_flags(world, "--reward", "half"), "--save-interval-updates", "2"]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [BIN / "fairseq-train", world / "bin", "--user-dir", ROOT / "user_dir",
         "--save-dir", tmp_path / "run", *MODEL, *map(str, flags), "--max-update", "1000"],
        stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    while not (tmp_path / "run/checkpoint_last.pt").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = train(world / "bin", tmp_path / "run", *flags, "--max-update", 9)
    updates = [int(line["num_updates"]) for line in logged(done, "train_inner")]
    assert updates and updates[0] > 1 and updates[-1] == 9  # it went on, it did not begin again
    assert all(int(line["valid_num_updates"]) > 0 for line in logged(done, "valid"))


class Runs:
    """Pickled as a call that makes a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (open, (str(self.trace), "w"))


def test_a_checkpoint_cannot_run_code(world, tmp_path):
    """For fairseq-train see test_bad_trainings."""
    allow_fairseq_checkpoints()
    state = torch.load(world / "mle/checkpoint_last.pt", weights_only=True)
    pickled, evaluated, trace = tmp_path / "pickled.pt", tmp_path / "eval.pt", tmp_path / "ran"
    torch.save({**state, "extra_state": Runs(trace)}, pickled)
    # Plain strings, which fairseq's fconv would run when the model is built.
    payload = f"[(16, 3)] if open({str(trace)!r}, 'w') else []"
    fconv = {"_name": "fconv", "arch": "fconv", "encoder_layers": payload}
    model = Namespace(**{**vars(state["cfg"]["model"]), **fconv})
    torch.save({**state, "cfg": {**state["cfg"], "model": model}}, evaluated)
    generate = ["fairseq-generate", world / "bin", "--user-dir", ROOT / "user_dir"]
    generate += ["--gen-subset", "valid", "--num-workers", "0", "--path"]
    for path, message in [
        (pickled, "pickled.pt: not read: it is damaged, or holds more than tensors"),
        (evaluated, 'got "[(16, 3)] if open('),
    ]:
        done = run(*generate, path, check=False)
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1 and message in last, done.stderr[-2000:]
        assert "Traceback" not in done.stderr and not trace.exists()


def test_help_shows_the_flags_of_the_criterion():
    done = run(
        "fairseq-train", "--user-dir", ROOT / "user_dir", "--criterion", "simile_risk", "--help"
    )
    assert "--simile-encoder" in done.stdout and "--risk-cost-scale" in done.stdout


def test_finetune_reads_the_model_from_the_checkpoint(world):
    done = subprocess.run(
        [sys.executable, ROOT / "recipes/model_flags.py", world / "mle/checkpoint_last.pt"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    flags = done.stdout.splitlines()
    assert flags[0] == "--arch=transformer_tiny" and "--max-source-positions=64" in flags

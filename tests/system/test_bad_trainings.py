"""Training that cannot go well says so in one line before its first update, and ends with 1."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recipes.reliability.trainings import COMMON, MODEL, RISK, ROOT, Job, Trainings


@pytest.fixture
def refused(trainings: Trainings, request: pytest.FixtureRequest) -> Callable[..., str]:
    """refused(flags, data="bin") -> the one line with which a training ended."""
    name = re.sub(r"\W+", "-", request.node.name)

    def train(flags: str, data: str = "bin") -> str:
        start = RISK.replace("bin -s", f"{data} -s", 1)
        save = "" if "--save-dir" in flags else f"--save-dir {name}"
        job = Job(f"{start} {save} --max-update 2 {flags}", f"{name}.log")
        assert trainings.run(job) == [1]
        log = (trainings.folder / job.log).read_text()
        assert (
            "Traceback" not in log and '"train_inner"' not in log and "| train_inner |" not in log
        )
        (line,) = re.findall(r"^fairseq-train: error: (.*)$", log, re.MULTILINE)
        (trainings.folder / job.log).unlink()
        return line

    return train


@pytest.fixture
def data(trainings: Trainings) -> Path:
    """A copy of the binarised data that may be damaged; its name is its path in the folder."""
    shutil.rmtree(trainings.folder / "damaged", ignore_errors=True)
    return Path(shutil.copytree(trainings.folder / "bin", trainings.folder / "damaged"))


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--finetune-from-model mle", "--finetune-from-model mle: no such file; expected a file"),
        ("--finetune-from-model no.pt", "--finetune-from-model no.pt does not exist"),
        ("--encoder-layers 2", "--finetune-from-model mle/checkpoint_last.pt: a model of another"),
        ("--valid-subset dev", "bin: no data dev.SRC-TGT.SRC.idx and .bin; expected a folder made"),
        ("--save-dir mle.log", "mle.log/dummy: Not a directory; name a folder that can be written"),
        ("--save-dir mle.log/x", "mle.log/x: Not a directory; name a folder that can be written"),
        ("--best-checkpoint-metric blue", "--best-checkpoint-metric: got 'blue', expected one of"),
        ("--seed 12345678901234567890123", "--seed: got 12345678901234567890123, expected 0 to"),
        ("--save-dir mle", "--save-dir or --restore-file: the checkpoint there is of a run with L"),
        ("--max-tokens 5", "DATA: no sentence is left to train on, or to validate; expected"),
        ("--cpu --fp16", "--fp16: got it without a GPU; leave it out"),
        ("--risk-dump d --disable-validation", "--risk-dump d: given with --disable-validation"),
        ("--reward simlie", "--reward: got 'simlie'"),
        ("--risk-candidates 500", "--risk-candidates: got 500"),
        ("--simile-encoder mle", "mle: config.json is missing from the encoder folder"),
        ("--reset-optimizer", "--finetune-from-model can not be set together with either --reset"),
    ],
)
def test_flags(refused: Callable[..., str], flags: str, line: str) -> None:
    assert refused(flags).startswith(line)


def test_a_checkpoint_to_go_on_from_that_is_not_there(trainings: Trainings) -> None:
    # without --finetune-from-model fairseq would take random weights instead
    flags = f"{COMMON} {MODEL} --criterion simile_risk --simile-encoder encoder --lr 1e-3"
    (trainings.folder / "odd" / "checkpoint_last.pt").mkdir(parents=True)
    for more, line in [
        ("--restore-file no.pt --save-dir new", "--restore-file no.pt: no such file; expected a"),
        ("--restore-file mle --save-dir new", "--restore-file mle: no such file; expected a file"),
        ("--save-dir odd", "--save-dir odd/checkpoint_last.pt: no such file; expected a file"),
    ]:
        log = trainings.folder / "no-start.log"
        assert trainings.run(Job(f"{flags} --batch-size 6 --max-update 1 {more}", log.name)) == [1]
        assert f"fairseq-train: error: {line}" in log.read_text()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("list", "list.pt: no checkpoint of fairseq's; expected a file that fairseq-train has sav"),
        (
            "empty",
            r"--finetune-from-model empty.pt: a model of another shape \(Missing key.*encoder",
        ),
        ("none", "--finetune-from-model none.pt: holds no parameters of a model"),
    ],
)
def test_files_of_torch_that_hold_no_model(
    trainings: Trainings, refused: Callable[..., str], name: str, line: str
) -> None:
    state = torch.load(trainings.folder / "mle" / "checkpoint_last.pt")
    del state["model"]
    saved = {"list": [1, 2], "empty": {**state, "model": {}}, "none": state}
    torch.save(saved[name], trainings.folder / f"{name}.pt")
    assert re.match(line, refused(f"--finetune-from-model {name}.pt"))


def change_dictionaries(data: Path, change: Callable[[list[str]], list[str]]) -> None:
    for path in data.glob("dict.*.txt"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(change(lines)))


def test_dictionaries_that_do_not_fit(refused: Callable[..., str], data: Path) -> None:
    before = len((data / "dict.en.txt").read_text().splitlines())
    change_dictionaries(data, lambda lines: [*lines, "new 1\n"])
    found = refused("", data.name)
    assert re.match(
        r"--finetune-from-model mle/checkpoint_last.pt: its vocabulary has (\d+) entries, the "
        r"dictionary in DATA makes (\d+) \(encoder.embed_tokens.weight\); give the folder",
        found,
    )
    inside, here = map(int, re.findall(r"\d+", found)[:2])
    assert (inside, here) == (before + 4, before + 5)  # with <s>, <pad>, </s>, <unk>
    change_dictionaries(data, lambda lines: lines[:3])
    assert re.match(
        r"damaged/valid.xx-en.xx.bin: holds token number \d+, but damaged/dict.xx.txt makes only 7",
        refused("", data.name),
    )
    change_dictionaries(data, lambda lines: ["no count\n"])
    assert refused("", data.name).startswith("DATA: a dict.*.txt is not a dictionary of fairse")
    (data / "dict.xx.txt").unlink()
    assert refused("", data.name).startswith("damaged/dict.xx.txt: no such dictionary; expected a")


@pytest.mark.parametrize("name", ["valid.xx-en.en.bin", "train.xx-en.xx.idx", "train.xx-en.en.bin"])
def test_data_that_is_cut_short(refused: Callable[..., str], data: Path, name: str) -> None:
    path = data / name
    path.write_bytes(path.read_bytes()[:-3])
    line = refused("", data.name)
    assert line.startswith(f"damaged/{path.stem}.idx (") and line.endswith("preprocess again")


def finetune(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """recipes/finetune.sh in the environment of these tests, which counts as installed."""
    venv = folder / "venv"
    if not venv.exists():
        venv.mkdir()
        for part in ("bin", "lib", "pyvenv.cfg"):
            (venv / part).symlink_to(Path(sys.prefix) / part)
        key = "".join((ROOT / name).read_text() for name in ("setup.py", "constraints.txt"))
        key += f"{venv} {ROOT} \n"
        (venv / ".simile-installed").write_text(hashlib.sha256(key.encode()).hexdigest() + "\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SIMILE_")}
    return subprocess.run(
        ["bash", str(ROOT / "recipes" / "finetune.sh"), *arguments],
        cwd=folder,
        env=kept | {"SIMILE_VENV": str(venv), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_recipe_before_fairseq_starts(trainings: Trainings) -> None:
    folder, mle = trainings.folder, "mle/checkpoint_last.pt"
    (folder / "torn.pt").write_bytes((folder / mle).read_bytes()[:500])
    for arguments, line in [
        (("bin", "mle", "encoder"), "finetune.sh: error: MLE-CHECKPOINT: no such file: mle"),
        (("bin", "no.pt", "encoder"), "finetune.sh: error: MLE-CHECKPOINT: no such file: no.pt"),
        (("no", mle, "encoder"), "finetune.sh: error: DATA-BIN: no such folder: no"),
        (("bin", "torn.pt", "encoder"), "model_flags.py: error: torn.pt: not a fairseq checkpoint"),
        (("bin", mle, "encoder", "--save-dir=run"), "finetune.sh: error: --save-dir: give SAVE-"),
        (("bin", mle, "encoder", "torn.pt"), "finetune.sh: error: SAVE-DIR: cannot create direc"),
    ]:
        done = finetune(folder, *arguments)
        assert done.returncode in (1, 2)
        # fairseq may speak of packages for speech before
        assert done.stderr.splitlines()[-1].startswith(line) and "Traceback" not in done.stderr


def test_the_recipe_and_fairseqs_errors(trainings: Trainings, data: Path) -> None:
    change_dictionaries(data, lambda lines: [*lines, "new 1\n"])
    mle, batch = "mle/checkpoint_last.pt", "--batch-size=6"
    for arguments, line in [
        # the lowest cost is the best, whatever the recipe's own metric
        (
            ("damaged", mle, "--best-checkpoint-metric=cost"),
            "--finetune-from-model mle/checkpoint_last.pt: its vocabulary has",
        ),
        (("bin", mle, "--best-checkpoint-metric=blue"), "--best-checkpoint-metric: got 'blue', ex"),
    ]:
        done = finetune(trainings.folder, *arguments[:2], "encoder", "own", batch, *arguments[2:])
        assert done.returncode == 1, done.stdout[-2000:] + done.stderr
        assert done.stdout.strip().splitlines()[-1].startswith(f"fairseq-train: error: {line}")
        assert "Traceback" not in done.stdout


class Runs:
    """Pickled as a call that makes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.trace), "w"))


def test_a_checkpoint_cannot_run_code(
    trainings: Trainings, refused: Callable[..., str], tmp_path: Path
) -> None:
    """For fairseq-generate see test_commands."""
    state = torch.load(trainings.folder / "mle" / "checkpoint_last.pt")
    torch.save({**state, "extra_state": Runs(tmp_path / "ran")}, trainings.folder / "pickled.pt")
    line = refused("--finetune-from-model pickled.pt")
    assert line.startswith("pickled.pt: not read: it is damaged, or holds more than tensors")
    assert not (tmp_path / "ran").exists()

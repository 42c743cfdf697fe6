"""Training that cannot go well says so in one line before its first update, and ends with 1."""

import re
import shutil
import subprocess
import sys
from argparse import Namespace
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
        ("--best-checkpoint-metric blue", "--best-checkpoint-metric: got 'blue', expected one of"),
        (
            "--save-dir mle",
            "--save-dir: --finetune-from-model mle/checkpoint_last.pt is mle/checkpoi",
        ),
        ("--max-tokens 5", "DATA: no sentence is left to train on, or to validate; expected"),
        ("--cpu --fp16", "--fp16: got it without a GPU; leave it out"),
        ("--reward simlie", "--reward: got 'simlie'"),
        ("--risk-candidates 500", "--risk-candidates: got 500"),
        ("--simile-encoder mle", "mle: config.json is missing from the encoder folder"),
        (
            "--reward bleu --risk-monolingual others/train",
            "--risk-monolingual: --reward bleu reads",
        ),
        (
            "--reward noise --risk-monolingual others/dev",
            "--risk-monolingual others/dev: no others/dev.xx-en.xx.idx; expected FOLDER/train, of",
        ),
        (
            "--reward noise --risk-monolingual others/train --risk-monolingual-share 1",
            "--risk-monolingual-share: got 1.0, expected a number above 0 and below 1",
        ),
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
        ("--save-dir odd", "--save-dir odd/checkpoint_last.pt: no such file; expected a file"),
    ]:
        log = trainings.folder / "no-start.log"
        assert trainings.run(Job(f"{flags} --batch-size 6 --max-update 1 {more}", log.name)) == [1]
        assert f"fairseq-train: error: {line}" in log.read_text()


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
    change_dictionaries(data, lambda lines: lines[2::-1])
    assert re.match(
        r"damaged/valid.xx-en.xx.bin: holds token number \d+, but damaged/dict.xx.txt makes only 7",
        refused("", data.name),
    )
    flags = f"--reward noise --risk-monolingual {data.name}/train"
    assert refused(flags).startswith(
        "--risk-monolingual damaged/train: damaged/dict.xx.txt is not the dictionary of the model"
    )
    (data / "dict.xx.txt").unlink()
    assert refused("", data.name).startswith("damaged/dict.xx.txt: no such dictionary; expected a")


def test_the_command_and_fairseqs_errors(
    trainings: Trainings, data: Path, encoder_folder: Path
) -> None:
    change_dictionaries(data, lambda lines: [*lines, "new 1\n"])
    folder, mle = trainings.folder, "mle/checkpoint_last.pt"
    (folder / "torn.pt").write_bytes((folder / mle).read_bytes()[:500])
    for words, line in [
        (("bin", "no.pt"), "no.pt: cannot be read: No such file or directory"),
        (("bin", "torn.pt"), "torn.pt: not a fairseq checkpoint"),
        (("nowhere", mle), "DATA-BIN: no such folder: nowhere; expected one of fairseq-preprocess"),
        (("damaged", mle), f"--finetune-from-model {mle}: its vocabulary has"),
    ]:
        command = [sys.executable, "-m", "simile_plugin", "finetune", *words]
        done = subprocess.run(
            [*command, "--output", "own", "--encoder", encoder_folder, "--batch-size", "6"],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 2, done.stdout[-2000:] + done.stderr
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith(f"simile finetune: error: {line}") and "Traceback" not in done.stderr


class Runs:
    """Pickled as a call that makes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.trace), "w"))


def test_a_checkpoint_cannot_run_code(
    trainings: Trainings, refused: Callable[..., str], tmp_path: Path
) -> None:
    state = torch.load(trainings.folder / "mle" / "checkpoint_last.pt")
    trace, path = tmp_path / "ran", trainings.folder / "hostile.pt"
    torch.save({**state, "extra_state": Runs(trace)}, path)
    line = refused("--finetune-from-model hostile.pt")
    assert line.startswith("hostile.pt: not read: it is damaged, or holds more than tensors")
    # Plain strings, which fairseq's fconv would run when the model is built.
    payload = f"[(16, 3)] if open({str(trace)!r}, 'w') else []"
    fconv = {"_name": "fconv", "arch": "fconv", "encoder_layers": payload}
    model = Namespace(**{**vars(state["cfg"]["model"]), **fconv})
    torch.save({**state, "cfg": {**state["cfg"], "model": model}}, path)
    command = f"bin --user-dir {ROOT}/user_dir --gen-subset valid --num-workers 0 --path {path}"
    done = subprocess.run(
        [Path(sys.executable).parent / "fairseq-generate", *command.split()],
        cwd=trainings.folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and 'got "[(16, 3)] if open(' in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and not trace.exists()


def test_a_foreign_best_checkpoint_is_not_written_over(
    refused: Callable[..., str], trainings: Trainings
) -> None:
    run = trainings.folder / "foreign"
    run.mkdir()
    shutil.copyfile(trainings.folder / "mle/checkpoint_last.pt", run / "checkpoint_best.pt")
    before = (run / "checkpoint_best.pt").read_bytes()
    assert refused("--save-dir foreign") == (
        "--save-dir: foreign/checkpoint_best.pt is not of a run from mle/checkpoint_last.pt, and "
        "the training would write over it; name a new folder"
    )
    assert [path.name for path in run.iterdir()] == ["checkpoint_best.pt"]
    assert (run / "checkpoint_best.pt").read_bytes() == before

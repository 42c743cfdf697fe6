"""One fine-tuning by fairseq-train, told while it runs: the work behind `simile finetune`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from simile_plugin.fairseq_hooks.preflight import HEADER
from simile_plugin.files import InputError, locked_folder
from simile_plugin.risk import RiskSettings, RunStory

LOG, LAST, BEST = "train.log", "checkpoint_last.pt", "checkpoint_best.pt"
BEGUN = "mle.sha256"


def count_sentences(data: str, split: str) -> int:
    """Return the sentence pairs of a split in a folder of fairseq-preprocess; 0 if it has none.

    Raises:
        InputError: for a folder that is not there, or an index that cannot be read.
    """
    if not Path(data).is_dir():
        raise InputError(f"DATA-BIN: no such folder: {data}; expected one of fairseq-preprocess")
    for index in sorted(Path(data).glob(f"{split}.*.idx")):
        with index.open("rb") as stream:
            head = stream.read(HEADER.size)
        if len(head) < HEADER.size:
            raise InputError(f"{index}: cut short; run fairseq-preprocess again")
        return int(HEADER.unpack(head)[3])
    return 0


def check_begun(run: Path, checkpoint: str, reward: str) -> None:
    """Note which model a run begins from, and its reward; refuse to go on with another.

    fairseq would go on with what is there, and not look at the other model; one table would have
    the costs of both rewards.

    Raises:
        InputError: for another model, or one that is not there, or another reward.
    """
    try:
        with open(checkpoint, "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"MLE.pt: {checkpoint}: {error.strerror}") from error
    begun = run / BEGUN
    if (run / LAST).exists() and begun.exists():
        before, _, had = begun.read_text().strip().partition(" ")
        if before != found:
            raise InputError(
                f"--output: the training in {run} began from another model than {checkpoint}; name "
                "another folder, or remove it"
            )
        if had and had != reward:  # of earlier versions it is not known
            raise InputError(
                f"--reward: the training in {run} has {had}, got {reward}; name another --output, "
                "or give the same"
            )
    begun.write_text(f"{found} {reward}\n")


def finetune(run: Path, checkpoint: str, flags: Sequence[str], story: RunStory) -> None:
    """Run fairseq-train by this Python until it ends; its output is RUN/train.log.

    Args:
        run: its --save-dir; a training that was stopped there goes on.
        checkpoint: of the model to begin from.
        flags: of fairseq-train, beside those that say how and where to log and save.
        story: hears of updates and validations, also of those before it was stopped.

    Raises:
        InputError: where fairseq-train fails, with its last line.
    """
    command = [sys.executable, "-m", "fairseq_cli.train", *flags, "--log-format=json"]
    command += [f"--save-dir={run}", f"--finetune-from-model={checkpoint}"]
    run.mkdir(parents=True, exist_ok=True)
    with locked_folder(run) as lock, contextlib.ExitStack() as stack:
        reward = [flag for flag in flags if flag.startswith("--reward=")]
        check_begun(
            run, checkpoint, reward[-1].partition("=")[2] if reward else RiskSettings().reward
        )
        log, goes_on = run / LOG, (run / LAST).exists()
        if goes_on and log.exists():
            tell(story, log.read_text(encoding="utf-8", errors="replace").splitlines(), live=False)
            story.earlier = story.done
        stream = stack.enter_context(log.open("a" if goes_on else "w", encoding="utf-8"))
        # Threads that spin while they wait for each other crawl where anything else runs.
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ, "PYTHONWARNINGS": "ignore"}
        process = stack.enter_context(
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                env=environment,
                # Held by the training, too: it may outlive this process.
                pass_fds=[lock],
            )
        )
        stack.callback(process.terminate)  # where this process is interrupted
        assert process.stdout is not None
        last = tell(story, (_kept(line, stream) for line in process.stdout), live=True)
        if process.wait():
            raise InputError(f"{re.sub(r'^[^ ]*: error: ', '', last)} (all of it: {log})")


def _kept(line: str, stream: Any) -> str:
    stream.write(line)
    stream.flush()
    return line.rstrip("\n")


def tell(story: RunStory, lines: Iterable[str], live: bool) -> str:
    """Tell a story of the lines of a log, and pass on its warnings.

    Args:
        live: the lines are written now, not read from an earlier run.

    Returns:
        the last line that says something.
    """
    last = ""
    for line in lines:
        last = line.strip() or last
        if live and ("begin validation on" in line or "Start iterating over samples" in line):
            story.begin()
        if live and " | WARNING | simile_plugin" in line:
            story.say("warning: " + line.split(" | ", 3)[-1])
        kind, found = read_line(line)
        if kind == "train_inner" and live:
            story.update(int(float(found["num_updates"])))
        elif kind == "valid":
            update = int(found.pop("num_updates", 0))
            if live and update in story.validations:
                continue
            story.validation(update, found)
            if live:
                story.begin()
    return last


def read_line(line: str) -> tuple[str, dict[str, float]]:
    """Return what a line of --log-format json is about, train_inner or valid, and its numbers."""
    parts = line.split(" | ", 3)  # time | level | about | what
    if len(parts) < 4 or not parts[3].startswith("{"):
        return "", {}
    try:
        content = json.loads(parts[3])
    except ValueError:
        return "", {}
    numbers = {}
    for name, value in content.items():
        with contextlib.suppress(TypeError, ValueError):
            numbers[name.removeprefix("valid_")] = float(value)
    return parts[2], numbers

"""One fine-tuning by fairseq-train, told while it runs: the work behind `simile finetune`."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from simile_plugin.fairseq_hooks.preflight import HEADER, written_over
from simile_plugin.files import InputError, locked_folder
from simile_plugin.risk import RiskSettings, RunStory

LOG, LAST, BEST = "train.log", "checkpoint_last.pt", "checkpoint_best.pt"
BEGUN = "mle.sha256"  # of MLE.pt, and the reward; then lines of the data and of --monolingual
DATA_FILES = ("dict.", "train", "valid")


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


def refuse_foreign_checkpoints(run: Path, checkpoint: str) -> None:
    """Refuse a folder with checkpoints that are not this run's: fairseq would write over them.

    Nothing is written there before.

    Raises:
        InputError: where the model to begin from is among them, or nothing of ours is beside them.
    """
    if (path := written_over(run, checkpoint)) is not None:
        raise InputError(
            f"--output: MLE.pt, {checkpoint}, is {path}, which the training would write over; "
            "name a new folder"
        )
    there = sorted(run.glob("checkpoint*.pt"))
    if there and not (run / BEGUN).exists():
        raise InputError(
            f"--output: {there[0]} is not of a run of simile finetune, and the training would "
            "write over it; name a new folder"
        )


def digest_of_data(data: str) -> str:
    """Return a digest of the dictionaries and of the sentences for training and validation."""
    paths = Path(data).iterdir()
    return _digest(path for path in paths if path.name.startswith(DATA_FILES))


def digest_of_monolingual(prefix: str, share: str) -> str:
    """Return a digest of the files of --risk-monolingual and of their share; "" is none."""
    folder, name = Path(prefix).parent, Path(prefix).name
    return f"{_digest(folder.glob(f'{name}.*.*'))} {share}" if prefix else "none"


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()


def check_begun(run: Path, checkpoint: str, flags: Sequence[str]) -> None:
    """Note which model, data and reward a run begins from; refuse to go on with others.

    fairseq would go on with what is there, and not look at the other model; one table would have
    the costs of both rewards, or the validations of two sets.

    Args:
        flags: of fairseq-train, its folder of data first.

    Raises:
        InputError: for another model, or one that is not there, or other data, or another reward.
    """
    try:
        with open(checkpoint, "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"MLE.pt: {checkpoint}: {error.strerror}") from error
    data, reward = flags[0], value_of(flags, "--reward", RiskSettings().reward)
    share = value_of(flags, "--risk-monolingual-share", "")
    sources = digest_of_monolingual(value_of(flags, "--risk-monolingual", ""), share)
    begun, sentences = run / BEGUN, digest_of_data(data)
    if (run / LAST).exists() and begun.exists():
        # Of earlier versions the reward and what follows it are not known.
        lines = [*begun.read_text().splitlines(), "", "", ""]
        before, _, had = lines[0].partition(" ")
        if before != found:
            raise InputError(
                f"--output: the training in {run} began from another model than {checkpoint}; name "
                "another folder, or remove it"
            )
        if lines[1] not in ("", sentences):
            raise InputError(
                f"--output: the training in {run} has other sentences or dictionaries than {data}; "
                "give the same DATA-BIN, or name another folder"
            )
        if lines[2] not in ("", sources):
            raise InputError(
                f"--monolingual: the training in {run} has other sources without references, or "
                "another share of them; give the same, or name another --output"
            )
        if had not in ("", reward):
            raise InputError(
                f"--reward: the training in {run} has {had}, got {reward}; name another --output, "
                "or give the same"
            )
    begun.write_text(f"{found} {reward}\n{sentences}\n{sources}\n")


def value_of(flags: Sequence[str], name: str, default: str) -> str:
    """Return the value of a flag of fairseq-train, the last where it is given again."""
    found = default
    for flag, following in itertools.zip_longest(flags, flags[1:], fillvalue=""):
        given, equals, value = flag.partition("=")
        if given == name:
            found = value if equals else following
    return found


def finetune(run: Path, checkpoint: str, flags: Sequence[str], story: RunStory) -> None:
    """Run fairseq-train by this Python until it ends; its output is RUN/train.log.

    Args:
        run: its --save-dir; a training that was stopped there goes on.
        checkpoint: of the model to begin from.
        flags: of fairseq-train, its folder of data first, beside those that say how and where to
            log and save.
        story: hears of updates and validations, also of those before it was stopped.

    Raises:
        InputError: where fairseq-train fails, with its last line.
    """
    command = [sys.executable, "-m", "fairseq_cli.train", *flags, "--log-format=json"]
    command += [f"--save-dir={run}", f"--finetune-from-model={checkpoint}"]
    refuse_foreign_checkpoints(run, checkpoint)
    run.mkdir(parents=True, exist_ok=True)
    with locked_folder(run) as lock, contextlib.ExitStack() as stack:
        check_begun(run, checkpoint, flags)
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
            story.update(int(found["num_updates"]))
        elif kind == "train" and live:  # the end of an epoch, or of a run of few updates
            story.update(int(found["train_num_updates"]))
        elif kind == "valid":
            update = int(found.pop("num_updates", 0))
            if live and update in story.validations:
                continue
            story.validation(update, found)
            if live:
                story.begin()
    return last


def read_line(line: str) -> tuple[str, dict[str, float]]:
    """Return what a line of --log-format json is about, train_inner, train or valid, and its
    numbers."""
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

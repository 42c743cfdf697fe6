"""A fine-tuning by fairseq-train, told while it runs: the work behind `simile finetune`."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import torch

from simile_plugin.fairseq_hooks import count_sentences, read_model_flags, written_over
from simile_plugin.files import InputError, flag_name, locked_folder
from simile_plugin.finetuning.average import Averager, average_checkpoints
from simile_plugin.finetuning.begun import (
    RECORD,
    Begun,
    Setting,
    digest_of_files,
    has_ended,
    note_end,
    settings_of_measures,
    settings_of_objective,
    settings_of_updates,
    update_record,
)
from simile_plugin.finetuning.fairseq_log import tell
from simile_plugin.finetuning.options import FairseqOptions
from simile_plugin.finetuning.other_pairs import with_other_pairs
from simile_plugin.finetuning.story import RunStory, make_story, say
from simile_plugin.risk import RiskSettings

LOG, LAST, BEST = "train.log", "checkpoint_last.pt", "checkpoint_best.pt"
AVERAGE, VALIDATION_LOG = "checkpoint_average.pt", "validation.log"
OTHER_DATA = "data"  # folder of a run with --train
NEVER = str(10**9)  # epochs
DATA_FILES = ("dict.", "train", "valid")
# Flags of fairseq-train, and their defaults, which say what a validation is of beside our own.
VALIDATION_FLAGS = {
    **{"--valid-subset": "valid", "--max-valid-steps": "none"},
    **{"--risk-detok": "none", "--risk-post-process": "auto"},
}


class FairseqFinetuning:
    """A fine-tuning of a fairseq model.

    Args:
        options, risk: as given.
        reward: identity of what is trained on, see `check_reward`.
        user_dir: for fairseq's --user-dir.

    Raises:
        InputError: for a path that fairseq would read otherwise, or a checkpoint that is none.
    """

    def __init__(
        self, options: FairseqOptions, risk: RiskSettings, reward: str, user_dir: str
    ) -> None:
        self.options, self.risk, self.reward, self.user_dir = options, risk, reward, user_dir
        self.say: Callable[[str], object] = say
        for name, path in (("DATA-BIN", options.data), ("--output", options.output)):
            if ":" in path:  # fairseq would see several folders
                raise InputError(f"{name}: got {path}, expected a path without ':'")
        if Path(options.output).is_file():
            raise InputError(f"--output: {options.output} is a file, expected a folder; name one")
        for flag in ("--max-valid-steps", "--valid-subset"):
            if options.seeds > 1 and flag in options.fairseq_flags:
                raise InputError(
                    f"--seeds: got {flag} in --fairseq-flags, but the mean of the seeds is "
                    "validated on all of DATA-BIN's valid set; leave one of them out"
                )
        average = Path(options.output) / AVERAGE
        if options.seeds > 1 and average.exists() and average.samefile(options.model):
            raise InputError(
                f"--output: MLE.pt, {options.model}, is {average}, where the mean of the seeds "
                "would be; name a new folder"
            )
        self.data = options.data
        self.model_flags = read_model_flags(options.model, user_dir)

    def train(self, run: Path, seed: int) -> RunStory:
        """Train in a folder, or go on there; tell it.

        Raises:
            InputError: for input that cannot work, and where fairseq-train fails.
        """
        refuse_foreign_checkpoints(run, self.options.model)
        run.mkdir(parents=True, exist_ok=True)
        with locked_folder(run) as lock:
            if self.options.train:
                folder = with_other_pairs(self.options.data, self.options.train, run / OTHER_DATA)
                self.data = str(folder)
            return self._train(dataclasses.replace(self.options, seed=seed), run, lock)

    def _train(self, options: FairseqOptions, run: Path, lock: int) -> RunStory:
        sentences, validation_set = (
            count_sentences(self.data, split) for split in ("train", "valid")
        )
        devices = torch.cuda.device_count() or 1
        story = make_story(options, self.risk, sentences, validation_set, devices)
        story.keeps_last = True  # fairseq replaces checkpoint_best.pt by an equally good model
        self.say(f"model       {options.model} ({self.model_flags[0].removeprefix('--arch=')})")
        if options.train:
            self.say(f"pairs       those of {options.train}")
        self.say(f"{story.plan()}\nlog         {run / LOG}\n")
        flags = [self.data, f"--user-dir={self.user_dir}", *self.model_flags]
        flags += fairseq_flags(options, self.risk, story.updates, bool(story.validation_set))
        story.metric = value_of(flags, "--best-checkpoint-metric", "loss")
        story.highest = "--maximize-best-checkpoint-metric" in flags
        begun, settings = Begun(run, (run / LAST).exists()), self._settings(flags)
        settings |= settings_of_updates(options)
        averaged = options.seeds > 1
        objective = settings_of_objective(risk_of(flags), averaged)
        compat = value_of(flags, "--risk-compat", "none")
        objective["--risk-compat"] = Setting(compat, binding=averaged)
        ended = bool(begun.before) and has_ended(run, story.updates, options.patience)
        begun.check(settings, ended)
        if ended:
            begun.check(objective, ended)  # of a run that goes on fairseq-train tells it
            tell_earlier(story, run / LOG)
            return story
        begun.note(settings | objective)
        try:
            run_fairseq_train(run, options.model, flags, story, lock)
        finally:
            update_record(run, known_pairs=story.known)
        note_end(run, story, options.patience)
        return story

    def model(self, run: Path, validated: bool) -> Path:
        """Return where a training leaves its model, the best by validation if there were any."""
        return run / (BEST if validated else LAST)

    def average(self, models: Sequence[Path], run: Path) -> Path:
        """Write the mean of models into a folder, and return where it is."""
        average_checkpoints(paths := [*map(str, models)], Averager(paths), str(run / AVERAGE))
        return run / AVERAGE

    def validate(self, model: Path, run: Path) -> dict[str, float]:
        """Return the metrics of a model on the validation set, by fairseq-validate.

        Raises:
            InputError: where fairseq-validate fails, with its last line.
        """
        options = self.options
        task = value_of(shlex.split(options.fairseq_flags), "--task", "translation")
        command = [
            *(sys.executable, "-m", "fairseq_cli.validate", self.data, f"--path={model}"),
            *(f"--user-dir={self.user_dir}", f"--batch-size={options.batch_size}"),
            *("--required-batch-size-multiple=1", "--log-format=json", f"--task={task}"),
            "--distributed-world-size=1",  # on several GPUs fairseq-validate fails
            *["--fp16"] * options.fp16,
        ]
        story, log = make_story(options, self.risk, 0, 0), run / VALIDATION_LOG
        story.say = str  # it prints nothing
        with log.open("w", encoding="utf-8") as stream:
            last, status = run_fairseq(command, story, stream)
        if status or not story.validations:
            raise InputError(f"{_without_name(last)} (all of it: {log})")
        return next(iter(story.validations.values()))

    def next_steps(self, model: Path, runs: Sequence[Path]) -> str:
        """Return the commands that translate the test set, and compare."""
        return next_steps(self.options, model, [run / LOG for run in runs])

    def _settings(self, flags: Sequence[str]) -> dict[str, Setting]:
        """Return what a run is begun with.

        Args:
            flags: of fairseq-train, where --fairseq-flags may have the last word.
        """
        model = self.options.model
        data = f"{self.options.data} (DATA-BIN)"
        if self.options.train:
            data += f" with the pairs of {self.options.train}"
        with open(model, "rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        files = [path for path in Path(self.data).iterdir() if path.name.startswith(DATA_FILES)]
        sources = "none"
        if prefix := value_of(flags, "--risk-monolingual", ""):
            folder, name = Path(prefix).parent, Path(prefix).name
            share = value_of(flags, "--risk-monolingual-share", "")
            sources = f"{digest_of_files(folder.glob(f'{name}.*.*'))} {share}"
        risk = risk_of(flags)
        # An identity, but what is in --fairseq-flags has none.
        reward = self.reward if risk["reward"] == self.risk.reward else risk["reward"]
        settings = {
            "MLE.pt": Setting(content, f"another model than {model}"),
            "DATA-BIN": Setting(
                digest_of_files(files), f"other sentences or dictionaries than {data}"
            ),
            "--monolingual": Setting(
                sources,
                "other sources without references (--monolingual), or another share",
            ),
            "--learning-rate": Setting(str(self.options.learning_rate), binding=False),
            "--fairseq-flags": Setting(self.options.fairseq_flags, binding=False),
        }
        settings |= settings_of_measures(reward, risk)
        for flag, default in VALIDATION_FLAGS.items():
            settings[flag] = Setting(value_of(flags, flag, default))
        return settings

    def end(self, story: RunStory, run: Path) -> str:
        """Return what is said where a training has ended: its model, and what to do next."""
        if not story.trained and not story.validations:
            return ""
        if not story.validations:
            return f"no validation set: {run / LAST} is the model after update {story.done:,}"
        best = story.best()
        where = f"{run / BEST}: best {story.metric_name} on validation, update {best}"
        if best == 0:
            where = (
                f"no validation was better: {run / BEST} is the model of {self.options.model}\n"
                "docs/how-to/bleu-falls.md says what to try"
            )
        table = f"on the validation set:\n{story.table('before', best)}\n"
        return f"{table}\n{where}\n{self.next_steps(run / BEST, [run])}"


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
    if there and not (run / RECORD).exists():
        raise InputError(
            f"--output: {there[0]} is not of a run of simile finetune, and the training would "
            "write over it; name a new folder"
        )


def fairseq_flags(
    options: FairseqOptions, risk: RiskSettings, updates: int, valid: bool
) -> list[str]:
    """Return the flags of fairseq-train, a word each; those of --fairseq-flags last."""
    flags = ["--criterion=simile_risk", "--optimizer=adam", "--adam-betas=(0.9, 0.98)"]
    default = type(risk)()
    for name, value in vars(risk).items():
        if value != getattr(default, name):
            flags.append(flag_name(name) if value is True else f"{flag_name(name)}={value}")
    flags += [f"--risk-monolingual={options.monolingual}"] * bool(options.monolingual)
    linear = ["--lr-scheduler=polynomial_decay", f"--total-num-update={updates}"]
    flags += linear if options.schedule == "linear" else ["--lr-scheduler=fixed"]
    flags += [
        f"--lr={options.learning_rate}",
        f"--clip-norm={options.max_grad_norm}",
        f"--batch-size={options.batch_size}",
        "--required-batch-size-multiple=1",
        f"--update-freq={options.update_freq}",
        f"--max-update={updates}",
        f"--seed={options.seed}",
        f"--log-interval={options.log_interval}",
        f"--save-interval-updates={options.valid_interval}",
        "--keep-interval-updates=3",  # the last one before the two that end a gamed run, too
        "--no-epoch-checkpoints",
    ]
    # Every so many updates, and at no end of an epoch but the last one that was asked for.
    epochs = value_of(shlex.split(options.fairseq_flags), "--max-epoch", "0")
    epochs = NEVER if epochs == "0" else epochs
    flags += [f"--save-interval={epochs}", f"--validate-interval={epochs}"]
    if valid:
        flags += [f"--validate-interval-updates={options.valid_interval}"]
        flags += [f"--patience={options.patience}"] * bool(options.patience)
    else:
        flags += ["--disable-validation"]
    if "--best-checkpoint-metric" not in options.fairseq_flags:  # what maximises is not undone
        flags += ["--best-checkpoint-metric=bleu", "--maximize-best-checkpoint-metric"]
    flags += ["--fp16"] * options.fp16 + ["--bf16"] * options.bf16
    return flags + shlex.split(options.fairseq_flags)


def value_of(flags: Sequence[str], name: str, default: str) -> str:
    """Return the value of a flag of fairseq-train, the last where it is given again."""
    last = default
    for flag, following in itertools.zip_longest(flags, flags[1:], fillvalue=""):
        given, equals, value = flag.partition("=")
        if given == name:
            last = value if equals else following
    return last


def risk_of(flags: Sequence[str]) -> dict[str, Any]:
    """Return the values of the risk's settings by field, as fairseq-train is going to read them."""
    values: dict[str, Any] = {}
    for name, default in vars(RiskSettings()).items():
        flag = flag_name(name)
        values[name] = flag in flags if default is False else value_of(flags, flag, "") or default
    return values


def run_fairseq_train(
    run: Path, checkpoint: str, flags: Sequence[str], story: RunStory, lock: int
) -> None:
    """Run fairseq-train by this Python until it ends; its output is RUN/train.log.

    Args:
        run: its --save-dir; a training that was stopped there goes on.
        checkpoint: of the model to begin from.
        flags: of fairseq-train, its folder of data first, beside those that say how and where to
            log and save.
        story: hears of updates and validations, also of those before it was stopped.
        lock: of the folder; held by the training, too, as it may outlive this process.

    Raises:
        InputError: where fairseq-train fails, with its last line.
    """
    command = [sys.executable, "-m", "fairseq_cli.train", *flags, "--log-format=json"]
    command += [f"--save-dir={run}", f"--finetune-from-model={checkpoint}"]
    log, goes_on = run / LOG, (run / LAST).exists()
    if goes_on:
        tell_earlier(story, log)
    with log.open("a" if goes_on else "w", encoding="utf-8") as stream:
        last, status = run_fairseq(command, story, stream, lock)
    if status:
        raise InputError(f"{_without_name(last)} (all of it: {log})")


def tell_earlier(story: RunStory, log: Path) -> None:
    """Tell what a training did before it was stopped, or ended, from its log."""
    if log.exists():
        tell(story, log.read_text(encoding="utf-8", errors="replace").splitlines(), live=False)
    story.earlier = story.done


def run_fairseq(
    command: Sequence[str], story: RunStory, stream: TextIO, lock: int | None = None
) -> tuple[str, int]:
    """Run a program of fairseq until it ends, and tell a story of what it prints.

    Args:
        stream: gets all that it prints.
        lock: of a folder, held by the program, too.

    Returns:
        its last line, and its exit status.
    """
    with contextlib.ExitStack() as stack:
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
                pass_fds=[] if lock is None else [lock],
            )
        )
        stack.callback(process.terminate)  # where this process is interrupted
        assert process.stdout is not None
        last = tell(story, (_kept(line, stream) for line in process.stdout), live=True)
        return last, process.wait()


def _without_name(last: str) -> str:
    """Return fairseq's last line without the name of its program."""
    return re.sub(r"^[^ ]*: error: ", "", last)


def _kept(line: str, stream: TextIO) -> str:
    stream.write(line)
    stream.flush()
    return line.rstrip("\n")


def next_steps(options: FairseqOptions, model: Path, logs: Sequence[Path]) -> str:
    """Return the commands that translate the test set by a model, and compare."""
    split = "test" if [*Path(options.data).glob("test.*.idx")] else "valid"
    dictionary = next(Path(options.data).glob("dict.*.txt"), None)
    joined = dictionary is not None and "\u2581" in dictionary.read_text("utf-8", "replace")[:20000]
    words = [
        *("fairseq-generate", options.data, "--path", str(model)),
        *("--gen-subset", split, "--beam", "5", "--required-batch-size-multiple", "1"),
        *("--remove-bpe", "sentencepiece" if joined else "subword_nmt"),
    ]
    lines = ["next:", f'  {shlex.join(words)} --user-dir "$(simile user-dir)" >{split}.log']
    curve = shlex.quote(f"{options.preset}={','.join(map(str, logs))}")
    return "\n".join([*lines, f"  simile report --log {curve} --html report.html"])

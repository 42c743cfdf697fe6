"""What a report was made of: files by their content, trainings by what their logs say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from simile_plugin.report.answer import Answer, Cell, Literal, Part, make_table
from simile_plugin.report.inputs import Inputs
from simile_plugin.report.inputs.texts import Texts

MOST_FILES = 60  # shown at once
DATE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \|", re.M)
SETTINGS = ("seed", "lr", "max_update", "max_epoch", "batch_size", "max_tokens", "update_freq")
CRITERION = re.compile(r"'criterion': \{'_name': '(\w+)'([^{}]*)\}")
FROM = re.compile(r"'finetune_from_model': '([^']*)'")


@dataclass(frozen=True)
class InputFile:
    """A file by role, name, SHA-256 of its text (first digits) and lines."""

    role: str
    path: str
    digest: str
    lines: int


@dataclass(frozen=True)
class Training:
    """What the log of one training says of itself; empty where it does not say.

    Attributes:
        first, last: dates of its first and last dated lines.
        settings: name -> value, as fairseq printed its configuration.
    """

    name: str
    path: str
    first: str
    last: str
    settings: dict[str, str]


def describe_files(named: Mapping[str, Sequence[str]], texts: Texts) -> list[InputFile]:
    """All files of role -> paths; standard input, pipes and folders are left out."""
    return [
        InputFile(role, path, *texts.digest(path))
        for role, paths in named.items()
        for path in paths
        if Path(path).is_file()
    ]


def describe_trainings(named: Mapping[str, Sequence[str]], texts: Texts) -> list[Training]:
    """What the logs of system -> log files say of their trainings; folders are left out."""
    return [
        _training(name, path, texts.bytes(path, "--log").decode("utf-8", "replace"))
        for name, paths in named.items()
        for path in paths
        if Path(path).is_file()
    ]


def _training(name: str, path: str, text: str) -> Training:
    dates = DATE.findall(text) or [""]
    told = [line for line in text.split("\n") if "'criterion': {" in line]
    return Training(name, path, dates[0], dates[-1], _settings(told[-1]) if told else {})


def _settings(line: str) -> dict[str, str]:
    """The settings that a reader asks for first, and those of the criterion."""
    found = {}
    for name in SETTINGS:
        match = re.search(rf"'{name}': (\[[^\]]*\]|[^,}}]+)", line)
        if match and match[1] not in ("None", "0"):
            found[name.replace("_", "-")] = match[1]
    if match := FROM.search(line):
        found["finetune-from-model"] = match[1]
    if match := CRITERION.search(line):
        found["criterion"] = match[1]
        for key, value in re.findall(r"'(\w+)': ('[^']*'|[^,]+)", match[2]):
            if value != "None":
                found[key.replace("_", "-")] = value.strip("'")
    return found


def describe_report(inputs: Inputs, answers: Sequence[Answer]) -> Answer:
    """The command, the files, the trainings, and what stands behind the numbers."""
    args = inputs.args
    given = {"reference": args.ref, "source": args.src, "n-best": args.nbest_lists}
    roles: dict[str, tuple[str, ...]] = {role: (path,) for role, path in given.items() if path}
    roles |= {"judgements": tuple(args.judgements)}
    for role in ("column", "sentence_scores", "lexical"):
        paths = [spec.partition("=")[2].split(",") for spec in getattr(args, role)]
        roles[role.replace("_", " ")] = tuple(dict.fromkeys(chain(*paths)))
    roles["human"] = tuple(chain(inputs.named_answers, *inputs.named_answers.values()))
    logs = {f"log of {name}": paths for name, paths in inputs.named_logs.items()}
    # Apart from the others: a system can have the name of a role.
    files = [
        file
        for named in (roles, inputs.named_systems, logs)
        for file in describe_files(named, inputs.texts)
    ]
    rows = [[f.role, Cell(f.path, style="text"), f"{f.lines:,}", f.digest] for f in files]
    folded = f"{len(rows)} files" if len(rows) > MOST_FILES else ""
    header = ["Role", "File", "Lines", "SHA-256"]
    trainings = describe_trainings(inputs.named_logs, inputs.texts)
    parts: list[Part] = [Literal("Command", args.command_line)]
    parts.append(make_table(header, rows, caption="Files", folded=folded))
    notes = [f"date: {args.date}"] if args.date else []
    notes += [f"left out: {text}" for text in inputs.left_out]
    return Answer(
        "made",
        "How this was made",
        "The command, the files and their digests, and the settings of the trainings: enough to "
        "do it again.",
        "",
        [*parts, *(_describe(trainings) if trainings else [])],
        {},
        notes=notes,
        signatures={k: text for answer in answers for k, text in answer.signatures.items()},
    )


def _describe(trainings: Sequence[Training]) -> list[Part]:
    shown = ("criterion", "reward", "seed", "max-update")
    rows = [
        [one.name, *(one.settings.get(name, "") for name in shown), one.first, one.last]
        for one in trainings
    ]
    header = ["System", "Criterion", "Reward", "Seed", "Updates", "First line", "Last line"]
    known = [
        Literal(
            "",
            " ".join(f"--{name} {value}" for name, value in one.settings.items()),
            f"All known settings of {one.name}, {one.path}",
        )
        for one in trainings
        if one.settings
    ]
    return [make_table(header, rows, caption="Trainings, as their logs tell"), *known]

"""Say what a report was made of: files by their content, trainings by what their logs say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from simile_plugin.report.answer import Answer, Cell, Literal, Part, make_table
from simile_plugin.report.inputs import Inputs

MOST_FILES = 60  # shown at once
DATE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \|", re.M)
SETTINGS = ("seed", "lr", "max_update", "max_epoch", "batch_size", "max_tokens", "update_freq")
CRITERION = re.compile(r"'criterion': \{'_name': '(\w+)'([^{}]*)\}")
FROM = re.compile(r"'finetune_from_model': '([^']*)'")


def describe_report(inputs: Inputs, answers: Sequence[Answer]) -> Answer:
    """Describe the command, the files, the trainings, and what stands behind the numbers."""
    rows = []
    for role, path in _files(inputs):
        if Path(path).is_file():  # no standard input, pipe or folder
            digest, lines = inputs.texts.digest(path)
            rows.append([role, Cell(path, style="text"), f"{lines:,}", digest])
    folded = f"{len(rows)} files" if len(rows) > MOST_FILES else ""
    header = ["Role", "File", "Lines", "SHA-256"]
    parts: list[Part] = [Literal("Command", inputs.command_line)]
    parts.append(make_table(header, rows, caption="Files", folded=folded))
    return Answer(
        "made",
        "How this was made",
        "The command, the files and their digests, and the settings of the trainings: enough to "
        "do it again.",
        "",
        [*parts, *_trainings(inputs)],
        {},
        notes=[f"left out: {text}" for text in inputs.left_out],
        signatures={k: text for answer in answers for k, text in answer.signatures.items()},
    )


def _files(inputs: Inputs) -> list[tuple[str, str]]:
    """Return roles and paths."""
    options = inputs.options
    given = {"reference": options.ref, "source": options.src, "n-best": options.nbest_lists}
    files = [(role, path) for role, path in given.items() if path]
    for spec in options.sentence_scores:
        files += [("sentence scores", path) for path in spec.partition("=")[2].split(",")]
    for key, answers in inputs.named_answers.items():
        files += [("human", path) for path in (key, *answers)]
    for what, named in (("", inputs.named_systems), ("log of ", inputs.named_logs)):
        files += [(what + name, path) for name, paths in named.items() for path in paths]
    return files


def _trainings(inputs: Inputs) -> list[Part]:
    """Show what the logs say of their trainings, as far as they say it."""
    shown = ("criterion", "reward", "seed", "max-update")
    rows, known = [], []
    for name, paths in inputs.named_logs.items():
        for path in paths:
            if not Path(path).is_file():
                continue
            text = inputs.texts.bytes(path, "--log").decode("utf-8", "replace")
            dates = DATE.findall(text) or [""]
            own = training_settings(text)
            rows.append([name, *(own.get(key, "") for key in shown), dates[0], dates[-1]])
            if own:
                flags = " ".join(f"--{key} {value}" for key, value in own.items())
                known.append(Literal("", flags, f"All known settings of {name}, {path}"))
    if not rows:
        return []
    header = ["System", "Criterion", "Reward", "Seed", "Updates", "First line", "Last line"]
    return [make_table(header, rows, caption="Trainings, as their logs tell"), *known]


def training_settings(text: str) -> dict[str, str]:
    """Return the settings that a reader asks for first, and those of the criterion.

    They are in the last line of the log where fairseq printed its configuration.
    """
    told = [line for line in text.split("\n") if "'criterion': {" in line]
    if not told:
        return {}
    settings = {}
    for name in SETTINGS:
        match = re.search(rf"'{name}': (\[[^\]]*\]|[^,}}]+)", told[-1])
        if match and match[1] not in ("None", "0"):
            settings[name.replace("_", "-")] = match[1]
    if match := FROM.search(told[-1]):
        settings["finetune-from-model"] = match[1]
    if match := CRITERION.search(told[-1]):
        settings["criterion"] = match[1]
        for key, value in re.findall(r"'(\w+)': ('[^']*'|[^,]+)", match[2]):
            if value != "None":
                settings[key.replace("_", "-")] = value.strip("'")
    return settings

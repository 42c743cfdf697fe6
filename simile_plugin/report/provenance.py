"""What a report was made of: files by their content, trainings by what their logs say."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HASH_DIGITS = 12
DATE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \|")
SETTINGS = ("seed", "lr", "max_update", "max_epoch", "batch_size", "max_tokens", "update_freq")
CRITERION = re.compile(r"'criterion': \{'_name': '(\w+)'([^{}]*)\}")
FROM = re.compile(r"'finetune_from_model': '([^']*)'")


@dataclass(frozen=True)
class InputFile:
    """A file by role, name, SHA-256 (first digits) and lines."""

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


def describe_file(role: str, path: str) -> InputFile:
    """Read a file once more, for its digest (of the text, so that a .gz is its content).

    Raises:
        OSError: if it cannot be read.
    """
    data = Path(path).read_bytes()
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return InputFile(role, path, hashlib.sha256(data).hexdigest()[:HASH_DIGITS], lines)


def describe_files(named: Mapping[str, Sequence[str]]) -> list[InputFile]:
    """All files of role -> paths; standard input and folders have no digest and are left out."""
    return [
        describe_file(role, path)
        for role, paths in named.items()
        for path in paths
        if Path(path).is_file()
    ]


def describe_trainings(named: Mapping[str, Sequence[str]]) -> list[Training]:
    """What the logs of system -> log files say of their trainings; folders are left out."""
    return [
        _training(name, path)
        for name, paths in named.items()
        for path in paths
        if Path(path).is_file()
    ]


def _training(name: str, path: str) -> Training:
    first, last, settings = "", "", {}
    with open(path, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            date = DATE.match(line)
            if date:
                first, last = first or date[1], date[1]
            if "'criterion': {" in line:
                settings = _settings(line)
    return Training(name, path, first, last, settings)


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

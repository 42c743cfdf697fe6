"""The log of fairseq-train, read while it grows: updates, validations, warnings."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable

from simile_plugin.fairseq_hooks import KNOWN_PAIRS
from simile_plugin.finetuning.story import RunStory


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
        if kind == KNOWN_PAIRS and story.validations and found.get("cost"):
            story.known_pairs(found["cost"], int(found["sentences"]))
            if live:
                story.begin()
        elif kind == "train_inner" and live:
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

"""Say what a report was made of: the command, and files by their content."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from simile_plugin.report.answer import Answer, Cell, Literal, Part, make_table
from simile_plugin.report.inputs import Inputs

MOST_FILES = 60  # shown at once
FOLDERS = re.compile(r"(?<![^\s=,:'\"])/(?:[^\s,:'\"/]+/)+")  # of a path from the root


def describe_report(inputs: Inputs, answers: Sequence[Answer]) -> Answer:
    """Describe the command, the files, and what stands behind the numbers."""
    rows = []
    files = _files(inputs)
    short = short_paths([path for _, path in files])
    for role, path in files:
        if Path(path).is_file():  # no standard input, pipe or folder
            digest, lines = inputs.texts.digest(path)
            rows.append([role, Cell(short[path], style="text"), f"{lines:,}", digest])
    folded = f"{len(rows)} files" if len(rows) > MOST_FILES else ""
    header = ["Role", "File", "Lines", "SHA-256"]
    command = inputs.command_line
    for path in sorted(short, key=len, reverse=True):
        command = command.replace(path, short[path])
    command = FOLDERS.sub("", command)
    parts: list[Part] = [Literal("Command", command)]
    parts.append(make_table(header, rows, caption="Files", folded=folded))
    signatures: dict[str, str] = {}
    for answer in answers:
        for name, text in answer.signatures.items():
            known = signatures.setdefault(name, text)
            if text != known and text not in signatures.values():
                signatures[f"{name} ({answer.title})"] = text
    return Answer(
        "made",
        "How this was made",
        "The command, the files and their digests: enough to do it again.",
        "",
        parts,
        {},
        signatures=signatures,
    )


def short_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return paths without the machine's folders: what they have in common from the root is cut."""
    from_root = [path for path in paths if path.startswith("/")]
    common = os.path.commonpath([os.path.dirname(path) for path in from_root] or ["/"])
    return {path: os.path.relpath(path, common) if path in from_root else path for path in paths}


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

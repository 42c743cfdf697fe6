"""Checks, before the work, that what a command is to write can be written and hurts no input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from simile_plugin.files.atomic import check_replaceable, is_special
from simile_plugin.files.errors import InputError


def check_outputs(
    outputs: Mapping[str, str | Sequence[str] | None],
    inputs: Iterable[str | None],
    folders: bool = False,
) -> None:
    """Raise InputError, naming flag and path, unless files (or folders) can be written.

    Args:
        outputs: flag -> path, or several; None or "" is none.
        inputs: paths that stay as they are; None is none.
    """
    read, written = [name for name in inputs if name], dict[str, str]()
    named = ((flag, [own] if isinstance(own, str) else own or ()) for flag, own in outputs.items())
    for flag, path in ((flag, path) for flag, paths in named for path in paths if path):
        if path == "-":  # a file of this name is hardly meant, nor easy to remove
            stdout = "" if folders else " (/dev/stdout is standard output)"
            raise InputError(f"{flag}: got -, which only inputs can be; name another place{stdout}")
        target = os.path.realpath(path)  # a link is followed
        if target in written:
            raise InputError(f"{flag}: {path} is what {written[target]} writes; name another place")
        written[target] = flag
        if is_special(path):
            continue
        folder = Path(target).parent
        if not folder.is_dir():
            raise InputError(f"{flag}: no folder for {path}; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{flag}: {path}: no file can be written in {folder}; name another")
        if not folders and os.path.isdir(path):
            raise InputError(f"{flag}: {path} is a folder, expected a file; name one")
        if folders and os.path.isfile(path):
            raise InputError(f"{flag}: {path} is a file, expected a folder; name one")
        refuse_overwriting_input(path, read, flag)


def refuse_overwriting_input(
    output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]], flag: str = "--output"
) -> None:
    """Raise InputError unless writing `output` leaves `inputs` whole, whatever names they go by.

    A folder is replaced with all that is in it, and one that is read loses what is written over in
    it. flag: names the output.
    """
    if is_special(output):
        return
    target = Path(os.path.realpath(output))
    for path in inputs:
        if str(path) == "-":
            continue
        source = Path(os.path.realpath(path))
        problem = ""
        if source == target:
            problem = "is"
        elif target in source.parents:
            problem = f"would be replaced with all in it, {path} too: it is"
        elif target.is_file() and source in target.parents:
            problem = f"is in {path},"
        if problem:
            raise InputError(
                f"{flag}: {output} {problem} an input of this command; name another place"
            )


def refuse_unasked_overwrite(
    path: str | os.PathLike[str], marker: str, what: str, asked: bool
) -> None:
    """Raise InputError for a folder that may be replaced, but only where --overwrite asks for it.

    what: a folder with the file `marker` holds, for the message. See `check_replaceable`.
    """
    check_replaceable(path, marker)
    if not asked and Path(path, marker).exists():
        raise InputError(f"--output: {path} holds {what}; name another folder or add --overwrite")

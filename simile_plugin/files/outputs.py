"""Whether what a command or a script is to write can be written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from simile_plugin.files.atomic import refuse_overwriting_input
from simile_plugin.files.errors import InputError


def check_outputs(
    outputs: Mapping[str, str | Sequence[str] | None],
    inputs: Iterable[str | None],
    folders: bool = False,
) -> None:
    """Find out before the work whether files, or folders, can be written.

    Args:
        outputs: flag -> path, or several; None or "" is none.
        inputs: paths that stay as they are; None is none.

    Raises:
        InputError: naming the flag and the path.
    """
    read, written = [name for name in inputs if name], dict[str, str]()
    named = ((flag, [own] if isinstance(own, str) else own or ()) for flag, own in outputs.items())
    for flag, path in ((flag, path) for flag, paths in named for path in paths if path):
        if path == "-":  # a file of this name is hardly meant, nor easy to remove
            stdout = "" if folders else " (/dev/stdout is standard output)"
            raise InputError(f"{flag}: got -, which only inputs can be; name another place{stdout}")
        found = os.path.realpath(path)  # a link is followed
        if found in written:
            raise InputError(f"{flag}: {path} is what {written[found]} writes; name another place")
        written[found] = flag
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            continue  # a pipe or device is written as it is
        folder = Path(found).parent
        if not folder.is_dir():
            raise InputError(f"{flag}: no folder for {path}; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{flag}: {path}: no file can be written in {folder}; name another")
        if not folders and os.path.isdir(path):
            raise InputError(f"{flag}: {path} is a folder, expected a file; name one")
        if folders and os.path.isfile(path):
            raise InputError(f"{flag}: {path} is a file, expected a folder; name one")
        refuse_overwriting_input(path, read, flag)

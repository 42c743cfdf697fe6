"""Whether what a command is to write can be written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from simile_plugin.files import InputError, refuse_overwriting_input


def check_outputs(
    outputs: dict[str, str | None], inputs: Sequence[str | None], folders: bool = False
) -> None:
    """Find out before the work whether files, or folders, can be written: flag -> path."""
    written: dict[str, str] = {}
    for flag, path in outputs.items():
        if not path:
            continue
        if path == "-":  # a file of this name is hardly meant, nor easy to remove
            stdout = "" if folders else " (/dev/stdout is standard output)"
            raise InputError(f"{flag}: got -, which only inputs can be; name another place{stdout}")
        if (other := written.setdefault(os.path.realpath(path), flag)) != flag:
            raise InputError(f"{flag}: {path} is what {other} writes; name another place")
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            continue  # a pipe or device is written as it is
        folder = Path(os.path.realpath(path)).parent  # a link is followed
        if not folder.is_dir():
            raise InputError(f"{flag}: no folder for {path}; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{flag}: {path}: no file can be written in {folder}; name another")
        if not folders and Path(path).is_dir():
            raise InputError(f"{flag}: {path} is a folder, expected a file; name one")
        refuse_overwriting_input(path, [name for name in inputs if name], flag)

"""`simile user-dir`: the folder that fairseq's --user-dir takes."""

from __future__ import annotations

import argparse
from pathlib import Path

import simile_plugin
from simile_plugin.files import InputError

HELP = 'print the folder for fairseq\'s --user-dir: fairseq-train --user-dir "$(simile user-dir)"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`simile user-dir` takes no flags."""


def run(args: argparse.Namespace) -> int:
    """Print the folder's absolute path."""
    print(user_dir())
    return 0


def user_dir(package: Path = Path(simile_plugin.__file__).parent) -> Path:
    """The user dir of an installed package: the copy in it, or the clone's, in an editable one.

    Raises:
        InputError: if neither is there.
    """
    for folder in (package / "user_dir_parent" / "simile_user_dir", package.parent / "user_dir"):
        if (folder / "__init__.py").is_file():
            return folder.resolve()
    raise InputError(
        f"no user dir in {package} or beside it; expected one from installing simile-plugin, "
        "by a wheel or by `pip install -e` in a clone: install it again"
    )

"""`simile contrib COMMAND`: the papers' other systems, which may change or go."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module

from simile_plugin.cli._flags import DeviceFlags, JsonFlags, folder_option

HELP = "the papers' other systems: mine-bitext (translations in two texts), find (paraphrases)"

COMMANDS = ("mine-bitext", "find")

DESCRIPTION = """\
Systems of the papers beside the reward and the training. They are tested, but not promised: flags
and formats may change, and a command may go, with any version.
"""


@dataclass
class EncoderFlags(DeviceFlags, JsonFlags):
    """Flags of commands that show what an encoder can do."""

    encoder: str = folder_option("encoder folder", names=("encoder",), metavar="ENCODER")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of each command of `simile contrib`."""
    parser.description = DESCRIPTION
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name in COMMANDS:
        module = import_module(f"{__name__}.{name.replace('-', '_')}")
        command = commands.add_parser(name, help=module.HELP, allow_abbrev=False)
        command.set_defaults(run=module.run)
        module.add_arguments(command)


def run(args: argparse.Namespace) -> int:
    """Run the command; its exit status."""
    return int(args.run(args))

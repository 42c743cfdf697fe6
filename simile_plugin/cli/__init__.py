"""The `simile` command: finds the subcommand's module, parses its flags, runs it."""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import os
import pkgutil
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from simile_plugin import __version__
from simile_plugin.files import InputError

# Order of use: every module of a command, and fairseq-train, which is not ours.
ORDER = (
    "doctor",
    "user-dir",
    "filter-pairs",
    "binarize-pairs",
    "train-encoder",
    "eval-encoder",
    "fit-reward",
    "probe",
    "convert-encoder",
    "fairseq-train",
    "finetune-hf",
    "mbr",
    "rerank",
    "score",
    "report",
    "human-eval",
    "contrib",
)
MOVED = ("detect", "find", "mine-bitext", "neighbours")  # to contrib

FAIRSEQ_TRAIN = """\
fairseq-train DATA-BIN --user-dir user_dir --criterion simile_risk \\
      --simile-encoder ENCODER --finetune-from-model MLE.pt ...
                  fine-tunes a translation model on its own n-best lists, by the reward;
                  recipes/finetune.sh has the other flags; what each of ours means:
                  fairseq-train --user-dir user_dir --criterion simile_risk --help"""

USAGE = """\
usage: simile COMMAND [options]
       simile COMMAND --help
       simile --version

Minimum risk training of fairseq translation models with the semantic reward SIMILE
(Wieting et al. 2019, "Beyond BLEU").

commands, in the order of use:
{commands}

shell recipes that do all of it: recipes/quickstart/run.sh (on generated data, minutes),
recipes/multi30k/ (on real data), recipes/finetune.sh (for a model of your own)
"""


class _Parser(argparse.ArgumentParser):
    """A flag that is not known or has a bad value is bad input as any other: one line.

    Descriptions and epilogs are printed as they stand.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        # Python 3.14's; those before it take -1e-3 for a flag that nobody knows.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        raise InputError(f"{message}; {self.prog} --help explains the flags")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; argv without the program's name, default: the process's arguments.

    Returns the exit status: the subcommand's own, 2 for bad input (one line on stderr; all of it
    with SIMILE_TRACEBACK=1) or a missing package, 130 when interrupted, 141 for a closed pipe.
    Raises SystemExit for --help, as argparse does.
    """
    _open_closed()
    _set_encoding()
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else ""
    return _run(command, lambda: _dispatch(command, arguments))


def _dispatch(command: str, arguments: Sequence[str]) -> int:
    """Print the map or the version, or run a subcommand: its exit status."""
    commands = find_commands()
    if command in ("-h", "--help", "help"):
        print(describe(commands), end="")
        return 0
    if command in ("-V", "--version"):
        print(f"simile {__version__}")
        return 0
    if command not in commands:
        print(f"simile: error: {_explain_unknown(command, commands)}", file=sys.stderr)
        return 2
    module = load_command(command)
    parser = _Parser(prog=f"simile {command}", description=module.HELP, allow_abbrev=False)
    module.add_arguments(parser)
    try:
        parsed = parser.parse_args(arguments[1:])
    except InputError as error:
        return _refuse(command, str(error))
    parsed.command_line = shlex.join(["simile", *arguments])  # for reports that say how to repeat
    return int(module.run(parsed))


def _open_closed() -> None:
    """What is written to closed standard output or error (>&-) is dropped.

    Without this, print writes to standard output what is for a closed standard error.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def find_commands() -> list[str]:
    """Names of the subcommands whose modules are here, in the order of use."""
    names = [m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if m.name[0] != "_"]
    return sorted(names, key=ORDER.index)


def load_command(command: str) -> ModuleType:
    """Import the module of a subcommand: HELP, add_arguments(parser), run(args)."""
    return importlib.import_module(f"{__name__}.{command.replace('-', '_')}")


def describe(commands: Sequence[str]) -> str:
    """The map of the project that `simile --help` prints."""
    lines = {
        name: textwrap.fill(
            f"  {name:<15} {load_command(name).HELP}", 98, subsequent_indent=" " * 18
        )
        for name in commands
    }
    lines["fairseq-train"] = f"  {FAIRSEQ_TRAIN}"
    ordered = sorted(lines, key=ORDER.index)
    return USAGE.format(commands="\n".join(lines[name] for name in ordered))


def _explain_unknown(command: str, commands: Sequence[str]) -> str:
    if not command:
        return "no command given; simile --help lists them"
    if command in MOVED:
        return f"{command} is now: simile contrib {command}"
    near = difflib.get_close_matches(command, commands, n=1)
    guess = f"; did you mean {near[0]}?" if near else ""
    return f"unknown command {command!r}{guess} (simile --help lists them)"


def _run(command: str, work: Callable[[], int]) -> int:
    """Do the work of a command; turn bad input into one line and a status."""
    try:
        try:
            status = work()
        except SystemExit:  # of --help, which may still be in the buffer
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _drop_output()  # Python flushes it once more at exit, which must not fail again
        return 141
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if not error.name or error.name.split(".")[0] == "simile_plugin":
            raise
        message = f"the Python package {error.name!r} is missing; simile doctor says what to do"
    except OSError as error:
        if os.environ.get("SIMILE_TRACEBACK"):
            raise
        named = error.filename is not None and error.strerror is not None
        message = f"{error.filename}: {error.strerror}" if named else str(error)
        if error.filename is None and error.errno == errno.ENOSPC:
            message = f"standard output cannot be written: {error.strerror}"
            _drop_output()  # Python flushes it once more at exit
    except InputError as error:
        if os.environ.get("SIMILE_TRACEBACK"):
            raise
        message = str(error)
    return _refuse(command, message)


def _set_encoding() -> None:
    """Standard output is UTF-8 as files are, whatever the locale; a terminal shows what it can."""
    if not hasattr(sys.stdout, "reconfigure"):
        return
    if sys.stdout.isatty():
        sys.stdout.reconfigure(errors="replace")
    else:  # names of files may be other bytes
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def _refuse(command: str, message: str) -> int:
    print(f"simile {command}: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

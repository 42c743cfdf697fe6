"""The `simile` command: finds the subcommand's module, parses its flags, runs it."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from simile_plugin import __version__
from simile_plugin.files import InputError

# In the order of use.
COMMANDS = (
    *("doctor", "filter-pairs", "train-encoder", "distil-encoder", "eval-encoder"),
    *("fit-reward", "probe"),
    *("finetune", "finetune-hf", "mbr", "score", "report", "human-eval"),
)
LESS_USED = ("user-dir", "model-flags", "binarize-pairs", "convert-encoder")

# What setup.py's extras bring, by the names that are imported.
EXTRAS = {
    "fairseq": {"fairseq", "fairseq_cli", "hydra", "omegaconf"},
    "hf": {"transformers", "accelerate", "peft", "tokenizers"},
    "report": {"matplotlib", "compare_mt", "jinja2", "six", "textblob"},
}

USAGE = """\
usage: simile COMMAND [options]
       simile COMMAND --help
       simile --version

Minimum risk training of translation models of fairseq and Hugging Face, with the semantic
reward SIMILE (Wieting et al. 2019, "Beyond BLEU").

commands, in the order of use:
{commands}

less used:
{less_used}

simile finetune runs fairseq-train, which can also be run as ever:
  fairseq-train DATA-BIN --user-dir "$(simile user-dir)" --criterion simile_risk ...
  (what each flag means: add --help to that)

shell recipes that do all of it: recipes/quickstart/run.sh (on generated data, minutes),
recipes/multi30k/ (on real data)
"""


class _Parser(argparse.ArgumentParser):
    """A flag that is not known or has a bad value is bad input as any other: one line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # of subcommands, too: descriptions as they stand
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
    # As files are, whatever the locale; names of files may be other bytes.
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else ""
    try:
        try:
            return _dispatch(command, arguments)
        finally:
            sys.stdout.flush()  # here, where a closed pipe or full disk can be answered
    except BrokenPipeError:
        # Python flushes it once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except (InputError, OSError, ModuleNotFoundError) as error:
        own = getattr(error, "name", None) or ""
        if os.environ.get("SIMILE_TRACEBACK") or own.startswith("simile_plugin"):
            raise
        print(f"simile {command}: error: {' '.join(_message(error).split())}", file=sys.stderr)
        return 2


def _message(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").split(".")[0]
        for extra, brought in EXTRAS.items():
            if package in brought:
                return f"needs {package}: pip install 'simile-plugin[{extra}]'"
        return f"the Python package {error.name!r} is missing; simile doctor says what to do"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _dispatch(command: str, arguments: Sequence[str]) -> int:
    """Print the map or the version, or run a subcommand: its exit status."""
    if command in ("-h", "--help", "help"):
        print(describe(), end="")
        return 0
    if command in ("-V", "--version"):
        print(f"simile {__version__}")
        return 0
    if command not in (*COMMANDS, *LESS_USED):
        got = f"unknown command {command!r}" if command else "no command given"
        raise InputError(f"{got}; simile --help lists them")
    module = load_command(command)
    parser = _Parser(prog=f"simile {command}", description=module.HELP, allow_abbrev=False)
    module.add_arguments(parser)
    parsed = parser.parse_args(arguments[1:])
    parsed.command_line = shlex.join(["simile", *arguments])  # for reports that say how to repeat
    return int(module.run(parsed))


def load_command(command: str) -> ModuleType:
    """Import the module of a subcommand: HELP, add_arguments(parser), run(args)."""
    return importlib.import_module(f"{__name__}.{command.replace('-', '_')}")


def describe() -> str:
    """Return the map of the project that `simile --help` prints."""
    return USAGE.format(
        commands="\n".join(map(_line, COMMANDS)), less_used="\n".join(map(_line, LESS_USED))
    )


def _line(command: str) -> str:
    text = f"  {command:<15} {load_command(command).HELP}"
    return textwrap.fill(text, 98, subsequent_indent=" " * 18)

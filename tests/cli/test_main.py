"""The `simile` command itself: its map, and how it answers bad input."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from simile_plugin import __version__, cli
from simile_plugin.files import InputError

COMMANDS = [*cli.COMMANDS, *cli.LESS_USED]


def simile(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "simile_plugin", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def run_that(action: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """The status of a subcommand whose run() raises, or returns, `action`."""

    def run(args: object) -> object:
        if isinstance(action, BaseException):
            raise action
        return action

    module = types.SimpleNamespace(HELP="a fake", add_arguments=lambda parser: None, run=run)
    monkeypatch.setattr(cli, "load_command", lambda name: module)
    return cli.main(["score"])


def test_help_is_a_map_of_16_commands_in_order() -> None:
    done = simile("--help")
    assert done.returncode == 0
    positions = [done.stdout.index(f"\n  {name} ") for name in (*cli.COMMANDS, *cli.LESS_USED)]
    assert positions == sorted(positions) and len(cli.COMMANDS) <= 16
    assert "--criterion simile_risk" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_commands_are_the_modules_that_exist() -> None:
    folder = Path(cli.__file__).parent
    names = {path.stem.replace("_", "-") for path in folder.glob("[a-z]*")}
    assert sorted(COMMANDS) == sorted(names)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: simile {command} ")


def test_no_command_waits_for_torch_to_read_its_flags() -> None:
    # finetune has the flags of RiskSettings, whose room is pure tensors.
    code = f"""if True:
        import argparse, sys
        from simile_plugin import cli
        for name in {COMMANDS!r}:
            if not name.startswith("finetune"):
                cli.load_command(name).add_arguments(argparse.ArgumentParser())
                assert "torch" not in sys.modules, name
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version_and_unknown_command() -> None:
    assert simile("--version").stdout == f"simile {__version__}\n"
    done = simile("docter")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("error: unknown command 'docter'; simile --help lists them\n")
    assert "no command given" in simile().stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("--ref: two\n  lines"), "--ref: two lines"),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), "x.txt: No such file or dir"),
        (OSError("no space"), "no space"),
        (ModuleNotFoundError("No module", name="tqdm"), "the Python package 'tqdm' is missing; s"),
        (ModuleNotFoundError("No module", name="six"), "needs six: pip install 'simile-plugin[rep"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    error: Exception,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("SIMILE_TRACEBACK", raising=False)
    assert run_that(error, monkeypatch) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"simile score: error: {line}") and said.count("\n") == 1
    monkeypatch.setenv("SIMILE_TRACEBACK", "1")
    with pytest.raises(type(error)):
        run_that(error, monkeypatch)


def test_mistakes_of_our_own_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ModuleNotFoundError("gone", name="simile_plugin.gone")
    for error in (KeyError("x"), ValueError("numpy's own"), missing):
        with pytest.raises(type(error)):
            run_that(error, monkeypatch)


def test_status_of_a_command_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [run_that(code, monkeypatch) for code in (0, 1, KeyboardInterrupt())] == [0, 1, 130]


def test_help_into_a_closed_pipe_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "simile_plugin", "--help"]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.stderr == b""


def test_abbreviated_flags_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--js"]) == 2
    error = capsys.readouterr().err
    assert "error: unrecognized arguments: --js; simile doctor --help explains" in error
    assert error.count("\n") == 1

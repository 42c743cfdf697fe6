"""The `simile` command itself: its map, and how it answers bad input."""

import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from simile_plugin import __version__, cli
from simile_plugin.files import InputError


def simile(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "simile_plugin", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def command_that(action: object) -> types.ModuleType:
    """A subcommand module whose run() raises, or returns, `action`."""
    module = types.ModuleType("fake")
    run = work_that(action)
    module.__dict__.update(HELP="a fake", add_arguments=lambda parser: None, run=lambda args: run())
    return module


def work_that(action: object) -> Callable[[], int]:
    """What raises, or returns, `action`."""

    def work() -> int:
        if isinstance(action, BaseException):
            raise action
        assert isinstance(action, int)
        return action

    return work


def test_help_lists_every_command_in_order() -> None:
    done = simile("--help")
    assert done.returncode == 0
    positions = [done.stdout.index(f"\n  {name} ") for name in cli.find_commands()]
    assert positions == sorted(positions)
    assert "--user-dir user_dir --criterion simile_risk" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_map_puts_training_between_encoder_and_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "load_command", lambda name: command_that(0))
    text = cli.describe(["doctor", "train-encoder", "eval-encoder", "score", "report"])
    steps = ["doctor", "train-encoder", "eval-encoder", "fairseq-train DATA-BIN", "score", "report"]
    positions = [text.index(f"\n  {step}") for step in steps]
    assert positions == sorted(positions)
    assert "filter-pairs" not in text


def test_commands_are_the_modules_that_exist() -> None:
    folder = Path(cli.__file__).parent
    names = {path.stem.replace("_", "-") for path in folder.glob("[a-z]*.py")}
    assert set(cli.find_commands()) == names | {"contrib"}  # a folder of more of them
    assert "contrib" == cli.find_commands()[-1]


@pytest.mark.parametrize("command", cli.MOVED)
def test_a_command_that_has_moved(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "x"]) == 2
    error = capsys.readouterr().err
    assert error == f"simile: error: {command} is now: simile contrib {command}\n"
    with pytest.raises(SystemExit):
        cli.main(["contrib", command, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: simile contrib {command} ")


@pytest.mark.parametrize("command", cli.find_commands())
def test_every_command_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: simile {command} ")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["doctor", "--help"], ["what"]])
def test_light_commands_do_not_wait_for_torch(arguments: list[str]) -> None:
    code = f"""if True:
        import sys
        from simile_plugin import cli
        try:
            cli.main({arguments!r})
        except SystemExit:
            pass
        sys.exit(bool({{"torch", "numpy", "fairseq"}} & set(sys.modules)))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_no_command_waits_for_torch_to_read_its_flags() -> None:
    # finetune-hf has the flags of RiskSettings, whose room is pure tensors.
    code = """if True:
        import argparse, sys
        from simile_plugin import cli
        for name in cli.find_commands():
            if name != "finetune-hf":
                cli.load_command(name).add_arguments(argparse.ArgumentParser())
                assert "torch" not in sys.modules, name
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version() -> None:
    assert simile("--version").stdout == f"simile {__version__}\n"


def test_unknown_command_gets_a_guess() -> None:
    done = simile("docter")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "simile: error: unknown command 'docter'; did you mean doctor? (simile --help lists them)\n"
    )
    assert "no command given" in simile().stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("--ref: two\n  lines"), "simile score: error: --ref: two lines"),
        (
            FileNotFoundError(2, "No such file or directory", "x.txt"),
            "simile score: error: x.txt: No such file or directory",
        ),
        (OSError("no space"), "simile score: error: no space"),
        (
            ModuleNotFoundError("No module named 'six'", name="six"),
            "simile score: error: the Python package 'six' is missing; "
            "simile doctor says what to do",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    error: BaseException,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("SIMILE_TRACEBACK", raising=False)
    assert cli._run("score", work_that(error)) == 2
    assert capsys.readouterr().err == line + "\n"


def test_traceback_is_there_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMILE_TRACEBACK", "1")
    with pytest.raises(InputError, match="flag"):
        cli._run("score", work_that(InputError("flag")))


def test_mistakes_of_our_own_keep_their_traceback() -> None:
    missing = ModuleNotFoundError("gone", name="simile_plugin.gone")
    for error in (KeyError("x"), ValueError("numpy's own"), missing):
        with pytest.raises(type(error)):
            cli._run("score", work_that(error))


def test_status_of_a_command_is_passed_on() -> None:
    assert [cli._run("x", work_that(code)) for code in (0, 1)] == [0, 1]
    assert cli._run("x", work_that(KeyboardInterrupt())) == 130


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_help_is_utf_8_whatever_the_locale(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    for command, word in (("contrib detect", "Sj\u00f6blom"), ("report", "\u2021")):
        done = subprocess.run(
            [sys.executable, "-m", "simile_plugin", *command.split(), "--help"], capture_output=True
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert word in done.stdout.decode("utf-8")


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["score", "--help"]], ids=str)
def test_help_into_a_closed_pipe_is_no_error(
    arguments: list[str], buffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "simile_plugin", *arguments]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.stderr == b""
    assert done.returncode in (0, 141)  # argparse itself passes over what it cannot write


def test_a_closed_pipe_is_no_error() -> None:
    code = """if True:
        import sys
        from simile_plugin import cli
        def work():
            for number in range(100000):
                print(number)
            return 0
        sys.exit(cli._run("x", work))
    """
    script = f"{sys.executable} -c '{code}' | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n141\n", "")


@pytest.mark.parametrize(
    ("arguments", "status", "out", "error"),
    [
        ("user-dir >&-", 0, "", ""),
        ("user-dir 2>&-", 0, "user_dir\n", ""),
        ("user-dir --no-such-flag 2>&-", 2, "", ""),
        ("user-dir --no-such-flag >&-", 2, "", "explains the flags\n"),
    ],
)
def test_closed_standard_output_or_error(arguments: str, status: int, out: str, error: str) -> None:
    script = f"{sys.executable} -m simile_plugin {arguments}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == status
    assert done.stdout.endswith(out) and bool(done.stdout) == bool(out)
    assert done.stderr.endswith(error) and bool(done.stderr) == bool(error)


def test_abbreviated_flags_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--js"]) == 2
    error = capsys.readouterr().err
    assert "error: unrecognized arguments: --js; simile doctor --help explains" in error
    assert error.count("\n") == 1


def test_a_full_disk_behind_standard_output(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one line\n")
    code = "import sys; from simile_plugin.cli import main; sys.exit(main())"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, "score", "-r", "a.txt", "-i", "a.txt"],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    said = "simile score: error: standard output cannot be written: No space left on device\n"
    assert done.stderr.endswith(said) and done.stderr.count("rror") == 1

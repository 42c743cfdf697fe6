"""recipes/common.sh: restartable steps, and what an installation answers when something lacks."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMON = ROOT / "recipes" / "common.sh"


def bash(script: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a script that has sourced common.sh, with WORK=folder/work."""
    environment = {**os.environ, "WORK": str(folder / "work"), **variables}
    return subprocess.run(
        ["bash", "-c", f". '{COMMON}'\n{script}", "recipe"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def runs(folder: Path) -> list[str]:
    """What the steps of a script have appended to the file `log`."""
    path = folder / "log"
    return path.read_text().split() if path.exists() else []


LOG = 'note() { echo "$1" >>log; }\n'
# hold: until another process says that it waits; ten minutes at most.
UNTIL_THE_OTHER_WAITS = """
    say() { echo "$*"; case $* in *"waiting for it") touch waits;; esac; }
    hold() { for _ in $(seq 6000); do [ ! -e waits ] || return 0; sleep 0.1; done; }
"""


def test_a_step_runs_once(tmp_path: Path) -> None:
    script = LOG + "once first note a; once second note b"
    assert bash(script, tmp_path).returncode == 0
    again = bash(script, tmp_path)
    assert runs(tmp_path) == ["a", "b"]
    assert again.stdout.count("done before, skipped") == 2


def test_a_step_runs_again_when_its_command_changes(tmp_path: Path) -> None:
    for argument in ("a", "a", "b"):
        bash(LOG + f"once first note {argument}", tmp_path)
    assert runs(tmp_path) == ["a", "b"]
    bash('note() { echo other >>log; }; once first note "b"', tmp_path)
    assert runs(tmp_path) == ["a", "b", "other"]


def test_a_step_runs_again_when_a_file_changes(tmp_path: Path) -> None:
    script = 'copy() { cp "$1" "$2"; echo copied >>log; }; once copy copy in out'
    (tmp_path / "in").write_text("one")
    for _ in range(2):
        assert bash(script, tmp_path).returncode == 0
    assert runs(tmp_path) == ["copied"]
    (tmp_path / "in").write_text("longer")
    bash(script, tmp_path)
    (tmp_path / "out").unlink()
    bash(script, tmp_path)
    assert runs(tmp_path) == ["copied"] * 3
    assert (tmp_path / "out").read_text() == "longer"


def test_a_step_runs_again_after_a_step_that_it_needs(tmp_path: Path) -> None:
    script = LOG + "once data note ARG; once other note o; AFTER=data once train note t"
    for argument in ("a", "a", "b", "b"):
        assert bash(script.replace("ARG", argument), tmp_path).returncode == 0
    assert runs(tmp_path) == ["a", "o", "t", "b", "t"]


def test_a_failed_step_ends_the_recipe_and_is_repeated(tmp_path: Path) -> None:
    # `false` in the middle of a function must end it, as everywhere under set -e.
    script = LOG + "step() { note a; [ -e fixed ]; note b; }\nonce first step; note after"
    done = bash(script, tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "recipe: error: step first failed (exit status 1), see above; "
        "run again to go on from there\n"
    )
    assert runs(tmp_path) == ["a"]
    (tmp_path / "fixed").touch()
    assert bash(script, tmp_path).returncode == 0
    assert runs(tmp_path) == ["a", "a", "b", "after"]


def test_a_failed_repetition_is_not_taken_for_done(tmp_path: Path) -> None:
    script = LOG + "step() { note $1; [ $1 != bad ]; }\nonce first step ARG"
    assert [bash(script.replace("ARG", x), tmp_path).returncode for x in ("a", "bad", "a")] == [
        0,
        1,
        0,
    ]
    assert runs(tmp_path) == ["a", "bad", "a"]


def test_two_recipes_do_a_step_once(tmp_path: Path) -> None:
    script = (
        f". '{COMMON}'; {UNTIL_THE_OTHER_WAITS} slow() {{ hold; echo x >>log; }}; once slow slow"
    )
    environment = {**os.environ, "WORK": str(tmp_path / "work")}
    both = [
        subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert runs(tmp_path) == ["x"]
    assert sum("running elsewhere" in output for output in outputs) == 1


def test_a_terminal_does_not_set_the_recipes_lines(tmp_path: Path) -> None:
    """bash sets LINES and COLUMNS to the size of a terminal after each command that it runs."""
    theirs, ours = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 50, 120, 0, 0))
    script = f". '{COMMON}'; LINES=all; /bin/true; (/bin/true; echo $LINES)"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, stdin=ours, stdout=subprocess.PIPE, stderr=ours
    )
    os.close(ours)
    os.close(theirs)
    assert done.stdout == b"all\n"


def test_once_needs_a_folder(tmp_path: Path) -> None:
    done = bash("unset WORK; once first true", tmp_path)
    assert done.returncode != 0
    assert "set WORK to the folder of this recipe" in done.stderr


def fake_python(folder: Path, says: str) -> str:
    path = folder / "fake-python"
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("old 3.9", "is Python 3.9; 3.11 or newer is needed"),
        ("venv 3.12", "has no venv; apt-get install python3.12-venv"),
        ("headers 3.12", "lacks its C headers; apt-get install python3.12-dev"),
    ],
)
def test_unsuitable_python(tmp_path: Path, says: str, reason: str) -> None:
    variables = {"SIMILE_VENV": str(tmp_path / "v"), "SIMILE_PYTHON": fake_python(tmp_path, says)}
    done = bash("setup_venv", tmp_path, **variables)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert reason in done.stderr
    assert not (tmp_path / "v").exists()


def test_headers_are_needed_to_build_only(tmp_path: Path) -> None:
    """The fake answers as asked: 1 says that a wheel of fairseq is at hand."""
    (tmp_path / "w").mkdir()
    python = Path(fake_python(tmp_path, '"headers 3.12"'))
    python.write_text('#!/bin/sh\n[ "$3" = 1 ] && echo "ok 3.12" || echo "headers 3.12"\n')
    script = "_find_python; echo found $python"
    variables = {"SIMILE_PYTHON": str(python), "PIP_FIND_LINKS": str(tmp_path / "w")}
    assert "lacks its C headers" in bash(script, tmp_path, **variables).stderr
    (tmp_path / "w" / "fairseq_fixed-0-cp312.whl").touch()
    assert bash(script, tmp_path, **variables).stdout == f"found {python}\n"


def test_packages_of_a_virtual_environment_are_inherited(tmp_path: Path) -> None:
    for name in ("theirs", "ours"):
        venv = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages"]
        subprocess.run([*venv, tmp_path / name], check=True)
    (packages,) = (tmp_path / "theirs").glob("lib/*/site-packages")
    (packages / "of_the_machine.py").write_text("print('imported')")
    script = '_inherit "$PWD/theirs/bin/python"; "$VENV/bin/python" -c "import of_the_machine"'
    done = bash(script, tmp_path, VENV=str(tmp_path / "ours"))
    assert done.stdout == "imported\n", done.stderr


def test_kept_packages_may_bring_pip_along(tmp_path: Path) -> None:
    """As on a GPU server whose Python lacks ensurepip."""
    for name, content in (("ensurepip", "raise ImportError"), ("pip", "")):
        (tmp_path / "lib" / name).mkdir(parents=True)
        (tmp_path / "lib" / name / "__init__.py").write_text(content)
    (tmp_path / "lib" / "pip" / "__main__.py").write_text("print('theirs')")
    lacking = {"PYTHONPATH": str(tmp_path / "lib"), "SIMILE_PYTHON": sys.executable}
    script = 'VENV=$PWD/v; _make_venv; "$VENV/bin/python" -m pip'
    assert "has no venv; apt-get" in bash(script, tmp_path, **lacking).stderr
    done = bash(script, tmp_path, **lacking, SIMILE_TORCH="keep")
    assert done.stdout.splitlines()[-1] == "theirs", done.stderr


def test_no_python(tmp_path: Path) -> None:
    variables = {"SIMILE_VENV": str(tmp_path / "v"), "SIMILE_PYTHON": "/nowhere/python"}
    done = bash("setup_venv", tmp_path, **variables)
    assert done.stderr == (
        "recipe: error: no Python found (tried: /nowhere/python); 3.11 or newer is needed "
        "(or set SIMILE_PYTHON to another one)\n"
    )


def test_this_python_is_suitable(tmp_path: Path) -> None:
    done = bash('_find_python; echo "$python"', tmp_path, SIMILE_PYTHON=sys.executable)
    assert done.stdout.strip() == sys.executable


def test_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "thesis.tex").write_text("years of work")
    done = bash("setup_venv", tmp_path, SIMILE_VENV=str(tmp_path / "v"))
    assert done.returncode == 1
    assert "v is no virtual environment; remove it, or set SIMILE_VENV" in done.stderr
    assert os.listdir(tmp_path / "v") == ["thesis.tex"]


def test_wrong_settings(tmp_path: Path) -> None:
    done = bash("setup_venv", tmp_path, SIMILE_TORCH="cpu")
    assert done.stderr == "recipe: error: SIMILE_TORCH: got 'cpu', expected 'keep' or nothing\n"
    done = bash("setup_venv", tmp_path, SIMILE_VENV=str(tmp_path / "no" / "v"))
    assert f"SIMILE_VENV: no such folder: {tmp_path / 'no'}" in done.stderr


def environment_of(folder: Path, **files: str) -> Path:
    """A virtual environment as setup_venv leaves it, without what pip would install."""
    venv = folder / "v"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    for name, content in files.items():
        (venv / f".simile-{name}").write_text(content)
    return venv


def test_no_compiler(tmp_path: Path) -> None:
    environment_of(tmp_path)
    script = f"VENV={tmp_path}/v; _check_compiler; echo fine"
    assert bash(script, tmp_path, CXX="/nowhere/g++", PIP_FIND_LINKS="").stderr == (
        "recipe: error: no C++ compiler ('/nowhere/g++' does not work), which building fairseq "
        "needs: apt-get install g++, or set CC and CXX\n"
    )
    (tmp_path / "fairseq_fixed-1-cp311.whl").touch()
    variables = {"CXX": "/nowhere/g++", "PIP_FIND_LINKS": str(tmp_path)}
    assert bash(script, tmp_path, **variables).stdout == "fine\n"


def test_a_current_environment_is_used_at_once(tmp_path: Path) -> None:
    venv = environment_of(tmp_path)
    show_key = '_install() { echo "$2"; }; setup_venv'
    key = bash(show_key, tmp_path, SIMILE_VENV=str(venv)).stdout.strip()
    (venv / ".simile-installed").write_text(key)
    script = "_install() { echo install; }; setup_venv; command -v python; echo $VIRTUAL_ENV"
    done = bash(script, tmp_path, SIMILE_VENV=str(venv))
    assert done.stdout.split() == [f"{venv}/bin/python", str(venv)]
    # The tests' tools are not there yet.
    script = "_install() { echo install $1; }; setup_venv test"
    assert bash(script, tmp_path, SIMILE_VENV=str(venv)).stdout == "install test\n"


def test_two_installations_wait_for_each_other(tmp_path: Path) -> None:
    venv = environment_of(tmp_path)
    install = '_install() { hold; echo x >>log; echo "$2" >"$VENV/.simile-installed"; }'
    environment = {**os.environ, "SIMILE_VENV": str(venv)}
    command = ["bash", "-c", f". '{COMMON}'; {UNTIL_THE_OTHER_WAITS} {install}; setup_venv"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in both]
    assert runs(tmp_path) == ["x"]
    assert sum("Another installation" in output for output in outputs) == 1


@pytest.mark.parametrize("what", ["interrupted", "moved"])
def test_half_installed_environment_of_ours_is_started_over(tmp_path: Path, what: str) -> None:
    here = str(tmp_path / "v")
    venv = environment_of(tmp_path, venv=here + "\n" if what == "interrupted" else "/old/v\n")
    if what == "interrupted":
        (venv / ".simile-installing").touch()
    variables = {"SIMILE_VENV": here, "SIMILE_PYTHON": "/nowhere/python"}
    done = bash("setup_venv", tmp_path, **variables)
    assert f"Removing {here}, half installed or made for another folder" in done.stdout
    assert not venv.exists()


def test_environment_of_the_user_is_never_removed(tmp_path: Path) -> None:
    venv = environment_of(tmp_path, installing="")
    done = bash("_pip() { echo pip $1; return 1; }; setup_venv", tmp_path, SIMILE_VENV=str(venv))
    assert done.returncode == 1
    assert "Removing" not in done.stdout
    assert (venv / "bin" / "python").exists()


def test_kept_torch_is_pinned_as_it_is(tmp_path: Path) -> None:
    venv = environment_of(tmp_path)
    site = tmp_path / "site"
    for name, version in [("torch", "2.11.0+cu128"), ("Ruamel.YAML", "1"), ("numpy", "2.5.0")]:
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(metadata)
    python = f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n'
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").write_text(python)
    (venv / "bin" / "python").chmod(0o755)
    done = bash(f"VENV={venv}; _constraints_around_installed", tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0] == "torch==2.11.0+cu128"
    assert "torch==2.13.0" not in lines
    assert not any(line.startswith("numpy==") for line in lines)
    assert "fairseq-fixed==0.12.3.1" in lines


def test_every_recipe_can_be_started() -> None:
    scripts = sorted((ROOT / "recipes").rglob("*.sh"))
    own = [path for path in scripts if path.read_text(encoding="utf-8").startswith("#!")]
    assert len(own) > 20
    assert not [path for path in own if not os.access(path, os.X_OK)]


def test_a_search_path_of_cd_is_left_aside() -> None:
    done = subprocess.run(
        ["bash", "-c", ". recipes/common.sh; echo $ROOT"],
        cwd=COMMON.parents[1],
        env={**os.environ, "CDPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{COMMON.parents[1]}\n"

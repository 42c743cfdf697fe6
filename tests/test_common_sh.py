"""recipes/common.sh: restartable steps, and what an installation answers when something lacks."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMON = ROOT / "recipes" / "common.sh"


def bash(script: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a script that has sourced common.sh, with WORK=folder/work."""
    environment = os.environ | {"SIMILE_TORCH": "", "WORK": str(folder / "work")} | variables
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


def test_a_step_runs_again_when_its_command_changes(tmp_path: Path) -> None:
    for argument in ("a", "a", "b"):
        last = bash(LOG + f"once first note {argument}; once other note o", tmp_path)
    assert runs(tmp_path) == ["a", "o", "b"]
    assert last.stdout.count("done before, skipped") == 1
    bash('note() { echo other >>log; }; once first note "b"', tmp_path)
    assert runs(tmp_path) == ["a", "o", "b", "other"]


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


def test_a_download_goes_on_and_a_wrong_file_is_removed(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/corpus"
    (tmp_path / "corpus").write_bytes(b"the whole corpus")
    (tmp_path / "own.part").write_bytes(b"the whole")
    script = f"download {url} own sha256:{hashlib.sha256(b'the whole corpus').hexdigest()}"
    assert bash(script, tmp_path).returncode == 0
    assert (tmp_path / "own").read_bytes() == b"the whole corpus"
    (tmp_path / "corpus").write_bytes(b"another corpus")
    assert bash(script, tmp_path).returncode == 0  # nothing is asked for again
    (tmp_path / "own").unlink()
    assert f"error: {url}: has another checksum" in bash(script, tmp_path).stderr
    assert f"error: {url}s: cannot be downloaded" in bash(f"download {url}s own -", tmp_path).stderr
    assert not [path for path in tmp_path.glob("own*") if path.suffix != ".lock"]


def fake_python(folder: Path, says: str) -> str:
    path = folder / "fake-python"
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return str(path)


def test_unsuitable_python(tmp_path: Path) -> None:
    variables = {"SIMILE_VENV": str(tmp_path / "v")}
    variables["SIMILE_PYTHON"] = fake_python(tmp_path, "venv 3.12")
    done = bash("setup_venv", tmp_path, **variables)
    assert (done.returncode, done.stdout) == (1, "") and len(done.stderr.splitlines()) == 1
    assert "has no venv; apt-get install python3.12-venv" in done.stderr
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize(
    ("wheels", "chosen"),
    [
        ("", "python3.11"),
        ("python3.12 fairseq-fixed", "python3.12"),
        # CPU builds of torch for 3.11 alone: on 3.12 pip would bring gigabytes of CUDA.
        ("python3.12 fairseq-fixed, python3.11 torch==1+cpu", "python3.11"),
        (
            "python3.12 fairseq-fixed, python3.11 torch==1+cpu, python3.12 torch==1+cpu",
            "python3.12",
        ),
    ],
)
def test_the_python_with_wheels_goes_first(tmp_path: Path, wheels: str, chosen: str) -> None:
    for version in ("3.11", "3.12"):
        path = tmp_path / f"python{version}"
        path.write_text(f"#!/bin/sh\necho ok {version}\n")
        path.chmod(0o755)
    (tmp_path / "constraints.txt").write_text("torch==1\n")
    script = f"""
        _at_hand() {{ [[ ', {wheels},' = *", $1 $2,"* ]]; }}
        ROOT={tmp_path}; _find_python; echo "${{python##*/}}"
    """
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SIMILE_PYTHON": ""}
    assert bash(script, tmp_path, **variables).stdout == f"{chosen}\n"


def test_an_active_environment_that_has_it_is_used_as_it_is(tmp_path: Path) -> None:
    script = "_install() { echo installs; }; setup_venv; echo $VENV"
    here = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SIMILE_VENV": ""}
    done = bash(script, tmp_path, **here, VIRTUAL_ENV="/home/me/mine")
    assert done.stdout.splitlines()[1:] == [sys.prefix]
    empty = environment_of(tmp_path)
    (empty / "bin" / "python").unlink()
    (empty / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    (empty / "bin" / "python").chmod(0o755)
    here["PATH"] = f"{empty / 'bin'}:{os.environ['PATH']}"
    script = "_is_installed() { false; }; " + script
    assert "installs" in bash(script, tmp_path, **here, VIRTUAL_ENV=str(empty)).stdout


def test_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "thesis.tex").write_text("years of work")
    done = bash("setup_venv", tmp_path, SIMILE_VENV=str(tmp_path / "v"))
    assert done.returncode == 1
    assert "v is no virtual environment; remove it, or set SIMILE_VENV" in done.stderr
    assert os.listdir(tmp_path / "v") == ["thesis.tex"]


def environment_of(folder: Path, **files: str) -> Path:
    """A virtual environment as setup_venv leaves it, without what pip would install."""
    venv = folder / "v"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    for name, content in files.items():
        (venv / f".simile-{name}").write_text(content)
    return venv


def test_a_compiler_is_asked_for_only_where_no_wheel_is_at_hand(tmp_path: Path) -> None:
    environment_of(tmp_path)
    script = f"VENV={tmp_path}/v; python={sys.executable}; "
    script += "echo fairseq-fixed==1 >constraints.txt; ROOT=$PWD; "
    script += '_at_hand "$python" fairseq-fixed || _check_compiler; echo fine'
    variables = {"CXX": "/nowhere/g++", "PIP_FIND_LINKS": str(tmp_path), "PIP_NO_INDEX": "1"}
    variables |= {"PIP_CONSTRAINT": "", "PIP_CONFIG_FILE": os.devnull}
    assert bash(script, tmp_path, **variables).stderr == (
        "recipe: error: no wheel of fairseq is at hand, and building it needs a C++ compiler "
        "('/nowhere/g++' does not work): apt-get install g++, or set CC and CXX\n"
    )
    with zipfile.ZipFile(tmp_path / "fairseq_fixed-1-py3-none-any.whl", "w") as wheel:
        folder = "fairseq_fixed-1.dist-info"
        wheel.writestr(
            f"{folder}/METADATA", "Metadata-Version: 2.1\nName: fairseq-fixed\nVersion: 1\n"
        )
        wheel.writestr(
            f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{folder}/RECORD", "")
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


def test_half_installed_environment_of_ours_is_started_over(tmp_path: Path) -> None:
    here = str(tmp_path / "v")
    venv = environment_of(tmp_path, installing="")
    variables = {"SIMILE_VENV": here, "SIMILE_PYTHON": "/nowhere/python"}
    script = "_pip() { return 1; }; setup_venv"
    assert "Removing" not in bash(script, tmp_path, **variables).stdout  # a user's own
    (venv / ".simile-venv").write_text(f"{here}\n")
    done = bash(script, tmp_path, **variables)
    assert f"Removing {here}, half installed or made for another folder" in done.stdout
    assert not venv.exists()
    assert "no Python found (tried: /nowhere/python); 3.11 or newer is needed" in done.stderr


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

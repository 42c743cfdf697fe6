"""What is packed, and that what names a version or a place in the code names the right one."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import setuptools
import yaml

import simile_plugin
from simile_plugin import cli
from simile_plugin.cli import user_dir
from simile_plugin.files import InputError

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "simile_plugin"


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py says."""
    said: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", said.update)
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    return said


def test_every_room_is_packed_and_the_user_dir(declared: dict[str, Any]) -> None:
    rooms = {path.parent for path in PACKAGE.rglob("__init__.py")}
    names = {".".join(path.relative_to(ROOT).parts) for path in rooms}
    user_dir_name = "simile_plugin.user_dir_parent.simile_user_dir"
    assert set(declared["packages"]) == names | {user_dir_name}
    assert declared["package_dir"] == {user_dir_name: "user_dir"}
    assert [path.name for path in (ROOT / "user_dir").glob("*.py")] == ["__init__.py"]


def test_files_beside_the_modules_are_packed(declared: dict[str, Any]) -> None:
    packed = {
        path
        for package, patterns in declared["package_data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    built = {".py", ".c", ".so", ".pyc"}
    found = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in built}
    assert found == packed, "setup.py: package_data"


def test_the_source_distribution_has_the_files_of_the_repository() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text("utf-8")
    named = set(re.findall(r"\S+", "\n".join(re.findall(r"(?m)^(?:include|graft) (.*)", manifest))))
    # setuptools adds these by itself
    added = {"MANIFEST.in", "README.md", "pyproject.toml", "setup.py", "simile_plugin", "user_dir"}
    ours = {"docs", "recipes", "tests", "user_dir", "simile_plugin", ".ci"}
    files = {path.name for path in ROOT.glob("*.*") if path.is_file()}
    files -= {path for path in files if path.startswith((".git", ".coverage"))}
    assert {*ours, *files, "Dockerfile", "LICENSE"} <= named | added
    for name in named:
        assert (ROOT / name).exists(), f"MANIFEST.in: {name} is not there"


def test_the_user_dir_of_a_clone_and_of_a_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user_dir.user_dir(PACKAGE) == ROOT / "user_dir"
    installed = tmp_path / "simile_plugin" / "user_dir_parent" / "simile_user_dir"
    with pytest.raises(InputError, match="no user dir in .* or beside it; expected .* again"):
        user_dir.user_dir(tmp_path / "simile_plugin")
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    assert user_dir.user_dir(tmp_path / "simile_plugin") == installed
    assert cli.main(["user-dir"]) == 0
    assert capsys.readouterr().out == f"{ROOT / 'user_dir'}\n"


@pytest.mark.slow
def test_a_wheel_gives_the_criterion(tmp_path: Path) -> None:
    """Built without network or isolation; run from another folder, without the clone."""
    source, site = tmp_path / "source", tmp_path / "site"
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "work", "tests", "*.so")
    shutil.copytree(ROOT, source, ignore=ignored)
    command = "pip wheel -q --no-deps --no-index --no-build-isolation --no-cache-dir".split()
    subprocess.run([sys.executable, "-m", *command, "-w", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("simile_plugin-*.whl")
    zipfile.ZipFile(wheel).extractall(site)

    def run(*arguments: object) -> str:
        environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
        command = [sys.executable, "-W", "ignore", "-m", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    folder = Path(run("simile_plugin", "user-dir").strip())
    assert folder == site / "simile_plugin/user_dir_parent/simile_user_dir"
    assert list(folder.parent.iterdir()) == [folder], "all of it comes before other modules"
    flags = ["--user-dir", folder, "--criterion", "simile_risk", "--help"]
    assert "--simile-encoder" in run("fairseq_cli.train", *flags)


def test_citation() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == simile_plugin.__version__
    paper = citation["preferred-citation"]
    assert paper["title"].startswith("Beyond BLEU") and paper["year"] == 2019
    assert paper["authors"][0]["family-names"] == "Wieting"
    assert paper["url"] in (ROOT / "README.md").read_text("utf-8")
    assert f"\n## {simile_plugin.__version__}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_command_names_the_extra_of_a_missing_package(declared: dict[str, Any]) -> None:
    for extra, modules in cli.EXTRAS.items():
        packages = {re.split("[>=<]", name)[0] for name in declared["extras_require"][extra]}
        for module in modules - {"fairseq_cli", "hydra", "omegaconf", "tokenizers"}:
            named = {"sklearn": "scikit-learn", "fairseq": "fairseq-fixed"}.get(module, module)
            assert named.replace("_", "-") in packages


def test_a_scorer_meets_no_extra(tmp_path: Path, encoder_folder: Path) -> None:
    """Without what the extras bring: the map, scores; one line where an extra is needed."""
    code = f"""if True:
        import sys
        for name in {sorted(set.union(*cli.EXTRAS.values()) - {"jinja2"})!r}:
            sys.modules[name] = None
        from simile_plugin.cli import main
        try:
            main(["--help"])
        except SystemExit:
            pass
        encoder = ["--encoder", {str(encoder_folder)!r}]
        assert main(["score", "-r", "ref", "-i", "hyp", *encoder]) == 0
        tuned = ["--train", "ref", "hyp", "--output", "o", *encoder]
        assert main(["finetune-hf", "model", *tuned]) == 2
    """
    for name in ("ref", "hyp"):
        (tmp_path / name).write_text("the museum opens its garden\n")
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "simile finetune-hf: error: needs transformers: pip install 'simile-plugin[hf]'"
    )


@pytest.mark.parametrize("found", ["4.57.1", "5.7.0", "6.0.0.dev0"])
def test_other_versions_of_transformers_are_refused(
    found: str, declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: found)
    with pytest.raises(InputError, match=re.escape(f"got {found}, expected 5.8 or")) as refused:
        runpy.run_path(str(PACKAGE / "hugging_face" / "__init__.py"))
    [asked] = re.findall(r"'(transformers\S+)'", str(refused.value))
    assert all(asked in declared["extras_require"][extra] for extra in ("hf", "test"))

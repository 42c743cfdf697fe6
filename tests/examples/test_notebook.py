"""The notebook of the tutorial runs from its first cell to its last, on tiny models."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.examples.blocks import ROOT
from tests.examples.shell import Shell
from tests.examples.test_commands import small
from tests.test_pages import LINK, anchors

NOTEBOOK = ROOT / "docs/tutorial/opus-mt.ipynb"
TUTORIAL = NOTEBOOK.with_suffix(".md")


def cells(kind: str) -> list[str]:
    """Return the text of the cells of a kind; a line that is continued is a line."""
    found = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]
    return [re.sub(r"\\\n\s*", "", text) for text in texts]


def run_cell(text: str, names: dict[str, Any]) -> None:
    """Run a cell: what follows `!` by a shell, with {names} filled in; what follows %pip never."""
    python = re.sub(r"(?m)^%pip .*$", "pass", text)
    python = re.sub(r"(?m)^!(.*)$", lambda line: f"run(f{line[1]!r})", python)
    exec(python, names)


def test_the_notebook_runs(
    world: Path,
    shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "world"
    shutil.copytree(world, folder, symlinks=True)
    monkeypatch.chdir(folder)
    commands: list[str] = []

    def run(command: str) -> None:
        commands.append(command)
        done = shell.run(small(command, "finetune-hf" in command), folder)
        assert done.returncode == 0, done.stdout[-3000:]

    names: dict[str, Any] = {"run": run}
    for cell in cells("code"):
        run_cell(cell, names)
    assert [command.split()[1] for command in commands] == ["finetune-hf", "score", "report"]
    printed = capsys.readouterr().out
    assert "test: 26 pairs, such as " in printed
    assert len((folder / "after.en").read_text().splitlines()) == 26
    assert (folder / "before.en").read_text() != (folder / "after.en").read_text()
    assert len(re.findall(r"(?m)^before     ", printed)) == min(5, len(names["changed"])) > 0
    assert (folder / "report.html").stat().st_size > 10_000


def test_the_commands_are_the_tutorials() -> None:
    page = " ".join(TUTORIAL.read_text("utf-8").replace("\\\n", " ").split())
    commands = re.findall(r"(?m)^!(.*)$", "\n".join(cells("code")))
    assert len(commands) == 3
    for command in commands:
        assert command.replace("{MODEL}", "Helsinki-NLP/opus-mt-de-en") in page


def test_nothing_of_a_run_is_stored_and_links_lead_somewhere() -> None:
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None
    for _, target in LINK.findall("\n".join(cells("markdown"))):
        path, _, anchor = target.partition("#")
        file = NOTEBOOK.parent / path
        assert file.exists() and (not anchor or anchor in anchors(file)), target

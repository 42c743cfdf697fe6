"""SCPN: brackets, requests and counts by hand; run.sh in miniature, and not again."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from simile_plugin.files import InputError
from tests.installed import this_environment
from tests.papers.scripts import PAPERS, script

SCPN = "iyyer-2018-scpn"
scpn, toy_counts = script(SCPN, "scpn"), script(SCPN, "toy_counts")
brackets, tree = script(SCPN, "brackets"), script(SCPN, "toy_trees").tree
Tree, read_tree = brackets.Tree, brackets.read_tree


def test_a_tree_without_its_words_and_its_template_by_hand() -> None:
    parsed = read_tree("(ROOT (S (NP (PRP He)) (VP (VBD slept)) (. .)))")
    assert parsed == Tree("S", (Tree("NP", (Tree("PRP"),)), Tree("VP", (Tree("VBD"),)), Tree(".")))
    assert str(parsed) == "(S (NP (PRP)) (VP (VBD)) (.))"
    assert parsed.template == "(S (NP) (VP))"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("(S (NP he)", "column 11: found the end, expected the ) of (S"),
        ("(ROOT (A a) (B b))", "the root holds 2 trees; expected one"),
        ("(S" * 5000, "column 401: found 201 open brackets, expected at most 200"),
    ],
)
def test_malformed_brackets_are_one_line(line: str, error: str) -> None:
    with pytest.raises(InputError) as raised:
        read_tree(line)
    assert str(raised.value) == error


def test_a_passive_by_hand() -> None:
    subject = "(NP-SBJ-1 (DT the) (JJ old) (NN dog))"
    passive = "(VP (VBD was) (VP (VBN seen) (PP (IN by) (NP-LGS (DT the) (NNS cats)))))"
    front = "(PP-TMP (IN on) (NP (NNP monday)))"
    expected = f"(S {front} (, ,) {subject} {passive} (. .))"
    assert tree("On Monday, the old dog was seen by the cats.") == expected
    assert tree("The old dog was see by the cats.") is None


def pair(one: str, other: str) -> tuple[Any, Any]:
    return (f"{one}{other}", Tree(one, (Tree("X"),))), (f"{other}{one}", Tree(other, (Tree("X"),)))


def test_requests_by_hand() -> None:
    train = [pair("A", "B"), pair("A", "C"), pair("C", "A")]  # A three times, C twice, B once
    asked = list(scpn.requests([pair("A", "B")], train, count=1))
    assert [(r.kind, r.source, r.own[1], r.wanted[1], r.target) for r in asked] == [
        ("gold", "AB", "A", "B", "(B (X))"),
        ("frequent", "AB", "A", "C", "-"),  # not A, which the sentence has
    ]


def test_counts_by_hand() -> None:
    active, front = "(S (NP-SBJ) (VP) (PP-TMP))", "(S (PP-TMP) (,) (NP-SBJ) (VP))"
    source = "The dog saw the cat at night."

    def counts(text: str) -> tuple[bool, ...]:
        return toy_counts.Output(source, text, "", active, front, "").counts()

    # has the wanted template, keeps the meaning, both, has the source's template
    assert counts("After dark, the hound spotted the cat.") == (True, True, True, False)
    assert counts("At night, the dog saw the cats.") == (True, False, False, False)
    assert counts("The dog noticed the cat at night.") == (False, True, False, True)
    assert counts("The dog the cat.") == (False, False, False, False)


TINY = {
    **{"SIZE": "300", "WORDS": "2", "TEST": "10", "VALID": "10", "VOCABULARY": "100"},
    **{"UPDATES": "10", "MAX_TOKENS": "300", "BEAM": "2", "TEMPLATES": "2", "MIN_SIM": "-1"},
    **{"SIM_STEPS": "10", "JOBS": "1"},
}


def test_from_an_empty_folder_to_the_table(tmp_path: Path) -> None:
    work = tmp_path / "work"
    variables = {**this_environment(tmp_path), "WORK": str(work), **TINY}

    def run(**settings: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(PAPERS / SCPN / "run.sh")]
        return subprocess.run(command, env=variables | settings, capture_output=True, text=True)

    done = run()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rows = re.findall(r"^\| (.*) \| (\d+) \| .* %", (work / "table.md").read_text(), re.M)
    counted = {name: int(outputs) for name, outputs in rows}
    systems = ("its paraphrase's template", "its paraphrase's whole parse", "no control")
    assert [counted[name] for name in systems] == [10] * 3
    parts = ("... that the meaning can have", "... that it cannot have")
    assert counted["frequent templates"] == 20 == sum(counted.get(part, 0) for part in parts)
    again = run(TREES="")
    assert again.returncode == 0
    steps = ("toy", "data", "encoder", "parse", "paraphrase", "plain", "parses", "followed")
    assert all(f"{step}: done before, skipped" in again.stdout for step in steps)
    alone = run(TREES=str(work / "toy/trees.tsv"))
    assert alone.returncode == 1 and alone.stderr.count("\n") == 1
    assert "run.sh: error: TREES: expected PAIRS with it" in alone.stderr

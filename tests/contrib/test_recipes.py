"""The scripts of recipes/papers: what they plant."""

import random
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from simile_plugin.contrib.finding import read_squad

PAPERS = Path(__file__).parents[2] / "recipes" / "papers"


def script(paper: str, name: str) -> ModuleType:
    """Import a script as `python NAME.py` does: the folders' names are none of Python."""
    sys.path.append(str(PAPERS / paper))
    return import_module(name)


plant = script("kanerva-2021-paraphrase-span-detection", "plant")
plant_bitext = script("artetxe-2019-margin-based-mining", "plant_bitext")


def test_planted_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(arguments: list[object]) -> int:
        monkeypatch.setattr(sys, "argv", ["plant_bitext.py", *map(str, arguments)])
        return int(plant_bitext.main())

    (tmp_path / "s").write_text("".join(f"Satz {i}\n" for i in range(40)) + "Satz 3\n\n")
    (tmp_path / "t").write_text("".join(f"line {i}\n" for i in range(40)) + "line 99\nx\n")
    out = tmp_path / "out"
    flags = ["--source", tmp_path / "s", "--target", tmp_path / "t", "--output", out]
    counts = ["--pairs", 10, "--distractors", 15]
    assert run(flags + counts) == 0
    texts = {}
    for side in ("source", "target"):
        rows = [line.split("\t") for line in (tmp_path / f"out.{side}").read_text().splitlines()]
        texts[side] = dict(rows)
        assert len(rows) == len(texts[side]) == len(set(texts[side].values())) == 25
    gold = [line.split("\t") for line in (tmp_path / "out.gold").read_text().splitlines()]
    assert len(gold) == 10

    def number(sentence: str) -> str:
        return sentence.split()[1]

    for one, other in gold:
        assert number(texts["source"][one]) == number(texts["target"][other])
    shared = {number(s) for s in texts["source"].values()} & {
        number(s) for s in texts["target"].values()
    }
    assert len(shared) == 10  # no distractor's translation is there
    before = out.with_suffix(".gold").read_text()
    run(flags + counts)
    assert out.with_suffix(".gold").read_text() == before


VERSES = ["id\tBBE\tWEB"]
VERSES += [f"Book{b} 1:{v}\tsaid {b} {v}\ttold {b} {v}" for b in (1, 2) for v in (1, 2, 3)]


def test_planted_verses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "verses").write_text("\n".join(VERSES))
    words = ["chapters", str(tmp_path / "verses"), "--present", "--output", str(tmp_path / "q")]
    monkeypatch.setattr(sys, "argv", ["plant.py", *words])
    assert plant.main() == 0
    for name, book in (("dev", 1), ("test", 2)):
        asked = read_squad(tmp_path / f"q.{name}.json", "--squad")
        assert [(q.query, q.answers) for q in asked] == [
            (f"said {book} {v}", (f"told {book} {v}",)) for v in (1, 2, 3)
        ]


def test_what_the_document_says_once_more_is_not_asked_about() -> None:
    verses = [("one", "he said"), ("two", "she paid"), ("three", "he said so"), ("four", "amen")]
    for present in (True, False):
        for seed in range(20):
            rng = random.Random(seed)
            asked = [q for _, q in plant.chapter_questions({"Book 1": verses}, present, rng)]
            assert [q.query for q in asked] == ["two", "three", "four"]
            for question in asked:
                answer = dict(verses)[question.query]
                assert question.document.count(answer) == len(question.answers or ())
    # Two of 21 lines have the same rewrite: in setup 2 it stays where it is taken out.
    rows = [[f"text {i}", "amen" if i < 2 else f"rewrite {i} of it"] for i in range(21)]
    for present in (True, False):
        numbers = [n for n, _ in plant.rewrite_questions(rows, present, random.Random(1))]
        assert numbers[-19:] == [*range(2, 21)]

"""The quickstart's data: every sentence has one meaning, and the meaning can be read back."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.quickstart import toy
from recipes.quickstart.toy import NONE, Entity, Meaning

FARMER, DOG = Entity("farmer", "one"), Entity("dog", "many", "big")
BASE = Meaning("find", "past", "yes", FARMER, DOG, "at night", "in the garden")

entities = st.builds(
    Entity,
    st.sampled_from(sorted(toy.NOUN)),
    st.sampled_from(toy.NUMBERS),
    st.sampled_from([NONE, *toy.ATTRIBUTE]),
)
meanings = st.builds(
    Meaning,
    st.sampled_from(sorted(toy.VERB)),
    st.sampled_from(toy.TENSES),
    st.sampled_from(toy.POLARITIES),
    entities,
    entities,
    st.sampled_from([NONE, *toy.TIME]),
    st.sampled_from([NONE, *toy.PLACE]),
)


def generate(folder: Path, *flags: str) -> dict[str, bytes]:
    sizes = ["--train", "60", "--valid", "20", "--test", "30", "--pairs", "40"]
    assert toy.main(["generate", "--out", str(folder), *sizes, *flags]) == 0
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# ---------------------------------------------------------------- determinism and splits


def test_same_seed_gives_the_same_bytes_on_every_python(tmp_path: Path) -> None:
    files = generate(tmp_path / "a", "--seed", "7")
    assert files == generate(tmp_path / "b", "--seed", "7")
    assert files != generate(tmp_path / "c", "--seed", "8")
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()
    assert digest[:16] == "b68b86ce27ca607f"  # changes only when lexicon or grammar do
    sides = [f"{split}.{side}" for split in ("test", "train", "valid") for side in ("en", "xx")]
    assert sorted(files) == ["paraphrases.tsv", *sides]


def test_no_meaning_of_valid_or_test_is_trained_on(tmp_path: Path) -> None:
    # A world so small that meanings would collide if they could.
    sizes = {"train": 2000, "valid": 100, "test": 100, "pairs": 2000}
    corpus = toy.draw_corpus(3, sizes, words=2)
    drawn = {split: [meaning for meaning, _ in rows] for split, rows in corpus.items()}
    for split, size in sizes.items():
        assert len(drawn[split]) == len(set(drawn[split])) == size
    assert not set(drawn["test"]) & set(drawn["valid"])
    held_out = set(drawn["test"]) | set(drawn["valid"])
    assert not held_out & (set(drawn["train"]) | set(drawn["pairs"]))
    assert len(set(drawn["train"]) & set(drawn["pairs"])) > 100
    assert {meaning.verb for meaning in drawn["train"]} == {"see", "find"}
    for meaning, (first, second) in corpus["pairs"]:
        assert first != second
        assert toy.parse(first) == toy.parse(second) == meaning


# ---------------------------------------------------------------- the grammar and its inverse


def test_wordings_say_what_the_tables_say() -> None:
    meaning = Meaning("buy", "future", "no", FARMER, Entity("knife", "many"), place="on the hill")
    wordings = {toy.english(meaning, Random(seed)) for seed in range(2000)}
    # (2 future forms x 2 verbs) x (knives, blades) x (active, passive) x (place last, place first)
    assert len(wordings) == 4 * 2 * 2 * 2
    assert "The farmer will not buy the knives on the hill." in wordings
    assert "The farmer is not going to purchase the blades on the hill." in wordings
    assert "On the hill, the knives are not going to be bought by the farmer." in wordings


@settings(max_examples=150)
@given(meanings, st.integers(0, 10**6))
def test_drawn_wordings_and_sources_read_back(meaning: Meaning, seed: int) -> None:
    wording = toy.english(meaning, Random(seed))
    assert toy.parse(wording) == meaning
    assert toy.parse(wording.lower().replace(",", "")) == meaning
    assert toy.parse(wording + " " + wording) is None
    patient_kind = toy.NOUN[meaning.patient.noun].kind
    if patient_kind[0] in toy.VERB[meaning.verb].patients:
        assert toy.parse_source(toy.source(meaning)) == meaning
    assert Meaning.from_slots(meaning.slots()) == meaning


def test_homonyms_are_told_apart_by_class() -> None:
    student = replace(BASE, agent=Entity("student", "one"))
    cat = replace(BASE, agent=Entity("cat", "one"))
    assert toy.source(student) == "tarvo ku kolumrin dumu na midorko ilgan tokata"
    assert toy.source(cat) == "tarvo ku kolumrin dumu ku midorko ilgan tokata"
    help_them = Meaning("help", "past", "yes", FARMER, Entity("child", "one"))
    repair_it = Meaning("repair", "past", "yes", FARMER, Entity("boat", "one"))
    assert toy.source(help_them) == "na simakn na goraloko lomata"
    assert toy.source(repair_it) == "ve baruln na goraloko lomata"


# ---------------------------------------------------------------- judging outputs


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        ("The farmer found the big dogs in the garden at night.", "right"),
        ("the hounds that are large were found by the farmer at night in the garden", "right"),
        (
            "The farmer will not find the big dogs in the garden at night.",
            "tense: past -> future, polarity: yes -> no",
        ),
        (
            "The big farmer found the dog in the garden at night.",
            "agent attribute: - -> big, patient number: many -> one, patient attribute: big -> -",
        ),
        ("", "unparsable"),
        ("The farmers is finding the big dogs.", "unparsable"),
        ("The farmer found the ⁇ dogs.", "unparsable"),
    ],
)
def test_faults_are_named_by_slot(output: str, verdict: str) -> None:
    assert toy.verdict(BASE, output) == verdict


# ---------------------------------------------------------------- commands


def test_meaning_counts_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three sources: one output right, one with two faults, one no sentence."""
    src, hyp, each = (tmp_path / name for name in ("src", "hyp", "each"))
    src.write_text(f"{toy.source(replace(BASE, place=NONE))}\n" * 3)
    hyp.write_text(
        "The big hounds were found by the farmer after dark.\n"
        "The farmer sold the big dogs on the hill after dark.\n"
        "The farmer found found.\n"
    )
    command = ["meaning", "--source", str(src), "--hyp", str(hyp), "--out", str(each)]
    assert toy.main(command) == 0
    assert each.read_text().splitlines() == [
        "1\tright",
        "0\tverb: find -> sell, place: - -> on the hill",
        "0\tunparsable",
    ]
    assert capsys.readouterr().out == "meaning right: 33.3 % (1 of 3)\n"
    src.write_bytes(b"tarvo\nna\nku\n")
    assert toy.main(command) == 2
    error = capsys.readouterr().err
    assert error.startswith("toy.py: error: ") and error.count("\n") == 1
    assert "src:1: 'tarvo' is not a sentence of the toy" in error

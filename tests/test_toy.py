"""The quickstart's data: every sentence has one meaning, and the meaning can be read back."""

from __future__ import annotations

import hashlib
import json
import re
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
    assert digest[:16] == "0c778b13cfaa0461"  # changes only when lexicon or grammar do
    assert sorted(files) == [
        "paraphrases.tsv", "test.en", "test.meaning.jsonl", "test.xx", "train.en",
        "train.meaning.jsonl", "train.xx", "valid.en", "valid.meaning.jsonl", "valid.xx",
    ]  # fmt: skip


def test_a_longer_training_set_begins_with_the_shorter_one(tmp_path: Path) -> None:
    short = generate(tmp_path / "a")
    long = generate(tmp_path / "b", "--train", "90", "--pairs", "50")
    assert long["test.en"] == short["test.en"] and long["valid.xx"] == short["valid.xx"]
    assert long["train.en"].startswith(short["train.en"])
    assert long["paraphrases.tsv"].startswith(short["paraphrases.tsv"])


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


def test_the_splits_files_belong_together(tmp_path: Path) -> None:
    files = generate(tmp_path)
    for split, size in (("train", 60), ("valid", 20), ("test", 30)):
        sources, targets, records = (
            files[f"{split}.{suffix}"].decode().splitlines()
            for suffix in ("xx", "en", "meaning.jsonl")
        )
        assert len(sources) == len(targets) == len(records) == size
        for source, target, record in zip(sources, targets, records, strict=True):
            meaning = Meaning.from_slots(json.loads(record))
            assert toy.parse_source(source) == toy.parse(target) == meaning


# ---------------------------------------------------------------- the grammar and its inverse


def variations() -> list[Meaning]:
    """Every word of the lexicon, and every verb in each tense, polarity and number."""
    found = [
        replace(BASE, verb=verb, tense=tense, polarity=polarity, agent=Entity("farmer", number))
        for verb in toy.VERB
        for tense in toy.TENSES
        for polarity in toy.POLARITIES
        for number in toy.NUMBERS
    ]
    for noun in toy.NOUN:
        for number in toy.NUMBERS:
            found.append(replace(BASE, agent=Entity(noun, number, "old"), patient=FARMER))
            found.append(replace(BASE, patient=Entity(noun, number, "old"), place=NONE))
    found += [replace(BASE, agent=Entity("fox", "one", name)) for name in toy.ATTRIBUTE]
    found += [replace(BASE, time=name, place=NONE) for name in (NONE, *toy.TIME)]
    found += [replace(BASE, time=NONE, place=name) for name in (NONE, *toy.PLACE)]
    return found


def test_every_wording_of_every_word_reads_back_to_its_meaning() -> None:
    for meaning in variations():
        wordings = list(toy.paraphrases(meaning))
        assert len(wordings) == len(set(wordings)) >= 2
        for wording in wordings:
            assert toy.parse(wording) == meaning, wording


def test_wordings_say_what_the_tables_say() -> None:
    meaning = Meaning("buy", "future", "no", FARMER, Entity("knife", "many"), place="on the hill")
    wordings = set(toy.paraphrases(meaning))
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


def test_no_two_meanings_share_a_wording_or_a_source_form() -> None:
    for table in (toy._english_entities(), toy._english_adverbials()):
        assert all(len(values) == 1 for values in table.values())
    for values in toy._english_verbs().values():
        assert len({value[:-1] for value in values}) == 1  # only the subject's number is open
    for case in ("n", "ko"):
        entities = 2 * len(toy.NOUN) * (1 + len(toy.ATTRIBUTE))
        assert len(toy._source_table(case)) == entities
    readings = sum(len(verb.patients) for verb in toy.VERB.values()) * 3 * 2
    assert len(toy._source_verbs()) == readings


def test_homonyms_are_told_apart_by_class() -> None:
    student = replace(BASE, agent=Entity("student", "one"))
    cat = replace(BASE, agent=Entity("cat", "one"))
    assert toy.source(student) == "tarvo ku kolumrin dumu na midorko ilgan tokata"
    assert toy.source(cat) == "tarvo ku kolumrin dumu ku midorko ilgan tokata"
    help_them = Meaning("help", "past", "yes", FARMER, Entity("child", "one"))
    repair_it = Meaning("repair", "past", "yes", FARMER, Entity("boat", "one"))
    assert toy.source(help_them) == "na simakn na goraloko lomata"
    assert toy.source(repair_it) == "ve baruln na goraloko lomata"


def test_drawn_meanings_suit_the_verb_and_follow_zipf() -> None:
    rng = Random("zipf")
    drawn = [toy.draw_meaning(rng) for _ in range(3000)]
    for meaning in drawn:
        verb = toy.VERB[meaning.verb]
        assert toy.NOUN[meaning.agent.noun].kind[0] in verb.agents
        assert toy.NOUN[meaning.patient.noun].kind[0] in verb.patients
    see, find, last = (
        sum(meaning.verb == verb for meaning in drawn) for verb in ("see", "find", "hit")
    )
    assert see > 1.5 * find > 20 * last / 2 > 0  # ranks 1, 2 and 24


# ---------------------------------------------------------------- judging outputs


@pytest.mark.parametrize(
    ("output", "faults"),
    [
        ("The farmer found the big dogs in the garden at night.", {}),
        ("After dark, the large hounds were discovered by the farmer in the garden.", {}),
        ("the hounds that are large were found by the farmer at night in the garden", {}),
        ("The farmer saw the big dogs in the garden at night.", {"verb": "wrong"}),
        (
            "The farmer will not find the big dogs in the garden at night.",
            {"tense": "wrong", "polarity": "wrong"},
        ),
        (
            "The big farmer found the dog in the garden at night.",
            {
                "agent attribute": "added",
                "patient number": "wrong",
                "patient attribute": "missing",
            },
        ),
        ("The farmer found the big dogs.", {"time": "missing", "place": "missing"}),
    ],
)
def test_faults_are_named_by_slot(output: str, faults: dict[str, str]) -> None:
    judgement = toy.judge(BASE, output)
    assert judgement.faults == faults
    assert judgement.right is (not faults)
    assert not judgement.swapped


@pytest.mark.parametrize(
    "output",
    [
        "",
        "The farmer found.",
        "The farmers is finding the big dogs.",
        "The farmer found the big dogs at night in the garden at noon.",
        "The farmer found by the big dogs.",
        "The big dogs were found the farmer.",
        "The farmer found the big old dogs.",
        "The farmer found the ⁇ dogs.",
    ],
)
def test_what_the_grammar_does_not_have_is_wrong(output: str) -> None:
    judgement = toy.judge(BASE, output)
    assert judgement.parsed is None and not judgement.right


def test_swapped_roles_are_seen() -> None:
    gold = Meaning("follow", "past", "yes", Entity("king", "one"), Entity("nurse", "one"))
    judgement = toy.judge(gold, "The king was followed by the nurse.")
    assert judgement.swapped and judgement.faults == {"agent": "wrong", "patient": "wrong"}
    assert not toy.judge(gold, "The king followed the king.").swapped
    same = replace(gold, patient=Entity("king", "many"))
    assert not toy.judge(same, "The kings followed the king.").swapped


# ---------------------------------------------------------------- commands


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Three sources: one output right, one with two faults, one no sentence."""
    meaning = replace(BASE, place=NONE)
    (tmp_path / "src").write_text(f"{toy.source(meaning)}\n" * 3)
    (tmp_path / "gold").write_text(f"{json.dumps(meaning.slots())}\n" * 3)
    (tmp_path / "hyp").write_text(
        "The big hounds were found by the farmer after dark.\n"
        "The farmer sold the big dogs on the hill after dark.\n"
        "The farmer found found.\n"
    )
    return tmp_path


@pytest.mark.parametrize("gold", ["--source src", "--gold gold"])
def test_meaning_counts_by_hand(
    outputs: Path, capsys: pytest.CaptureFixture[str], gold: str
) -> None:
    flag, name = gold.split()
    command = ["meaning", flag, str(outputs / name), "--hyp", str(outputs / "hyp")]
    assert toy.main([*command, "--json", "--sentences", str(outputs / "each")]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["sentences"] == 3 and counts["right"] == 1
    assert counts["accuracy"] == pytest.approx(100 / 3)
    assert counts["unparsable"] == 1 and counts["swapped"] == 0
    assert counts["slots"]["verb"] == {"wrong": 1, "missing": 0, "added": 0}
    assert counts["slots"]["place"] == {"wrong": 0, "missing": 0, "added": 1}
    assert sum(sum(kinds.values()) for kinds in counts["slots"].values()) == 2
    assert (outputs / "each").read_text().splitlines() == [
        "1\tright",
        "0\tverb: find -> sell, place: - -> on the hill",
        "0\tunparsable",
    ]
    assert toy.main(command) == 0
    text = capsys.readouterr().out
    assert "meaning right: 33.3 % (1 of 3)" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["verb", "1", "0", "0"],
        ["place", "0", "0", "1"],
    ]


def test_references_are_all_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate(tmp_path)
    capsys.readouterr()
    files = ["--source", str(tmp_path / "test.xx"), "--hyp", str(tmp_path / "test.en")]
    assert toy.main(["meaning", *files]) == 0
    assert "100.0 % (30 of 30)" in capsys.readouterr().out


def test_show_prints_source_meaning_and_wordings(capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.main(["show", "--number", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    sources = [line.split(maxsplit=1)[1] for line in lines if line.startswith("source")]
    wordings = [line.split(maxsplit=1)[1] for line in lines if line.startswith("English")]
    assert len(sources) == 2 and len(wordings) == 8
    for index, source in enumerate(sources):
        for wording in wordings[4 * index : 4 * index + 4]:
            assert toy.parse(wording) == toy.parse_source(source)


@pytest.mark.parametrize("command", [[], ["generate"], ["meaning"], ["show"]])
def test_help_teaches(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        toy.main([*command, "--help"])
    assert stop.value.code == 0
    assert "meaning" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "content", "flags", "message"),
    [
        ("hyp", b"One line.\n", "--source src", r"--source .*src has 3 lines and --hyp .* has 1"),
        ("hyp", b"Gr\xfcn.\n" * 3, "--source src", r"--hyp .*hyp: not UTF-8 \(byte 2\)"),
        ("src", b"tarvo\nna\nku\n", "--source src", r"src:1: 'tarvo' is not a sentence"),
        ("gold", b"{}\n" * 3, "--gold gold", r"gold:1: got the slots \[\], expected"),
        ("gold", b"[1]\n" * 3, "--gold gold", r"gold:1: got '\[1\]', expected a JSON object"),
        ("gold", b"{oops\n" * 3, "--gold gold", r"gold:1: Expecting property name"),
        ("hyp", b"", "--source none", r"--source .*none: No such file"),
    ],
)
def test_bad_files_get_one_line(
    outputs: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: bytes,
    flags: str,
    message: str,
) -> None:
    (outputs / file).write_bytes(content)
    flag, name = flags.split()
    command = ["meaning", flag, str(outputs / name), "--hyp", str(outputs / "hyp")]
    assert toy.main(command) == 2
    error = capsys.readouterr().err
    assert error.startswith("toy.py meaning: error: ") and error.count("\n") == 1
    assert re.search(message, error)


def test_unknown_slot_value_is_named(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = BASE.slots() | {"verb": "fly"}
    (outputs / "gold").write_text(f"{json.dumps(record)}\n" * 3)
    command = ["meaning", "--gold", str(outputs / "gold"), "--hyp", str(outputs / "hyp")]
    assert toy.main(command) == 2
    assert "gold:1: slot 'verb' is 'fly', expected one of" in capsys.readouterr().err


def test_sizes_must_be_positive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.main(["generate", "--out", str(tmp_path), "--valid", "0"]) == 2
    assert "--valid: got 0, expected at least 1" in capsys.readouterr().err


def test_a_world_too_small_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 1 verb x 6 forms x (3 kinds x 2 numbers x 2)^2 participants x 2 times x 2 places = 3,456
    command = ["generate", "--out", str(tmp_path), "--words", "1", "--test", "4000"]
    assert toy.main(command) == 2
    assert "--words 1: has hardly more than" in capsys.readouterr().err

"""Filters of pairs: every removal by hand, the counts add up, and slow oracles beside fast code."""

import gzip
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder_training.filtering import (
    FilterOptions,
    SeenKeys,
    filter_pairs,
    trigram_overlap,
)
from simile_plugin.evaluation.sts import similarities

Run = Callable[..., tuple[list[str], dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(text, **options) -> lines that are kept, counts."""

    def run(text: str, **options: Any) -> tuple[list[str], dict[str, Any]]:
        source, out = tmp_path / "in.tsv", tmp_path / "out.tsv"
        source.write_text(text, encoding="utf-8")
        options = {"max_overlap": 1.0, **options}
        counts = filter_pairs(FilterOptions(pairs=[str(source)], output=str(out), **options))
        lines = out.read_text(encoding="utf-8").splitlines()
        assert counts["kept"] == len(lines)
        assert counts["read"] == counts["kept"] + sum(counts["removed"].values())
        return lines, counts

    return run


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [
        # Trigrams abc bcd cde and abc bcd: two of the two of the shorter side.
        ("a b c d e", "a b c d", 2 / 2),
        # abc bcd cde and xbc bcd cdy: one of three.
        ("a b c d e", "x b c d y", 1 / 3),
        # As often as in both: aaa twice in the first, three times in the second; two of two.
        ("a a a a", "a a a a a", 2 / 2),
        # aaa once, and once among the two of the other: one of one.
        ("a a a", "b a a a", 1 / 1),
        # The shorter side has two words: one bigram.
        ("a b", "c a b d", 1),
        # One word.
        ("a", "b a c", 1),
    ],
)
def test_trigram_overlap(left: str, right: str, overlap: float) -> None:
    assert trigram_overlap(left.split(), right.split()) == pytest.approx(overlap)
    assert trigram_overlap(right.split(), left.split()) == pytest.approx(overlap)


WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=9)


@given(left=WORDS, right=WORDS)
def test_trigram_overlap_slowly(left: list[str], right: list[str]) -> None:
    """Oracle: take each n-gram of the shorter side out of the other's list, once."""
    size = min(3, len(left), len(right))
    shorter, longer = sorted((left, right), key=len)
    mine = [shorter[i : i + size] for i in range(len(shorter) - size + 1)]
    others = [longer[i : i + size] for i in range(len(longer) - size + 1)]
    shared = 0
    for gram in mine:
        if gram in others:
            others.remove(gram)
            shared += 1
    assert trigram_overlap(left, right) == pytest.approx(shared / len(mine))
    assert trigram_overlap(left, left) == 1


def test_letters_count_as_words_where_there_are_no_spaces(run: Run) -> None:
    # Of the first pair's six trigrams of a side five are in the other, of the second none.
    near, far = "他用硬币付了钱。\t她用硬币付了钱。", "他用硬币付了钱。\t票是现金买的。"
    text = f"{near}\n{far}\n"
    assert run(text, max_overlap=0.83)[0] == [far]
    assert run(text, max_overlap=0.84)[0] == [near, far]
    assert run(text, min_tokens=8)[0] == [near]
    assert not run(text, max_tokens=7)[0]


@given(batches=st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12))
def test_seen_keys(batches: list[list[int]]) -> None:
    """Oracle: a set."""
    keys, known = SeenKeys(), set[int]()
    for batch in batches:
        expected = []
        for key in batch:
            expected.append(key not in known)
            known.add(key)
        assert keys.add(np.array(batch, dtype=np.uint64)).tolist() == expected
    assert sorted(np.concatenate([[], *keys.runs]).tolist()) == sorted(known)


def test_length(run: Run) -> None:
    # Words with punctuation: "one two." has 3.
    text = "one two.\tthree four five\nsix\tseven eight nine\na b c d e\tf g h\n"
    lines, report = run(text, min_tokens=3, max_tokens=4)
    assert lines == ["one two.\tthree four five"]
    assert report["removed"] == {"length": 2, "duplicate": 0}


def test_overlap(run: Run) -> None:
    text = "a b c d e\tx b c d y\na b c d\te f g h\nThe end.\tthe end .\n"
    assert run(text, max_overlap=0.2)[0] == ["a b c d\te f g h"]
    lines, report = run(text, max_overlap=0.4)
    assert lines == ["a b c d e\tx b c d y", "a b c d\te f g h"]
    assert report["removed"] == {"overlap": 1, "duplicate": 0}
    assert run(text, max_overlap=1 / 3)[0] == lines  # the bound is inclusive


def test_score_column(run: Run) -> None:
    text = "a\tb\t0.39\nc\td\t0.4\ne\tf\t1e0\ni\tj\nk\tl\tnan\nm\tn\thigh\n"
    lines, report = run(text, score_column=3, min_score=0.4)
    assert lines == ["c\td\t0.4", "e\tf\t1e0"]
    assert report["removed"] == {"score": 1, "duplicate": 0}
    assert report["skipped_lines"] == {"no score in column 3": 3}


def test_score_of_an_encoder(run: Run, encoder: Encoder, encoder_folder: Path) -> None:
    words = "heron pond ferry baker map train snow garden coins oven".split()
    rng = random.Random(1)
    pairs = [(" ".join(rng.sample(words, 4)), " ".join(rng.sample(words, 4))) for _ in range(50)]
    sims = similarities(encoder, [a for a, _ in pairs], [b for _, b in pairs])
    text = "".join(f"{a}\t{b}\n" for a, b in pairs)
    lines, report = run(text, encoder=str(encoder_folder), min_score=0.4)
    expected = [f"{a}\t{b}" for (a, b), sim in zip(pairs, sims, strict=True) if sim >= 0.4]
    assert lines == expected
    assert 0 < len(expected) < 50
    assert report["removed"]["score"] == 50 - len(expected)


def test_duplicates(run: Run) -> None:
    text = "One fox\ta dog\na dog\tone  FOX\tmore\none fox.\ta dog\none fox\ta cat\n"
    lines, report = run(text)
    assert lines == ["One fox\ta dog", "one fox.\ta dog", "one fox\ta cat"]
    assert report["removed"] == {"duplicate": 1}
    lines, report = run(text, near_duplicates=True)
    assert lines == ["One fox\ta dog", "one fox\ta cat"]
    assert report["removed"] == {"duplicate": 1, "near-duplicate": 1}
    assert run(text, keep_duplicates=True)[1]["kept"] == 4
    # A byte order mark in the file, a zero-width space: nobody sees the difference.
    assert run("a fox\ta dog\n\ufeffa fox\ta dog\na\u200b fox\ta dog\n")[1]["kept"] == 1
    # Numbers alone are their own key, or all of them would be near duplicates.
    assert run("1\t2\n3\t4\n", near_duplicates=True)[1]["kept"] == 2


def test_a_cell_that_is_too_long_is_a_bad_line(run: Run) -> None:
    lines = '"a cat"\t"it sat"\n' * 9
    kept, report = run(lines + '"' + 140_000 * "x" + '"\t"y"\n')
    assert sum(report["skipped_lines"].values()) == 1 and kept


def test_sentences_of_evaluation_files_are_excluded(run: Run, tmp_path: Path) -> None:
    sts = tmp_path / "STS.input.own.txt"
    sts.write_text("A heron, waiting.\tThe ferry's late!\n")
    judged = tmp_path / "judged.tsv.gz"
    judged.write_bytes(gzip.compress(b"id\thyp\n7\tCoins, coins\t0.5\n"))
    text = (
        "a heron waiting\tsomething else\n"  # no punctuation, no case
        "something\tthe ferry 's late !\n"  # tokenised
        "anything\tthe ferry &apos;s late !\n"  # by Moses
        "the ferry is late\tsomething\n"
        "7\t0.5\n"  # a cell without a letter is no sentence
        "coins coins\tmoney\n"
    )
    lines, report = run(text, exclude=[str(sts), str(judged)])
    assert lines == ["the ferry is late\tsomething", "7\t0.5"]
    assert report["removed"] == {"excluded": 4, "duplicate": 0}
    sts.write_text("A heron, waiting.\tThe ferry &apos;s late !\n")
    assert run("x\tThe ferry's late!\n", exclude=[str(sts)])[1]["removed"]["excluded"] == 1
    sts.write_text("A heron.\t&quot; 7 &quot;\n&quot;\tB.\n")  # an escape is no letter
    assert run("7\tseven\n...\ta pause\n", exclude=[str(sts)])[1]["removed"]["excluded"] == 0


def test_language(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = types.ModuleType("py3langid")
    library.rank = lambda text: [("de", 0.7), ("en", 0.3)]
    library.classify = lambda text: ("de" if "ä" in text else "en", 1.0)
    monkeypatch.setitem(sys.modules, "py3langid", library)
    lines, report = run("the bear\ta bear\ndas Fass\tFässer\n", language="en")
    assert lines == ["the bear\ta bear"]
    assert report["removed"] == {"language": 1, "duplicate": 0}
    with pytest.raises(ValueError, match="--language: got 'english', expected one of de en"):
        run("a\tb\n", language="english")
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(ValueError, match="pip install py3langid"):
        run("a\tb\n", language="en")


def test_output_does_not_depend_on_the_workers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    text = "".join(
        "\t".join(" ".join(rng.choices("abc", k=rng.randint(0, 5))) for _ in range(2)) + "\n"
        for _ in range(400)
    )
    flags: dict[str, Any] = {"max_overlap": 0.5, "near_duplicates": True}
    expected = run(text, **flags)
    monkeypatch.setattr("simile_plugin.files.packed.CHUNK_BYTES", 500)
    assert run(text, workers=2, **flags) == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"min_score": 0.1}, "--min-score: is for a score, and a score for it; give it with"),
        ({"score_column": 3}, "--min-score: is for a score, and a score for it; give it with"),
        ({"encoder": "e", "score_column": 3, "min_score": 0}, "give one of them, not both"),
        ({"max_overlap": 1.5}, "--max-overlap: got 1.5, expected a number from 0 to 1"),
        ({"min_tokens": 3, "max_tokens": 2}, "--min-tokens 3 is above --max-tokens 2"),
    ],
)
def test_flags_that_make_no_sense(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FilterOptions(pairs=["a"], **flags)

"""Whole files: copies, headers, empty and cut lines, text of another language or test set."""

import random

import pytest

from simile_plugin.files.doubtful_files import longest_repeat, repeats_after
from simile_plugin.reward import warnings_of_text

PLACES = ["bridge", "harbour", "market", "station", "garden", "library", "castle", "mill"]
SOURCES = [
    f"die {who} wartet lange vor dem Ort {place.upper()[::-1]} und liest."
    for who in ("Frau", "Tochter", "Lehrerin", "Nachbarin")
    for place in PLACES
]
REFS = [
    f"The {who} waits for long in front of the {place} and reads."
    for who in ("woman", "daughter", "teacher", "neighbour")
    for place in PLACES
]
HYPS = [ref.replace("for long", "a long time").replace("reads", "is reading") for ref in REFS]


def text_warning(*given):
    return "".join(warnings_of_text(*given)[:1])


def said(hyps, refs=REFS, srcs=()):
    return text_warning("hyp", hyps, refs, srcs)


def test_a_grave_mistake_is_not_hidden_by_a_small_one():
    straight = [f"{place}'s {place}er {place}ish {place}ly {place}less" for place in PLACES]
    curly = [line.replace("'", "\u2019") for line in straight]
    told = warnings_of_text("hyp", curly[1:] + curly[:1], straight)
    assert len(told) == 2 and "curly quotes" in told[1]
    assert told[0].startswith("line 1 of hyp") and "like line 2 of the references" in told[0]


def test_every_line_twice():
    assert text_warning("ref", [ref for ref in REFS for _ in "ab"]).startswith("ref has every line")


def test_letters_that_look_alike():
    told = said([hyp.replace("a", "\u0430") for hyp in HYPS])
    assert told.startswith("hyp has words of Latin and Cyrillic") or "no word" in told


def test_final_marks_that_only_one_side_has():
    told = said([hyp.rstrip(".") for hyp in HYPS])
    assert told.startswith("of hyp and the references only one has lines that end in marks")


def test_good_outputs_have_no_warning():
    assert said(HYPS, REFS, SOURCES) == ""
    assert said(REFS) == text_warning("ref", REFS, REFS) == ""
    assert said(REFS[:1] + HYPS[1:], REFS) == ""


def test_a_file_that_was_joined_twice():
    text = text_warning("ref", REFS * 2)
    assert text.startswith("ref has its first 32 lines again from line 33 on")
    assert repeats_after(list("abab")) == 2 and repeats_after(list("abcab")) == 0
    assert repeats_after(["a"] * 6) == repeats_after([]) == repeats_after(["a"]) == 0
    assert repeats_after(list("abcabcabc")) == 3


def test_a_part_of_a_file_that_comes_again():
    assert longest_repeat("abcdef") == longest_repeat("") == (0, 0, 0)
    assert longest_repeat("abcXabcY") == (4, 7, 0)
    assert longest_repeat("aXbcYbcaXb") == (7, 10, 0)  # b was last seen elsewhere
    assert longest_repeat("-----abcXabc") == (9, 12, 5)  # three kinds of lines, not one
    text = text_warning("ref", [*REFS, *REFS[4:14]])
    assert text.startswith("lines 33 to 42 of ref are lines 5 to 14 again: were they written or")
    assert text_warning("ref", [*REFS, *REFS[4:13]]) == ""  # nine are too few
    others = [
        f"{ref[:-1]} {n} times." for n in range(9) for ref in REFS
    ]  # 288, so that 15 are enough
    assert text_warning("ref", [*others[:274], *others[:14]]) == ""
    assert text_warning("ref", [*others[:273], *others[:15]]).startswith("lines 274 to 288 of ref")


@pytest.mark.parametrize("header", ["target", "src\ttarget", "source,translation", "en", '"ref"'])
def test_a_line_of_column_names(header):
    text = text_warning("ref", [header, *REFS])
    assert "begins with the names of columns" in text and "remove line 1" in text


@pytest.mark.parametrize("line", ["Text of the day", "No.", "Ja, gut", "Translation of a poem"])
def test_a_title_is_no_header(line):
    assert text_warning("ref", [line, *REFS]) == ""


def test_short_lines_may_begin_with_such_a_word():
    assert text_warning("words", ["source", "target", "house", "two houses"]) == ""


def test_carriage_returns_alone():
    text = text_warning("ref", ["\r".join(REFS)])
    assert text.startswith("ref has carriage returns (CR) within line 1")


def test_one_line_over_and_over():
    text = said(["I do not know what it is."] * 8 + HYPS[8:])
    assert text.startswith("8 of 32 lines of hyp are 'I do not know what it is.' (line 1 first)")
    refs = [REFS[0]] * 3 + REFS[3:]
    assert said(refs, refs) == ""


def test_empty_lines():
    assert said(["", *HYPS[1:]]) == ""
    hyps = ["" if n % 8 == 2 else hyp for n, hyp in enumerate(HYPS)]
    assert said(hyps).startswith(
        "4 of 32 lines of hyp are empty where the references are not (line 3"
    )
    assert said(hyps, ["" if not hyp else ref for hyp, ref in zip(hyps, REFS, strict=True)]) == ""


def test_lines_that_are_cut():
    cut = [" ".join(hyp.split()[:11]) for hyp in HYPS]
    text = said(cut)
    assert text.startswith(
        "32 of 32 lines of hyp are shorter than their references and end without"
    )
    assert "max_new_tokens" in text
    without = [ref.rstrip(".") for ref in REFS]
    assert said([" ".join(hyp.split()[:11]) for hyp in HYPS], without) == ""  # as the references do


def test_sources_as_outputs():
    text = said(SOURCES)
    assert text.startswith(
        "32 of 32 lines of hyp have no word of their references (line 1: 'die Frau"
    )
    half = SOURCES[:8] + HYPS[8:]
    assert said(half).startswith("8 of 32 lines of hyp have no word")
    assert text_warning("hyp", half, (), SOURCES).startswith(
        "8 of 32 lines of hyp are those of the sources"
    )
    assert text_warning("hyp", HYPS, (), SOURCES) == ""


def test_another_test_set():
    others = [
        f"Six {one} ships sail by night to {two} port" for one in PLACES for two in PLACES[:4]
    ]
    assert "of another test set" in said(others)


def test_text_without_spaces_has_no_words_to_compare():
    # five clauses a line: each is taken for a word
    parts = [f"{a}{b}" for a in "日月火水木金土" for b in "上下左右中"]
    lines = ["，".join(random.Random(n).sample(parts, 5)) + "。" for n in range(20)]
    others = ["，".join(random.Random(99 + n).sample(parts, 5)) + "。" for n in range(20)]
    assert "no word" not in said(lines, others)

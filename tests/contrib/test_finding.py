"""Finding a paraphrase in a document: spans against a slow loop, measures by hand, the command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.cli import main
from simile_plugin.contrib.finding import (
    Question,
    Span,
    by_query_length,
    evaluate_finding,
    find_spans,
    make_search,
    read_squad,
    tune_missing,
)
from simile_plugin.contrib.finding.measures import plain_words, token_f1
from simile_plugin.contrib.finding.questions import NOWHERE
from simile_plugin.contrib.finding.search import sentences, spans, words
from simile_plugin.encoder import Encoder, Preprocessing, cosine
from simile_plugin.encoder.tokens import WordTokenizer

DOCUMENT = "The gate was shut. Two boys skip stones over the pond, and a dog barks.\nHe paid."
QUERY = "a dog is barking"


def slow_spans(encoder: Encoder, query: str, document: str, longest: int) -> Span:
    """The encoder's cosine with the text of each span, span by span; shortest, then first."""
    places, (asked,) = words(document), encoder.embed_text([query])
    best = NOWHERE
    for width in range(1, min(longest, len(places)) + 1):
        for i in range(len(places) - width + 1):
            start, end = places[i][0], places[i + width - 1][1]
            (vector,) = encoder.embed_text([document[start:end]])
            score = float(cosine(asked.double(), vector.double()))
            if asked.any() and vector.any() and score > best.score + 1e-6:
                best = Span(start, end, score)
    return best


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["gate", "dog", "pond", "qqq", "two", ",", "."]), max_size=12))
def test_spans_of_any_words_in_small_blocks(encoder: Encoder, found: list[str]) -> None:
    document = " ".join(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simile_plugin.contrib.finding.search.STARTS", 3)
        patch.setattr("simile_plugin.contrib.finding.search.QUERIES", 1)
        one = spans(encoder, ["a dog", "the gate"], document, 4)
    for query, span in zip(["a dog", "the gate"], one, strict=True):
        expected = slow_spans(encoder, query, document, 4)
        assert span.score == pytest.approx(expected.score, abs=1e-6)
        assert (span.start, span.end) == (expected.start, expected.end)


def test_spans_need_an_average_of_words() -> None:
    """Without --split-punctuation "pond" and "," are no two words of "pond,"."""
    raw = WordTokenizer(["over", "the", "pond,"], Preprocessing(False, True, False))
    encoder = Encoder(torch.randn(4, 8), raw)
    with pytest.raises(ValueError, match="--method span: needs an encoder of kind sp or word with"):
        make_search("span", encoder, [])
    assert make_search("sentence", encoder, [])(["the pond,"], DOCUMENT) != [NOWHERE]


def test_words_and_sentences_are_places_in_the_text() -> None:
    text = 'She said "don\'t go." Then  he left\n\nalone'
    assert [text[i:j] for i, j in words(text)] == [
        *("She", "said", '"', "don't", "go", ".", '"', "Then", "he", "left", "alone")
    ]
    assert [text[i:j] for i, j in sentences(text)] == [
        'She said "don\'t go."',
        "Then  he left",
        "alone",
    ]
    assert sentences("  ") == []
    text = "他付了钱！？「走吧。」3.5 left. वह गया। क्यों?"
    assert [text[i:j] for i, j in sentences(text)] == [
        *("他付了钱！？", "「走吧。」", "3.5 left.", "वह गया।", "क्यों?")
    ]


def test_sentences_are_found_by_vector_and_by_tf_idf(encoder: Encoder) -> None:
    question = Question("1", "two boys skipped stones", DOCUMENT)
    for method in ("sentence", "tfidf"):
        (found,) = find_spans([question], make_search(method, encoder, [DOCUMENT]))
        text = DOCUMENT[found.start : found.end]
        assert text == "Two boys skip stones over the pond, and a dog barks."
    empty = Question("2", "boys", " ")
    for method in ("span", "sentence", "tfidf"):
        for known in (DOCUMENT, " "):
            assert find_spans([empty], make_search(method, encoder, [known])) == [NOWHERE]


def test_f1_is_over_words_without_marks_and_case() -> None:
    def f1(prediction: str, answer: str) -> float:
        return token_f1(plain_words(prediction), plain_words(answer))

    assert f1("The dog barks.", "a Dog barks") == pytest.approx(2 / 3)
    assert f1("dog dog", "dog") == pytest.approx(2 / 3)
    # Four letters of the six that are found, and all four of the answer.
    assert f1("昨天他付了钱。", "他付了钱") == pytest.approx(2 * 4 / (6 + 4))
    assert f1("dog", "") == f1("", "dog") == f1("cat", "dog") == 0


def test_measures_by_hand() -> None:
    document = "One two three. Four five."
    asked = [
        Question("a", "one two", document, ("two three",)),  # found: One two three.
        Question("b", "four five six", document, ("four, five",)),  # found, marks aside
        Question("c", "x " * 12, document, ()),  # missing, and scored low
        Question("d", "seven", document, ()),  # missing, but found
    ]
    found = [Span(0, 14, 0.9), Span(15, 25, 0.8), Span(0, 3, 0.1), Span(0, 3, 0.7)]
    result = evaluate_finding(asked, found, threshold=0.5)
    assert (result.questions, result.missing) == (4, 2)
    assert result.exact == pytest.approx(50)  # b and c
    assert result.f1 == pytest.approx(100 * (0.8 + 1 + 1 + 0) / 4)
    assert result.said_missing == 25
    # The best sentence of a is "One two three.", and what is missing can be said to be.
    assert result.oracle == pytest.approx((75, 100 * (0.8 + 3) / 4))
    assert by_query_length(asked) == {"1-5": [0, 1, 3], "11-15": [2]}


def test_the_threshold_has_the_highest_f1_of_all() -> None:
    rng = np.random.default_rng(1)
    document = "alpha beta. gamma."
    asked, found = [], []
    for number in range(40):
        there = number % 3 > 0
        asked.append(Question(str(number), "q", document, ("alpha beta.",) if there else ()))
        place = (0, 11) if rng.random() < 0.7 else (12, 18)
        found.append(Span(*place, float(rng.integers(8)) / 8 + 0.3 * there))
    tuned = tune_missing(asked, found)
    best = evaluate_finding(asked, found, tuned).f1
    values = sorted({span.score for span in found})
    grid = [-math.inf, *values, math.inf]
    assert best == pytest.approx(max(evaluate_finding(asked, found, t).f1 for t in grid))
    missing = [Question("x", "q", document, ())]
    assert evaluate_finding(missing, [Span(0, 5, 0.5)], tune_missing(missing, found[:1])).f1 == 100


# --- files and the command ---


def questions_file(folder: Path) -> Path:
    """Two questions of a document, of which one is missing."""
    answer = {"text": "a dog barks", "answer_start": DOCUMENT.index("a dog barks")}
    asked = [
        {"id": "1", "question": QUERY, "answers": [answer]},
        {"id": "2", "question": "qqq", "answers": [], "is_impossible": True},
    ]
    content = {"data": [{"paragraphs": [{"context": DOCUMENT, "qas": asked}]}]}
    path = folder / "questions.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{"data"', "{", "not valid JSON"),
        ('"text": "a dog barks"', '"text": "a cat"', "does not stand at character"),
        ('"2"', '"1"', "id '1' is there twice"),
    ],
)
def test_other_layouts_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = questions_file(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_squad(path, "--squad")


@pytest.fixture
def folder(tmp_path: Path, encoder_folder: Path) -> Path:
    (tmp_path / "encoder").symlink_to(encoder_folder)
    questions_file(tmp_path)
    (tmp_path / "queries.txt").write_text(f"{QUERY}\nqqq\n")
    (tmp_path / "one.txt").write_text(DOCUMENT)
    (tmp_path / "two.txt").write_text("They closed a gate.\n")
    return tmp_path


def run(folder: Path, *flags: object) -> int:
    names = {"queries.txt", "one.txt", "two.txt", "questions.json", "encoder", "found.json"}
    return main(
        ["contrib", "find", *(str(folder / flag) if flag in names else str(flag) for flag in flags)]
    )


def test_queries_are_looked_for_in_documents(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("encoder", "--queries", "queries.txt", "--documents", "one.txt", "two.txt")
    assert run(folder, *flags, "--threshold", 0.3) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == QUERY and "one.txt:" in lines[1] and "dog" in lines[1]
    assert lines[-2:] == ["qqq", "  no known token"]
    assert run(folder, *flags, "--threshold", 0.3, "--json") == 0
    found = json.loads(capsys.readouterr().out)["found"]
    assert [(one["query"], one["missing"]) for one in found] == [
        (QUERY, False),
        (QUERY, found[1]["missing"]),
        ("qqq", True),
        ("qqq", True),
    ]
    best = found[0]
    assert best["document"].endswith("one.txt")
    assert DOCUMENT[best["start"] :].startswith(best["text"]) and "dog" in best["text"]
    assert lines[1] == f"  {best['score']:.3f}\t{best['document']}:{best['start']}\t{best['text']}"


def test_questions_are_measured_and_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("encoder", "--squad", "questions.json", "--tune", "questions.json")
    assert run(folder, *flags, "--output", "found.json") == 0
    out = capsys.readouterr().out
    assert "1 queries are not in their document" in out and "oracle" in out
    found = read_squad(folder / "found.json", "--squad")
    assert found[1].answers == () and "dog" in (found[0].answers or ("",))[0]
    assert run(folder, "encoder", "--squad", "questions.json", "--json") == 0
    out = capsys.readouterr().out
    assert json.loads(out)["all"]["questions"] == 2
    assert '"threshold": null' in out and "Infinity" not in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--squad", "questions.json", "--queries", "queries.txt"), "or --squad FILE alone"),
        (("--squad", "questions.json", "--tune", "x", "--threshold", 1), "leave out --threshold"),
        (("--queries", "-", "--documents", "one.txt", "-"), "only one of them can be - (standard"),
        (("--squad", "questions.json", "--output", "questions.json"), "is an input of this"),
    ],
)
def test_what_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[object, ...], message: str
) -> None:
    assert run(folder, "encoder", *flags) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_places_are_of_the_characters_of_the_file(
    encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\ufeffnobody told the baker\r\nthe ferry crosses at noon\r\n"
    (tmp_path / "document").write_bytes(text.encode())
    (tmp_path / "queries").write_text("the ferry crosses at noon\n")
    files = ["--queries", str(tmp_path / "queries"), "--documents", str(tmp_path / "document")]
    assert main(["contrib", "find", str(encoder_folder), *files]) == 0
    assert f"document:{text.index('the ferry')}\t" in capsys.readouterr().out

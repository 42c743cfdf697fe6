"""Finding a paraphrase in a document: spans against a slow loop, measures by hand, the command."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin import hugging_face  # noqa: F401 (before transformers: hides a broken torchaudio)
from simile_plugin.encoder import Encoder, Preprocessing, cosine
from simile_plugin.encoder.tokens import WordTokenizer
from tests.papers.scripts import script

PAPER = "kanerva-2021-paraphrase-span-detection"
find, qa, plant = script(PAPER, "find"), script(PAPER, "qa"), script(PAPER, "plant")
measures, questions, search = (script(PAPER, name) for name in ("measures", "questions", "search"))
by_query_length = measures.by_query_length
evaluate_finding = measures.evaluate_finding
tune_missing = measures.tune_missing
plain_words = measures.plain_words
token_f1 = measures.token_f1
Question = questions.Question
Span = questions.Span
read_squad = questions.read_squad
squad = questions.squad
NOWHERE = questions.NOWHERE
find_spans = search.find_spans
make_search = search.make_search
sentences = search.sentences
spans = search.spans
words = search.words

DOCUMENT = "The gate was shut. Two boys skip stones over the pond, and a dog barks.\nHe paid."
QUERY = "a dog is barking"


def slow_spans(encoder: Encoder, query: str, document: str, longest: int) -> Any:
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
        patch.setattr(search, "STARTS", 3)
        patch.setattr(search, "QUERIES", 1)
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
    return find.main([str(folder / flag) if flag in names else str(flag) for flag in flags])


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
    assert find.main([str(encoder_folder), *files]) == 0
    assert f"document:{text.index('the ferry')}\t" in capsys.readouterr().out


WORDS = [f"w{i}" for i in range(20)] + ["alpha", "omega"]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with random weights; a token is a word."""
    from transformers import BertConfig, BertForQuestionAnswering, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    vocabulary = {
        word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    }
    BertTokenizerFast(vocab=vocabulary).save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertForQuestionAnswering(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(model_folder: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_folder)


def numbered(first: int, last: int) -> str:
    return " ".join(f"w{i}" for i in range(first, last))


def test_documents_are_cut_into_slices_that_overlap_and_queries_are_not(tokenizer) -> None:
    question = Question("1", "alpha omega", numbered(0, 20))
    # [CLS] alpha omega [SEP] ... [SEP]: nine words of the document, of which three come again
    found = qa.slices(tokenizer, question, longest=14, overlap=3)
    texts = [
        [question.document[slice(*place)] for place in piece.places if place] for piece in found
    ]
    assert texts == [numbered(a, b).split() for a, b in ((0, 9), (6, 15), (12, 20))]
    query = tokenizer("alpha omega")["input_ids"]
    assert all(piece.inputs["input_ids"][:4] == query for piece in found)
    assert {piece.cls for piece in found} == {0}
    # the answer "w7 w8 w9" is in the second slice alone
    asked = Question("1", question.query, question.document, ("w7 w8 w9",), 21)
    assert question.document[21:29] == "w7 w8 w9"
    assert [qa.target(asked, piece) for piece in found] == [(0, 0), (5, 7), (0, 0)]
    assert [qa.target(Question("1", "a", "b", ()), piece) for piece in found] == [(0, 0)] * 3


def test_the_best_span_is_the_best_of_all_pairs(tokenizer) -> None:
    torch.manual_seed(1)
    question = Question("1", "alpha", numbered(0, 20))
    piece, *_ = qa.slices(tokenizer, question, longest=40, overlap=3)
    for _ in range(20):
        first, last = torch.randn(2, len(piece.places))
        scores = {
            (i, j): float(first[i] + last[j])
            for i, left in enumerate(piece.places)
            for j, right in enumerate(piece.places)
            if left and right and i <= j
        }
        i, j = max(scores, key=lambda pair: scores[pair])
        span = qa.best_span(piece, first, last)
        assert (span.start, span.end) == (piece.places[i][0], piece.places[j][1])
        assert span.score == pytest.approx(scores[i, j])


def test_null_scores_are_merged_by_the_least_certain_slice(tokenizer) -> None:
    question = Question("1", "alpha omega", numbered(0, 20))
    pieces = qa.slices(tokenizer, question, longest=14, overlap=3)
    logits: list[tuple[torch.Tensor, torch.Tensor]] = []
    # what each slice gives to "missing", and to its second word as a span
    for missing, span in ((9.0, 1.0), (2.0, 5.0), (8.0, 3.0)):
        first = torch.full((len(pieces[len(logits)].places),), -9.0)
        last = first.clone()
        first[0], last[0] = missing / 2, missing / 2
        first[5], last[5] = span / 2, span / 2
        logits.append((first, last))
    # the second slice's span has 5; of "missing" the least is 2
    found = qa.merge(pieces, logits, setup=2)
    assert question.document[found.start : found.end] == "w7"
    assert found.score == pytest.approx(5 - 2)
    assert qa.merge(pieces, logits, setup=1).score == pytest.approx(5)
    # the most certain slice would have said "missing": 5 - 9 < 0


def write_questions(path: Path, count: int, seed: int, present: bool = False) -> None:
    """The answer runs from alpha to omega, if they are there; most documents are several slices."""
    rng = random.Random(seed)
    paragraphs = []
    for number in range(count):
        words = rng.choices(WORDS[:20], k=rng.randint(20, 60))
        answers = []
        if present or number % 3:
            place = rng.randrange(len(words))
            middle = rng.choices(WORDS[:20], k=rng.randint(0, 3))
            words[place:place] = ["alpha", *middle, "omega"]
            start = len(" ".join([*words[:place], ""]))
            answers = [{"text": " ".join(["alpha", *middle, "omega"]), "answer_start": start}]
        asked: dict[str, object] = {"id": str(number), "question": rng.choice(WORDS[:20])}
        asked |= {"answers": answers, "is_impossible": not answers}
        paragraphs.append({"context": " ".join(words), "qas": [asked]})
    path.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": paragraphs}]}))


@pytest.mark.parametrize("setup", [1, 2])
def test_a_model_learns_to_find(
    setup: int, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_questions(tmp_path / "train.json", 120, seed=1, present=setup == 1)
    write_questions(tmp_path / "test.json", 60, seed=2, present=setup == 1)
    shape = ["--setup", str(setup), "--longest", "40", "--overlap", "8"]
    rate = ["--batch-size", "16", "--learning-rate", "0.01", "--epochs", "6"]
    train = ["train", str(model_folder), "--squad", str(tmp_path / "train.json"), *shape, *rate]
    train += ["--output", str(tmp_path / "qa")]
    assert qa.main(train) == 0
    assert qa.main(train) == 2
    assert "is there already; name another folder" in capsys.readouterr().err
    capsys.readouterr()
    test = ["predict", str(tmp_path / "qa"), "--squad", str(tmp_path / "test.json"), *shape]
    assert qa.main([*test, "--output", str(tmp_path / "found.json")]) == 0
    line = capsys.readouterr().out
    assert line.startswith(f"60 questions, {20 if setup == 2 else 0} missing: exact ")
    assert float(line.split("exact ")[1].split(",")[0]) > 90
    found = read_squad(tmp_path / "found.json", "found")
    known = read_squad(tmp_path / "test.json", "test")
    right = sum(a.answers == b.answers for a, b in zip(found, known, strict=True))
    assert right / 60 == pytest.approx(float(line.split("exact ")[1].split(",")[0]) / 100, abs=0.01)


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

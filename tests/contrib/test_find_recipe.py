"""Finding's recipe: qa.py's slices, their merging by hand, a tiny model that learns; plant.py."""

import json
import random
import sys
from pathlib import Path

import pytest
import torch

from simile_plugin import hugging_face  # noqa: F401 (before transformers: hides a broken torchaudio)
from simile_plugin.contrib.finding import Question, read_squad
from tests.contrib.papers import FIND, script

WORDS = [f"w{i}" for i in range(20)] + ["alpha", "omega"]


qa, plant = script(FIND, "qa"), script(FIND, "plant")


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

"""Questions, the spans that answer them, and both in SQuAD's layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simile_plugin.files import InputError, read_bytes
from simile_plugin.significance import without_nan


@dataclass(frozen=True)
class Question:
    """A query, and the document it is looked for in.

    Attributes:
        answers: the right spans' texts; none: it is not in the document; None: not known.
        start: the character of the document at which the first answer begins, if there is one.
        title: of the document, "" if it has none.
    """

    id: str
    query: str
    document: str
    answers: tuple[str, ...] | None = None
    start: int | None = None
    title: str = ""


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` of a document, and how well they fit."""

    start: int
    end: int
    score: float

    def text(self, document: str, threshold: float = -np.inf) -> str:
        """Return the text that stands there; "" for missing: no characters, or too low a score."""
        return document[self.start : self.end] if self.score >= threshold else ""


NOWHERE = Span(0, 0, -np.inf)  # no text to choose from, or nothing in it or the query is known


def read_squad(path: str | Path, flag: str) -> list[Question]:
    """Read questions in the layout of SQuAD 1.1 or 2.0.

    A question without `answers` is one whose answer is not known; with `is_impossible`, or an
    empty list of them, one whose query is not in its document.

    Raises:
        InputError: naming the file and the place in it, for another layout, an answer that does not
            stand where it says, or ids that repeat.
    """
    where = f"{flag}: {path}"
    try:
        content = json.loads(read_bytes(path, flag))
    except ValueError as error:
        raise InputError(f"{where}: not valid JSON ({error})") from error
    found: dict[str, Question] = {}
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for qa in paragraph["qas"]:
                    question = _squad_question(paragraph["context"], qa, where)
                    if question.id in found:
                        raise InputError(f"{where}: id {question.id!r} is there twice")
                    found[question.id] = question
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{where}: not in SQuAD's layout; expected data[].paragraphs[] with context and qas[], "
            "each with id, question and answers[] of text and answer_start"
        ) from error
    if not found:
        raise InputError(f"{where}: no question; expected data[].paragraphs[].qas[]")
    return [*found.values()]


def _squad_question(context: str, qa: dict[str, Any], where: str) -> Question:
    name, query = str(qa["id"]), qa["question"]
    if not query.strip():
        raise InputError(f"{where}: {name}: the question has no text")
    given = [] if qa.get("is_impossible") else qa.get("answers")
    if given is None:
        return Question(name, query, context)
    for one in given:
        text, start = one["text"], one["answer_start"]
        if not text or start < 0 or not context.startswith(text, start):
            raise InputError(
                f"{where}: {name}: answer {text!r} does not stand at character {start} of the "
                "context"
            )
    texts = tuple(dict.fromkeys(one["text"] for one in given))
    return Question(name, query, context, texts, given[0]["answer_start"] if given else None)


def squad(questions: Sequence[Question], found: Sequence[Span], threshold: float) -> dict[str, Any]:
    """Write answers in SQuAD's layout, each with its score, null of NOWHERE.

    A document without a title has its number for one.
    """
    articles: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for question, span in zip(questions, found, strict=True):
        text = span.text(question.document, threshold)
        articles.setdefault((question.title, question.document), []).append(
            {
                "id": question.id,
                "question": question.query,
                "answers": [{"text": text, "answer_start": span.start}] if text else [],
                "is_impossible": not text,
                "score": without_nan(span.score),
            }
        )
    data = [
        {"title": title or str(n), "paragraphs": [{"context": document, "qas": qas}]}
        for n, ((title, document), qas) in enumerate(articles.items(), start=1)
    ]
    return {"version": "v2.0", "data": data}

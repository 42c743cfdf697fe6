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
        start: character of the document at which the first of them begins, if that is known.
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
        """What stands there; "" for missing: no characters, or a score below the threshold."""
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
    data = read_bytes(path, flag)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error})") from error
    found: dict[str, Question] = {}
    for name, context, qa in _squad_items(content, where):
        question = _squad_question(context, qa, f"{where}: {name}")
        if question.id in found:
            raise InputError(f"{where}: {name}: id {question.id!r} is there twice")
        found[question.id] = question
    if not found:
        raise InputError(f"{where}: no question; expected data[].paragraphs[].qas[]")
    return [*found.values()]


def _squad_items(content: Any, where: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Place in the file, document and question of each question."""
    try:
        return [
            (f"data[{a}].paragraphs[{b}].qas[{c}]", paragraph["context"], qa)
            for a, article in enumerate(content["data"])
            for b, paragraph in enumerate(article["paragraphs"])
            for c, qa in enumerate(paragraph["qas"])
        ]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{where}: not in SQuAD's layout; expected data[].paragraphs[] with context and qas[]"
        ) from error


def _squad_question(context: Any, qa: Any, where: str) -> Question:
    if not isinstance(qa, dict) or not isinstance(context, str):
        raise InputError(f"{where}: expected a context of text and a question with id and question")
    name, query = qa.get("id"), qa.get("question")
    if not isinstance(name, str | int) or not isinstance(query, str) or not query.strip():
        raise InputError(
            f"{where}: got id {name!r} and question {query!r}; expected an id and a text"
        )
    try:
        (str(name) + context + query).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: half a surrogate pair, which is no text; mend it") from error
    given = [] if qa.get("is_impossible") else qa.get("answers")
    if given is None:
        return Question(str(name), query, context)
    try:
        answers = [(one["text"], int(one["answer_start"])) for one in given]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: answers: expected text and answer_start in each") from error
    for text, start in answers:
        there = start >= 0 and isinstance(text, str) and context.startswith(text, start)
        if not there or not text:
            raise InputError(
                f"{where}: answer {text!r} does not stand at character {start} of the context"
            )
    texts = tuple(dict.fromkeys(text for text, _ in answers))
    return Question(str(name), query, context, texts, answers[0][1] if answers else None)


def squad(questions: Sequence[Question], found: Sequence[Span], threshold: float) -> dict[str, Any]:
    """What was found, in SQuAD's layout: `answers` are ours, with their score, null of NOWHERE.

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

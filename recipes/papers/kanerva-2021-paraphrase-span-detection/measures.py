"""How well spans were found: exact match, F1 in words, and the threshold for "not in here"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from questions import Question, Span
from search import sentences, words

from simile_plugin.encoder import split_words

LENGTHS = (5, 10, 15, 20)  # upper bounds of the classes of query length, in words


@dataclass(frozen=True)
class Finding:
    """Quality of the spans that were given as answers, in percent.

    Attributes:
        questions: how many there are.
        missing: how many of them have no answer.
        exact: share of those that have an answer's words in their order, marks and case aside, or
            are rightly said to be missing.
        f1: mean overlap in words, likewise; 100 where it is rightly said to be missing.
        said_missing: share that were said to be missing.
        oracle: exact and f1 of the best sentence: what retrieval of sentences can reach.
    """

    questions: int
    missing: int
    exact: float
    f1: float
    said_missing: float
    oracle: tuple[float, float]


def plain_words(text: str) -> list[str]:
    """Lowercased words without the marks between them: what the measures compare.

    Each letter is a word in scripts without spaces, see `encoder.split_words`.
    """
    parts = [part for i, j in words(text) for part in split_words(text[i:j].lower())]
    return [part for part in parts if any(map(str.isalnum, part))]


def token_f1(prediction: Sequence[str], answer: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over bags of words, not both empty: in [0, 1]."""
    common = (Counter(prediction) & Counter(answer)).total()
    return 2 * common / (len(prediction) + len(answer))


def quality(question: Question, text: str) -> tuple[float, float]:
    """Exact match and F1 of a text, "" for missing, against the nearest answer: in [0, 1].

    What has no words but marks is compared as it stands.
    """
    assert question.answers is not None
    if not text or not question.answers:
        right = float(not text and not question.answers)
        return right, right
    own = plain_words(text) or [text.strip()]
    answers = [plain_words(answer) or [answer.strip()] for answer in question.answers]
    return float(own in answers), max(token_f1(own, answer) for answer in answers)


def evaluate_finding(
    questions: Sequence[Question], found: Sequence[Span], threshold: float = -np.inf
) -> Finding:
    """Measure answers: a span below the threshold says that the query is not in the document."""
    texts = [
        span.text(question.document, threshold)
        for question, span in zip(questions, found, strict=True)
    ]
    own = np.array([quality(q, text) for q, text in zip(questions, texts, strict=True)])
    best = np.array([_oracle(question) for question in questions])
    return Finding(
        questions=len(questions),
        missing=sum(not question.answers for question in questions),
        exact=100 * float(own[:, 0].mean()),
        f1=100 * float(own[:, 1].mean()),
        said_missing=100 * sum(not text for text in texts) / len(texts),
        oracle=(100 * float(best[:, 0].mean()), 100 * float(best[:, 1].mean())),
    )


def _oracle(question: Question) -> tuple[float, float]:
    """Measure the best choice among the sentences, or of none where none is right."""
    if not question.answers:
        return 1.0, 1.0
    texts = [question.document[i:j] for i, j in sentences(question.document)]
    own = [quality(question, text) for text in texts]
    return max((one for one, _ in own), default=0.0), max((f for _, f in own), default=0.0)


def by_query_length(questions: Sequence[Question]) -> dict[str, list[int]]:
    """Places of the questions by the words of their query, marks aside; no class is empty."""
    found: dict[str, list[int]] = {}
    names = [*(f"{a + 1}-{b}" for a, b in pairwise((0, *LENGTHS))), f">{LENGTHS[-1]}"]
    for place, question in enumerate(questions):
        count = int(np.searchsorted(LENGTHS, len(plain_words(question.query))))
        found.setdefault(names[count], []).append(place)
    return {name: found[name] for name in names if name in found}


def tune_missing(questions: Sequence[Question], found: Sequence[Span]) -> float:
    """The threshold with the highest mean F1; of equals the lowest, which finds most."""
    scores = np.array([span.score for span in found])
    # What is gained by saying that it is missing.
    gain = [
        quality(question, "")[1] - quality(question, span.text(question.document))[1]
        for question, span in zip(questions, found, strict=True)
    ]
    order = np.argsort(scores, kind="stable")
    # Below place k all are said to be missing.
    total = np.concatenate([[0], np.cumsum(np.array(gain)[order])])
    ranked = scores[order]
    cuts = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])  # equal scores go together
    place = int(np.argmax(np.where(cuts, total, -np.inf)))
    if place == 0:
        return float("-inf")
    if place == len(ranked):
        return float(np.nextafter(ranked[-1], np.inf))
    return float((ranked[place - 1] + ranked[place]) / 2)

"""Finding a paraphrase of a query in a document, as a span of its words.

Task and measures are those of paraphrase span detection (setup 1: it is always there, setup 2: it
may be missing); the search is ours and needs no training data of the task. Where an encoder
averages what each word is made of, whatever its neighbours, the vector of words i to j points the
way of P_j - P_i, where P are running sums over the document: the best of all spans of at most L
words is exact, for O(n D) a document and O(n L) a query beside the products of neighbouring sums.
Elsewhere windows are read: all of up to 10 words, and some that are longer.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simile_plugin.encoder import JOINERS, Encoder, RewardEncoder, split_words
from simile_plugin.files import InputError, read_bytes
from simile_plugin.statistics import Floats, without_nan

Ints = NDArray[np.int64]
Place = tuple[int, int]  # where a text begins and ends
Tokens = tuple[Ints, Ints, NDArray[np.bool_]]  # see _tokens

AVERAGES = ("sp", "word")  # kinds of encoders whose vector is a mean over the words' tokens
LONGEST_SPAN = 40  # words of a span at most
STARTS = 256  # spans that begin at so many words are scored at once,
QUERIES = 256  # for so many queries, fewer of longer spans: memory does not grow with any of them
WINDOWS = 4096  # are embedded at once
TIE = 1e-9  # scores of float64: differences below this are rounding
ACCENT = "\u0300"  # stands for all accents, vowel signs and joiners, which are no letters to `re`
WORD = re.compile(rf"[\w{ACCENT}]+(?:['’‑-][\w{ACCENT}]+)*|[^\w\s]{ACCENT}*")
# A sentence ends at a line's end, or behind a full stop and what closes quotes and brackets; those
# of Chinese and Japanese need no space behind them.
SENTENCE_END = re.compile(
    r"\n+|(?<=[.!?…।॥؟۔])[\"'”’»)\]]*\s+|(?<=[。！？])(?![。！？])[\"'”’»)\]」』）]*\s*"
)
NGRAMS, FEATURES = (2, 4), 300_000  # tf-idf over n-grams of characters within words, the paper's
SQUAD_VERSION = "v2.0"
LENGTHS = (5, 10, 15, 20)  # upper bounds of the classes of query length, in words


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


# --- search ---

Search = Callable[[Sequence[str], str], list[Span]]  # queries, document -> the best of each


def make_search(
    method: str,
    encoder: RewardEncoder,
    documents: Sequence[str],
    longest: int = LONGEST_SPAN,
) -> Search:
    """The search of span, sentence or tfidf; each gives one span a query, or NOWHERE.

    Args:
        documents: what the weights of tf-idf are counted on.
        longest: words of a span at most.
    """
    if method == "tfidf":
        return _tfidf(documents)
    if method == "sentence":
        return lambda queries, document: _best_text(
            encoder, queries, document, iter(sentences(document))
        )
    return lambda queries, document: spans(encoder, queries, document, longest)


def words(text: str) -> list[Place]:
    """Where each word of a text begins and ends; a mark between words is one of its own.

    Accents, vowel signs and joiners belong to the word that they stand in.
    """
    return [found.span() for found in WORD.finditer(re.sub(r"[^\w\s]", _plain_accent, text))]


def _plain_accent(mark: re.Match[str]) -> str:
    accent = unicodedata.category(mark[0])[0] == "M" or mark[0] in JOINERS
    return ACCENT if accent else mark[0]


def sentences(document: str) -> list[Place]:
    """Where each sentence begins and ends, without white space."""
    found, start = [], 0
    for end in (*SENTENCE_END.finditer(document), None):
        stop = end.end() if end else len(document)
        text = document[start:stop]
        if text.strip():
            lead = len(text) - len(text.lstrip())
            found.append((start + lead, start + len(text.rstrip())))
        start = stop
    return found


def spans(
    encoder: RewardEncoder, queries: Sequence[str], document: str, longest: int = LONGEST_SPAN
) -> list[Span]:
    """The span of each query with the highest cosine; of equals the shortest, then the first.

    Exact, in float64, where the encoder averages the tokens of words that do not depend on their
    neighbours: numerator and norm of the cosine are differences of running sums. Else the best of
    some windows, see `_windows`.
    """
    places, tokens = _separate(encoder, document)
    longest = min(longest, len(places))
    if tokens is None:
        return _best_text(encoder, queries, document, _windows(places, longest))
    assert isinstance(encoder, Encoder)
    ids, starts, alone = tokens
    edges, known = np.append(starts, len(ids)), _counts(alone, starts)
    unit = _unit_vectors(encoder, queries)
    best = np.full((len(queries), longest), -np.inf)  # of each width
    start = np.zeros((len(queries), longest), dtype=np.int64)
    at_once = max(1, QUERIES * LONGEST_SPAN // max(LONGEST_SPAN, longest))
    for first in range(0, len(places), STARTS):
        last = min(first + STARTS + longest - 1, len(places))
        own, begin = ids[edges[first] : edges[last]], starts[first:last] - edges[first]
        with torch.no_grad():
            means = encoder(torch.from_numpy(own), torch.from_numpy(begin)).double().cpu().numpy()
        vectors = means * _counts(encoder.segmenter.known(own), begin)[:, None]
        for some in range(0, len(queries), at_once):
            part = slice(some, some + at_once)
            cosines = _block(unit[part], vectors, known[first:last], longest)
            place = _first_best(cosines, axis=1)
            value = np.take_along_axis(cosines, place[:, None], axis=1)[:, 0]
            better = value > best[part] + TIE
            best[part][better], start[part][better] = value[better], first + place[better]
    width = _first_best(best, axis=1)
    rows = np.arange(len(queries))
    return [
        Span(places[i][0], places[i + n][1], float(value)) if value > -np.inf else NOWHERE
        for i, n, value in zip(start[rows, width], width, best[rows, width], strict=True)
    ]


def _separate(encoder: RewardEncoder, document: str) -> tuple[list[Place], Tokens | None]:
    """The words, and their tokens where the vector of a span is the mean of its words' tokens.

    Where punctuation is split off, what stands between two spaces is one word if the encoder reads
    it as such: with a soft hyphen or a zero-width space, or "№5", which becomes "No5".
    """
    places = words(document)
    if not (
        places
        and isinstance(encoder, Encoder)
        and encoder.kind in AVERAGES
        and encoder.segmenter.preprocessing.split_punctuation
    ):
        return places, None
    tokens = _tokens(encoder, document, places)
    if tokens is None:
        rest, places = deque(places), []
        for chunk in re.finditer(r"\S+", document):
            own = []
            while rest and rest[0][1] <= chunk.end():
                own.append(rest.popleft())
            places += own if _tokens(encoder, document, own) else [chunk.span()]
        tokens = _tokens(encoder, document, places)
    return places, tokens


def _tokens(encoder: Encoder, document: str, places: Sequence[Place]) -> Tokens | None:
    """The tokens of a stretch of words; None if they are others than those of each word alone.

    But for sentencepiece's lone mark before an unknown word, which is known beside known words.

    Returns:
        ids (P,), where each word begins among them (W,), which are known of a word alone (P,).
    """
    alone, starts = encoder.segmenter.encode_flat([document[i:j] for i, j in places])
    ids, _ = encoder.segmenter.encode_flat([document[places[0][0] : places[-1][1]]])
    known = encoder.segmenter.known(alone)
    same = len(ids) == len(alone) and bool((ids == alone)[known].all())
    return (ids, starts, known) if same else None


def _counts(flags: NDArray[np.bool_], starts: Ints) -> Ints:
    """How many flags are set of each of the rows that begin at `starts`."""
    before = np.concatenate([[0], np.cumsum(flags)])
    return np.diff(before[starts], append=before[-1])


def _block(unit: Floats, vectors: Floats, known: Ints, longest: int) -> Floats:
    """Cosines (Q, S, L) of the spans that begin at the first S <= STARTS of some words.

    -inf where a span would reach beyond the last word, and where it or the query has no known
    token. Sums begin anew in each block, so that their rounding does not grow with the document.
    """
    size = len(vectors)
    sums = np.concatenate([np.zeros((1, vectors.shape[1])), vectors.cumsum(0)])
    tokens = np.concatenate([[0], known.cumsum()])
    begin = np.arange(min(STARTS, size))[:, None]
    end = begin + 1 + np.arange(longest)
    inside = end <= size
    end = np.minimum(end, size)
    products = sums[: len(begin)] @ sums.T
    square = (sums**2).sum(1)
    norms = square[begin] + square[end] - 2 * products[begin, end]
    along = unit @ sums.T
    # A norm of rounding is that of vectors that cancel out: the cosine is 0, see encoder.cosine.
    there = norms > TIE
    cosines = (along[:, end] - along[:, begin]) / np.sqrt(np.where(there, norms, 1.0))
    some = inside & (tokens[end] > tokens[begin]) & unit.any(1).reshape(-1, 1, 1)
    result: Floats = np.where(some, np.where(there, cosines, 0.0), -np.inf)
    return result


def _first_best(scores: Floats, axis: int) -> Ints:
    """Place of the highest along an axis; of equals, but for rounding, the first."""
    place: Ints = np.argmax(scores >= scores.max(axis, keepdims=True) - TIE, axis=axis)
    return place


def _windows(places: Sequence[Place], longest: int) -> Iterator[Place]:
    """Where windows of words begin and end, the shortest first, up to the document's end.

    Widths grow by a fifth, from 1 to `longest`, and starts move by a tenth of the width.
    """
    width = min(1, longest)
    while width:
        last = len(places) - width
        for i in (*range(0, last, max(1, width // 10)), last):
            yield places[i][0], places[i + width - 1][1]
        width = min(longest, width + max(1, width // 5)) if width < longest else 0


def _best_text(
    encoder: RewardEncoder,
    queries: Sequence[str],
    document: str,
    places: Iterator[Place],
) -> list[Span]:
    """The place of each query whose text has the highest cosine; of equals the first."""
    unit = _unit_vectors(encoder, queries)
    best = [NOWHERE] * len(queries)
    while block := [*islice(places, WINDOWS)]:
        vectors = _unit_vectors(encoder, [document[i:j] for i, j in block])
        for some in range(0, len(queries), QUERIES):
            part = unit[some : some + QUERIES]
            known = part.any(1).reshape(-1, 1) & vectors.any(1)
            _keep_best(best, some, np.where(known, part @ vectors.T, -np.inf), block)
    return best


def _unit_vectors(encoder: RewardEncoder, texts: Sequence[str]) -> Floats:
    """(T, D) vectors of length 1; 0 of a text without a known token."""
    vectors = encoder.embed_text(list(texts)).double().cpu()
    unit: Floats = torch.nn.functional.normalize(vectors, eps=1e-30).numpy()
    return unit


def _keep_best(best: list[Span], first: int, scores: Floats, places: Sequence[Place]) -> None:
    """Put into best[first:] what has a higher score in (Q, T); of equals the first stays."""
    for query, (row, i) in enumerate(zip(scores, _first_best(scores, axis=1), strict=True), first):
        if row[i] > best[query].score + TIE:
            best[query] = Span(places[i][0], places[i][1], float(row[i]))


def _tfidf(documents: Sequence[str]) -> Search:
    """Sentences by the cosine of tf-idf vectors of character n-grams within words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=NGRAMS, max_features=FEATURES)
    known = [document[i:j] for document in documents for i, j in sentences(document)]
    if known:
        vectorizer.fit(known)

    def search(queries: Sequence[str], document: str) -> list[Span]:
        best, places = [NOWHERE] * len(queries), sentences(document)
        if places:
            texts = vectorizer.transform([document[i:j] for i, j in places])
            for some in range(0, len(queries), QUERIES):
                asked = vectorizer.transform(queries[some : some + QUERIES])
                known = asked.getnnz(axis=1)[:, None] > 0
                scores = np.where(known, (asked @ texts.T).toarray(), -np.inf)
                _keep_best(best, some, scores, places)
        return best

    return search


def find_spans(
    questions: Sequence[Question],
    search: Search,
    progress: Callable[[int], object] | None = None,
) -> list[Span]:
    """The best span of each question; questions of one document are asked together.

    Args:
        progress: called with the number of questions just answered.
    """
    asked: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        asked.setdefault(question.document, []).append(place)
    found: dict[int, Span] = {}
    for document, places in asked.items():
        found.update(
            zip(places, search([questions[i].query for i in places], document), strict=True)
        )
        if progress is not None:
            progress(len(places))
    return [found[i] for i in range(len(questions))]


# --- measures ---


@dataclass(frozen=True)
class Finding:
    """How well spans were found, in percent.

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
    """What the best choice among the sentences, or of none where none is right, gets."""
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


# --- files ---


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
    return {"version": SQUAD_VERSION, "data": data}

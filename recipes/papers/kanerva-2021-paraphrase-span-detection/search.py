"""The search: spans, sentences by vector, sentences by tf-idf.

Where an encoder averages what each word is made of, whatever its neighbours, the vector of words i
to j points the way of P_j - P_i, where P are running sums over the document: the best of all spans
of at most L words is exact, for O(n D) a document and O(n L) a query beside the products of
neighbouring sums. Each word is read alone: where a sign joins words for the encoder (a soft hyphen,
"№5"), its score of the text can differ by those words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from questions import NOWHERE, Question, Span

from simile_plugin.encoder import JOINERS, Encoder, RewardEncoder
from simile_plugin.files import InputError
from simile_plugin.significance import Floats

Ints = NDArray[np.int64]
Place = tuple[int, int]  # where a text begins and ends

AVERAGES = ("sp", "word")  # kinds of encoders whose vector is a mean over the words' tokens
LONGEST_SPAN = 40  # words of a span at most
STARTS = 256  # spans that begin at so many words are scored at once,
QUERIES = 256  # for so many queries, fewer of longer spans: memory does not grow with any of them
TIE = 1e-9  # scores of float64: differences below this are rounding,
ROUNDING = 1e-13  # and this share of the squares that they are differences of
ACCENT = "\u0300"  # stands for all accents, vowel signs and joiners, which are no letters to `re`
WORD = re.compile(rf"[\w{ACCENT}]+(?:['’‑-][\w{ACCENT}]+)*|[^\w\s]{ACCENT}*")
# A sentence ends at a line's end, or behind a full stop and what closes quotes and brackets; those
# of Chinese and Japanese need no space behind them.
SENTENCE_END = re.compile(
    r"\n+|(?<=[.!?…।॥؟۔])[\"'”’»)\]]*\s+|(?<=[。！？])(?![。！？])[\"'”’»)\]」』）]*\s*"
)
NGRAMS, FEATURES = (2, 4), 300_000  # tf-idf over n-grams of characters within words, the paper's

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

    Raises:
        InputError: for spans by an encoder that does not average the tokens of separate words.
    """
    if method == "tfidf":
        return _tfidf(documents)
    if method == "sentence":
        return lambda queries, document: _best_sentence(encoder, queries, document)
    average = encoder if isinstance(encoder, Encoder) and encoder.kind in AVERAGES else None
    if average is None or not average.segmenter.preprocessing.split_punctuation:
        raise InputError(
            f"--method span: needs an encoder of kind {' or '.join(AVERAGES)} with "
            f"--split-punctuation, got kind {encoder.kind}; expected --method sentence"
        )
    return lambda queries, document: spans(average, queries, document, longest)


def words(text: str) -> list[Place]:
    """Return begin and end of each word of a text; a mark between words is one of its own.

    Accents, vowel signs and joiners belong to the word that they stand in.
    """
    return [found.span() for found in WORD.finditer(re.sub(r"[^\w\s]", _plain_accent, text))]


def _plain_accent(mark: re.Match[str]) -> str:
    accent = unicodedata.category(mark[0])[0] == "M" or mark[0] in JOINERS
    return ACCENT if accent else mark[0]


def sentences(document: str) -> list[Place]:
    """Return begin and end of each sentence, without white space."""
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
    encoder: Encoder, queries: Sequence[str], document: str, longest: int = LONGEST_SPAN
) -> list[Span]:
    """The span of each query with the highest cosine; of equals the shortest, then the first.

    Exact, in float64: numerator and norm of the cosine are differences of running sums.
    """
    places = words(document)
    if not places:
        return [NOWHERE] * len(queries)
    longest = min(longest, len(places))
    alone, starts = encoder.segmenter.encode_flat([document[i:j] for i, j in places])
    known_alone = encoder.segmenter.known(alone)
    ids, _ = encoder.segmenter.encode_flat([document[places[0][0] : places[-1][1]]])
    # In the document sentencepiece's lone mark before an unknown word is known, too. Where it has
    # other tokens, a sign joins words.
    if len(ids) != len(alone) or not (ids == alone)[known_alone].all():
        ids = alone
    edges, known = np.append(starts, len(ids)), _counts(known_alone, starts)
    unit = _unit_vectors(encoder, queries)
    best = np.full((len(queries), longest), -np.inf)  # of each width
    start = np.zeros((len(queries), longest), dtype=np.int64)
    at_once = max(1, QUERIES * LONGEST_SPAN // max(LONGEST_SPAN, longest))
    for first in range(0, len(places), STARTS):
        # Spans that begin at STARTS words can end at longest - 1 words behind the last of these.
        last = min(first + STARTS + longest - 1, len(places))
        own, begin = ids[edges[first] : edges[last]], starts[first:last] - edges[first]
        with torch.no_grad():
            means = encoder(torch.from_numpy(own), torch.from_numpy(begin)).double().cpu().numpy()
        vectors = means * _counts(encoder.segmenter.known(own), begin)[:, None]  # sums of tokens
        for some in range(0, len(queries), at_once):
            part = slice(some, some + at_once)
            cosines = _block(unit[part], vectors, known[first:last], longest)
            place = _first_best(cosines)
            value = np.take_along_axis(cosines, place[:, None], axis=1)[:, 0]
            better = value > best[part] + TIE
            best[part][better], start[part][better] = value[better], first + place[better]
    width = _first_best(best)
    rows = np.arange(len(queries))
    return [
        Span(places[i][0], places[i + n][1], _cosine(value)) if value > -np.inf else NOWHERE
        for i, n, value in zip(start[rows, width], width, best[rows, width], strict=True)
    ]


def _counts(flags: NDArray[np.bool_], starts: Ints) -> Ints:
    """Count the flags that are set in each of the rows that begin at `starts`."""
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
    # |P_j - P_i|^2 without a vector for each span: D numbers a span would fill the memory.
    norms = square[begin] + square[end] - 2 * products[begin, end]
    along = unit @ sums.T
    # A norm of rounding is that of vectors that cancel out: the cosine is 0, see encoder.cosine.
    there = norms > ROUNDING * square.max()
    cosines = (along[:, end] - along[:, begin]) / np.sqrt(np.where(there, norms, 1.0))
    some = inside & (tokens[end] > tokens[begin]) & unit.any(1).reshape(-1, 1, 1)
    return np.where(some, np.where(there, cosines, 0.0), -np.inf)


def _cosine(score: float) -> float:
    """Without its rounding, so that equal vectors have 1."""
    return float(np.clip(np.round(score, 9), -1, 1))


def _first_best(scores: Floats) -> Ints:
    """Place of the highest along the second axis; of equals, but for rounding, the first."""
    first: Ints = np.argmax(scores >= scores.max(1, keepdims=True) - TIE, axis=1)
    return first


def _best_sentence(encoder: RewardEncoder, queries: Sequence[str], document: str) -> list[Span]:
    """The sentence of each query with the highest cosine; of equals the first."""
    places, best = sentences(document), [NOWHERE] * len(queries)
    if places:
        unit = _unit_vectors(encoder, queries)
        vectors = _unit_vectors(encoder, [document[i:j] for i, j in places])
        known = unit.any(1).reshape(-1, 1) & vectors.any(1)
        _keep_best(best, 0, np.where(known, unit @ vectors.T, -np.inf), places)
    return best


def _unit_vectors(encoder: RewardEncoder, texts: Sequence[str]) -> Floats:
    """(T, D) vectors of length 1; 0 of a text without a known token."""
    vectors = encoder.embed_text(list(texts)).double().cpu()
    return torch.nn.functional.normalize(vectors, eps=1e-30).numpy()


def _keep_best(best: list[Span], first: int, scores: Floats, places: Sequence[Place]) -> None:
    """Put into best[first:] what has a higher score in (Q, T); of equals the first stays."""
    for query, (row, i) in enumerate(zip(scores, _first_best(scores), strict=True), first):
        if row[i] > best[query].score + TIE:
            best[query] = Span(places[i][0], places[i][1], _cosine(row[i]))


def _tfidf(documents: Sequence[str]) -> Search:
    """Sentences by the cosine of tf-idf vectors of character n-grams within words."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ModuleNotFoundError as error:
        raise InputError("--method tfidf: needs scikit-learn: pip install scikit-learn") from error

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

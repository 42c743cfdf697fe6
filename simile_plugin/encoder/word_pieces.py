"""An exact word -> pieces cache in front of sentencepiece.

No piece crosses a space, so a sentence's pieces are its words' pieces one after the other, and
words repeat. Two things could break this, and both are looked at:

- Models that let something reach over a space: `PieceModel.segments_words_apart` refuses them.
- Rounding. A unigram model picks the best sum of scores, added up in float32 from the beginning
  of the sentence, so that two segmentations of a word that nearly tie can swap places with what
  stands before. By its lead over the second best, each word bears a rounding error of so much;
  a sentence with a word that bears less than its own goes to sentencepiece whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder.piece_leads import PieceLeads
from simile_plugin.encoder.piece_model import NORMAL, SPACE_MARK, UNIGRAM, UNKNOWN, PieceModel

Ints = NDArray[np.int64]

# What is kept: about 100 MB at the most. Past it the cache starts anew with the next block.
MAX_WORDS = 1 << 18
MAX_PIECES = 1 << 21
BLOCK = 1 << 13  # sentences looked up at once
JUDGED_AT = 2  # times a word is met when it is judged by n-best lists: many never come back
MANY_WORDS = 300  # new words for which judging all at once is faster
LONGEST_WORD = 32  # characters; longer ones (text without spaces) are not worth keeping
# Adding a score to a sum rounds by at most 2^-24 of the sum, for both of two rivals: 2^-23 for each
# piece. Twice that is more than enough.
ROUNDING = 2.0**-22
SEPARATOR = "\0"  # stands between sentences; preprocessing makes a space of it inside one


class _Rows(dict[str, int]):
    """Word -> row; a new word gets the next row."""

    def __missing__(self, word: str) -> int:
        row = self[word] = len(self)
        return row


@dataclass
class _Table:
    """What is known of words, by row.

    Attributes:
        starts, lengths: where the pieces are in the pool.
        sums: |sum of their scores|.
        bears: |sum of scores| of a sentence up to which the lead outweighs rounding; 0: unknown.
        hollow: whether there are pieces but none that counts (see Segmenter).
    """

    starts: Ints
    lengths: Ints
    sums: NDArray[np.float64]
    bears: NDArray[np.float64]
    hollow: NDArray[np.bool_]

    @classmethod
    def empty(cls, rows: int) -> _Table:
        """Rows of words that nothing is known of."""
        starts, lengths = np.zeros((2, rows), dtype=np.int64)
        return cls(starts, lengths, np.zeros(rows), np.zeros(rows), np.zeros(rows, dtype=bool))

    def append(self, other: _Table) -> None:
        """Add the rows of another table."""
        for name, values in vars(other).items():
            setattr(self, name, np.concatenate([getattr(self, name), values]))

    def put(self, rows: Ints, other: _Table) -> None:
        """Replace rows."""
        for name, values in vars(other).items():
            getattr(self, name)[rows] = values


class WordPieces:
    """Sentences -> ids of their pieces, word by word where that is exact.

    Args:
        model: what the sentencepiece model says of itself; its `segments_words_apart` holds.
        prepare: preprocessing of a sentence, which must do the same to each word alone.
        segment: prepared sentences -> ids.
        best_two: prepared word -> ids and texts of the pieces of its best and second best
            segmentation (or of the only one).
        whole: raw sentences -> ids, for those that cannot be put together from words.
    """

    def __init__(
        self,
        model: PieceModel,
        prepare: Callable[[str], str],
        segment: Callable[[list[str]], list[list[int]]],
        best_two: Callable[[str], list[tuple[list[int], list[str]]]],
        whole: Callable[[list[str]], list[list[int]]],
    ) -> None:
        self._model = model
        self._unknown = model.types.index(UNKNOWN)
        self._silent = np.array([self._unknown, model.pieces.index(SPACE_MARK)])
        # The unknown piece's own score is never counted.
        self._scores = np.array(model.scores)
        self._scores[self._unknown] = 0
        self._prepare, self._segment = prepare, segment
        self._best_two, self._whole = best_two, whole
        judges_fast = model.model_type == UNIGRAM and PieceLeads.covers(model)
        self._leads = PieceLeads(model) if judges_fast else None
        self._judged_at = 1 if judges_fast or model.model_type != UNIGRAM else JUDGED_AT
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._rows = _Rows({SEPARATOR: 0})
        self._words = [SEPARATOR]
        self._met = np.full(1, self._judged_at)  # by row: how often the word was met
        self._of_rows = _Table.empty(1)
        self._of_rows.bears[0] = np.inf
        self._pool = np.zeros(0, dtype=np.int64)
        # The same for prepared words, of which raw ones consist; their pieces are in the pool, too.
        self._parts = _Rows()
        self._of_parts = _Table.empty(0)

    def __len__(self) -> int:
        return len(self._rows) - 1

    def encode(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Segment sentences.

        Returns:
            ids (P,) of all pieces, and lengths (U,), the number of pieces of each sentence.
        """
        ids, lengths = [], []
        with self._lock:
            for start in range(0, len(sentences), BLOCK):
                try:
                    found = self._encode_block(sentences[start : start + BLOCK])
                except BaseException:
                    self._clear()  # rows without pieces may have been left
                    raise
                ids.append(found[0])
                lengths.append(found[1])
        if len(ids) == 1:
            return ids[0], lengths[0]
        nothing = np.zeros(0, dtype=np.int64)
        return np.concatenate([nothing, *ids]), np.concatenate([nothing, *lengths])

    def _encode_block(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        if len(self._rows) > MAX_WORDS or len(self._pool) > MAX_PIECES:
            self._clear()
        rows, ends = self._look_up(sentences)
        self._learn(rows)
        lengths = self._of_rows.lengths[rows]
        last = np.cumsum(lengths)
        begin = self._of_rows.starts[rows] - (last - lengths)
        ids = self._pool[np.arange(last[-1]) + np.repeat(begin, lengths)]
        sentence_ends = last[ends]
        sentence_lengths = np.diff(sentence_ends, prepend=0)
        begins = np.concatenate([[0], ends[:-1] + 1])
        sums = np.add.reduceat(self._of_rows.sums[rows], begins)
        wrong = sums >= np.minimum.reduceat(self._of_rows.bears[rows], begins)
        hollow = self._of_rows.hollow[rows]
        if hollow.any():
            counted = np.add.reduceat((lengths > 0) & ~hollow, begins, dtype=np.int64)
            wrong |= (counted == 0) & (sentence_lengths > 0)
        if wrong.any():
            return self._replace(sentences, ids, sentence_ends, sentence_lengths, wrong)
        return ids, sentence_lengths

    def _look_up(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Rows of all words, and the position of the separator that ends each sentence."""
        words = (f" {SEPARATOR} ".join(sentences) + f" {SEPARATOR}").split()
        rows = np.fromiter(map(self._rows.__getitem__, words), dtype=np.int64, count=len(words))
        ends = np.flatnonzero(rows == 0)
        if len(ends) != len(sentences):
            return self._look_up([sentence.replace(SEPARATOR, " ") for sentence in sentences])
        return rows, ends

    def _learn(self, rows: Ints) -> None:
        """Make room for new words, and segment those that were met often enough by now."""
        new = len(self._rows) - len(self._words)
        if new:
            self._words.extend(islice(self._rows, len(self._words), None))
            self._met = np.concatenate([self._met, np.zeros(new, dtype=np.int64)])
            self._of_rows.append(_Table.empty(new))
        waiting = rows[self._met[rows] < self._judged_at]
        if not len(waiting):
            return
        np.add.at(self._met, waiting, 1)
        due = np.unique(waiting[self._met[waiting] >= self._judged_at])
        kept = [len(self._words[row]) <= LONGEST_WORD for row in due]
        due = due[kept]
        if len(due):
            self._of_rows.put(due, self._put_together([self._words[row] for row in due]))

    def _put_together(self, words: list[str]) -> _Table:
        """Raw words from prepared ones: "house", "House," and "(house)" share one."""
        prepared = [self._prepare(word).split(" ") for word in words]
        counts = np.fromiter(map(len, prepared), np.int64, count=len(prepared))
        flat = chain.from_iterable(prepared)
        parts = np.fromiter(map(self._parts.__getitem__, flat), np.int64, count=int(counts.sum()))
        new = list(islice(self._parts, len(self._of_parts.sums), None))
        if new:
            self._of_parts.append(self._segment_new(new))
        table, begins = self._of_parts, np.cumsum(counts) - counts
        each = table.lengths[parts]
        last = np.cumsum(each)
        flat_starts = np.repeat(table.starts[parts] - (last - each), each)
        lengths = np.add.reduceat(each, begins)
        counted = np.add.reduceat((each > 0) & ~table.hollow[parts], begins, dtype=np.int64)
        found = _Table(
            starts=len(self._pool) + np.cumsum(lengths) - lengths,
            lengths=lengths,
            sums=np.add.reduceat(table.sums[parts], begins),
            bears=np.minimum.reduceat(table.bears[parts], begins),
            hollow=(counted == 0) & (lengths > 0),
        )
        self._pool = np.concatenate([self._pool, self._pool[np.arange(last[-1]) + flat_starts]])
        return found

    def _segment_new(self, texts: list[str]) -> _Table:
        """Pieces of prepared words, put into the pool, and how certain they are."""
        found = self._segment(texts)
        lengths = np.fromiter(map(len, found), np.int64, count=len(found))
        ids = np.fromiter(chain.from_iterable(found), np.int64, count=int(lengths.sum()))
        ends = np.cumsum(lengths)

        def of_words(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.diff(np.concatenate([[0.0], np.cumsum(values)])[np.append(0, ends)])

        silent = of_words(np.isin(ids, self._silent).astype(np.float64))
        if self._model.model_type != UNIGRAM:
            sums, bears = np.zeros(len(texts)), np.full(len(texts), np.inf)
        elif self._leads is None or len(texts) < MANY_WORDS:
            judged = [self._judge(text, row) for text, row in zip(texts, found, strict=True)]
            sums, bears = np.array(judged).T
        else:
            sums, bears = self._leads(texts)
            # What is left over must be a number of unknown characters, 0 without an unknown piece.
            unknown = (sums - of_words(self._scores[ids])) / self._model.unknown_score
            agrees = (np.abs(unknown - unknown.round()) < 1e-6) & (
                (unknown.round() > 0) == (of_words(ids == self._unknown) > 0)
            )
            characters = np.fromiter(map(len, texts), np.int64, count=len(texts)) + 1
            bears = np.where(agrees, bears / (ROUNDING * characters), 0.0)
            sums, bears = np.abs(sums), np.where(lengths > 0, bears, np.inf)
        starts = len(self._pool) + ends - lengths
        self._pool = np.concatenate([self._pool, ids])
        return _Table(starts, lengths, sums, bears, (lengths > 0) & (silent == lengths))

    def _judge(self, text: str, ids: list[int]) -> tuple[float, float]:
        """|Score| of a word, and up to which |score| of a sentence its pieces are certain."""
        if not ids:
            return 0.0, np.inf
        rivals = self._best_two(text)
        scores, unknown = zip(*(self._score(*rival) for rival in rivals), strict=True)
        if rivals[0][0] != ids or not np.isfinite(scores).all() or len(set(unknown)) > 1:
            return 0.0, 0.0
        most_pieces = sum(map(len, rivals[0][1]))  # no rival has more pieces than characters
        lead = scores[0] - scores[1] if len(scores) > 1 else np.inf
        return abs(scores[0]), lead / (ROUNDING * most_pieces)

    def _score(self, ids: list[int], texts: list[str]) -> tuple[float, int]:
        """Score of a segmentation, and its number of unknown characters."""
        model, total, unknown = self._model, 0.0, 0
        for piece, text in zip(ids, texts, strict=True):
            if piece == self._unknown:
                unknown += len(text)  # sentencepiece joins unknown neighbours
            elif model.types[piece] == NORMAL:
                total += model.scores[piece]
            else:
                return np.nan, 0  # symbols of the user and bytes are scored in other ways
        return total + unknown * model.unknown_score, unknown

    def _replace(
        self,
        sentences: Sequence[str],
        ids: Ints,
        ends: Ints,
        lengths: Ints,
        wrong: NDArray[np.bool_],
    ) -> tuple[Ints, Ints]:
        """Put what sentencepiece says of whole sentences in place of the wrong ones."""
        numbers = np.flatnonzero(wrong).tolist()
        found = self._whole([sentences[number] for number in numbers])
        parts, done = [], 0
        for number, row in zip(numbers, found, strict=True):
            parts += [ids[done : ends[number] - lengths[number]], np.array(row, dtype=np.int64)]
            done = ends[number]
            lengths[number] = len(row)
        return np.concatenate([*parts, ids[done:]]), lengths

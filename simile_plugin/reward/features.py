"""Faults of a translation as features: twelve numbers >= 0, all 0 for the reference itself,
and a thirteenth where the source is known.

Words are lowercased runs of letters and digits, or one mark; where a script has no spaces, each
letter is one. The learned reward is a weighted sum of them (`learned.py`); they are counted for B
lists of N hypotheses at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, normalize, pad

from simile_plugin.encoder import JOINERS, RewardEncoder, split_words
from simile_plugin.reward.ngrams import TokenWords
from simile_plugin.reward.simile import SIMILE_ALPHA
from simile_plugin.reward.source import source_scores

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

SOURCE = "source"  # the thirteenth: by how much the reference is nearer to the source
FEATURES = {
    "sim": "1 - SIM",
    "sim_root": "square root of 1 - SIM",
    "pairs_p": "square root of the share of pairs of words that have no like in the reference",
    "pairs_r": "square root of the share of the reference's pairs that have no like",
    "breaks": "share of matched words whose next matched word does not follow in the reference",
    "repeated": "bigrams said again, beyond the reference's, as a share of all bigrams",
    "unknown": "log(1 + words beyond the reference's that are in no text)",
    "common_missing": "square root of the share of the reference's common words that lack",
    "negation": "log(1 + negations too many or too few)",
    "number": "log(1 + words with a digit too many or too few)",
    "long": "log of the ratio of lengths where it is longer than the reference",
    "short": "log of the ratio of lengths where it is shorter",
}
NEGATIONS = (
    *("not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without"),
    *("cannot", "t"),  # the t of "don't", see WordTable
)
NOT = "'t"  # of "don't"; the t of T-shirt and of French t'aime is another word
# Of English text 5 to 14 % of the words are these, of six other languages 0.1 % at most.
ENGLISH, ENGLISH_SHARE = ("the", "of", "and"), 0.01
COMMON_WORDS = 100
UNKNOWN, COMMON, NEGATION, NUMBER = range(4)  # columns of facts about a word
NEARBY = 0.02  # what a match loses from one end of the sentence to the other: breaks ties
ALMOST = 0.999  # likeness of different words at most: only equal words are 1
ROUNDING = 1e-5  # float32 cosines of equal vectors differ from 1 by less
MATCHED_WORDS = 512  # of a sentence; those beyond are counted, but not matched
CELLS = 2**15  # pairs of words that are matched at once: little padding, and it stays in the cache
KINDS = 2**16  # distinct words that are matched at once: their vectors; ordinary lists have fewer
KNOWN_WORDS = 2**16  # words that are remembered: 79 MB of vectors of 300 numbers

_ASCII_WORDS = re.compile(r"'t\b|[0-9a-z]+|[^0-9a-z\s]").findall
_AROUND_NOT = re.compile(r"('t)\b").split
_PLAIN_MARKS = str.maketrans(dict(zip("’‘“”„–—", '\'\'"""--', strict=True)))


def words_of(text: str) -> list[str]:
    """Split into lowercased words: runs of letters, digits and accents, NOT, or one mark each.

    Each letter is a word in scripts without spaces, see `encoder.split_words`.
    """
    text = text.lower()
    if text.isascii():
        return _ASCII_WORDS(text)
    text = unicodedata.normalize("NFKC", text).translate(_PLAIN_MARKS).lower()
    parts = _AROUND_NOT(" ".join(split_words(text)))
    return [word for part in parts for word in ([part] if part == NOT else _runs(part))]


def _runs(text: str) -> list[str]:
    found, run = [], ""
    for character in text:
        if (
            character.isalnum()
            or unicodedata.category(character)[0] == "M"
            or (run and character in JOINERS)
        ):
            run += character
            continue
        found += [run, character]
        run = ""
    return [word for word in (*found, run) if word and not word.isspace()]


@dataclass(frozen=True)
class Lexicon:
    """Words of a language that the features know.

    Attributes:
        known: words that cost nothing: all that the texts of the fit hold.
        common: the commonest of them.
        negations: words that say no; none where they are not known, as of other languages.
    """

    known: frozenset[str]
    common: frozenset[str]
    negations: frozenset[str] = frozenset(NEGATIONS)


def make_lexicon(texts: Iterable[Sequence[str]]) -> Lexicon:
    """Collect all words of some files of sentences, and the COMMON_WORDS commonest.

    Common is what is frequent in at least half of the files (by the median of the shares), so
    that a name which one corpus repeats is none of them. Only words that begin with a letter count.
    Negations are English ones, if the text is English.
    """
    shares: dict[str, list[float]] = {}
    files = words = english = 0
    for lines in texts:
        counts = Counter(word for line in lines for word in words_of(line) if word[0].isalpha())
        files += 1
        words += counts.total()
        english += sum(counts[word] for word in ENGLISH)
        for word, count in counts.items():
            shares.setdefault(word, []).append(count / counts.total())
    middle = {
        word: float(np.median([*found, *[0.0] * (files - len(found))]))
        for word, found in shares.items()
        if 2 * len(found) >= files
    }
    ranked = sorted(middle, key=lambda word: (-middle[word], word))
    negations = frozenset(NEGATIONS if english > ENGLISH_SHARE * words else ())
    return Lexicon(frozenset(shares), frozenset(ranked[:COMMON_WORDS]), negations)


class WordTable:
    """Words with their vectors and facts, computed once and remembered."""

    def __init__(self, encoder: RewardEncoder, lexicon: Lexicon) -> None:
        self.encoder, self.lexicon = encoder, lexicon
        # Rewards on disk name the t of "don't", not NOT.
        self.negations, self.common = (
            {NOT if word == "t" else word for word in words}
            for words in (lexicon.negations, lexicon.common)
        )
        self.words = TokenWords(words_of)
        self.filled = 1  # ids begin at 1
        self.vectors = torch.zeros(4096, encoder.dim)  # of length 1, or 0 where there is none
        self.facts = np.zeros((4096, 4))
        self.characters = np.zeros(4096, dtype=np.int64)

    def count(
        self,
        hyps: Sequence[Sequence[str]],
        refs: Sequence[str],
        sim: Tensor,
        srcs: Sequence[str] | None = None,
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the features of B lists of N hypotheses, each reference counted once.

        Args:
            sim: (B, N) cosines of the encoder.
            srcs: B sources; without them the last feature is left out.

        Returns:
            (B, N, 12 or 13) in the order of FEATURES, SOURCE last, finite and >= 0; all 0 where
            the strings are equal and not empty. And (B, N), whether either side has no word.
        """
        size, candidates = len(refs), len(hyps[0]) if hyps else 0
        if not size * candidates:
            shape = size, candidates
            return np.zeros((*shape, len(FEATURES) + (srcs is not None))), np.zeros(
                shape, dtype=bool
            )
        ids, lengths = self.flat([*chain.from_iterable(hyps), *refs])
        lists = matched = _lists(ids, lengths, size)
        if lengths.max() > MATCHED_WORDS:
            matched = _lists(*_beginnings(ids, lengths), size)
        found = _matches(self, matched) | _counts(self, lists) | _lengths(self, lists)
        apart = 1 - sim.double().cpu().numpy()  # last: a GPU may still be at work on them
        apart[
            np.array([[hyp == ref for hyp in row] for row, ref in zip(hyps, refs, strict=True)])
        ] = 0
        apart[apart < ROUNDING] = 0
        found |= {"sim": apart, "sim_root": np.sqrt(apart)}
        if srcs is not None:
            lists_of = [[*row, ref] for row, ref in zip(hyps, refs, strict=True)]
            near = source_scores(lists_of, srcs, self.encoder, SIMILE_ALPHA).double().cpu().numpy()
            found[SOURCE] = np.maximum(near[:, -1:] - near[:, :-1], 0)
        features = np.stack(
            [
                found[name].reshape(size, candidates)
                for name in (*FEATURES, SOURCE)
                if name in found
            ],
            axis=-1,
        )
        features[features < ROUNDING] = 0
        empty = lists.hyp_lengths.reshape(size, candidates) == 0
        return features, empty | (lists.ref_lengths == 0)[:, None]

    def flat(self, sentences: Sequence[str]) -> tuple[Ids, Ids]:
        """Return ids of all words (P,), comparable until the next call, and each length (U,)."""
        if self.words.trim(KNOWN_WORDS):
            self.filled = 1
        found = self.words.flat(sentences)
        self._fill()
        return found

    def _fill(self) -> None:
        tokens = self.words.tokens
        end = len(tokens) + 1
        if end == self.filled:
            return
        new = [*islice(reversed(tokens), end - self.filled)][::-1]
        while end > len(self.vectors):
            self.vectors = torch.cat([self.vectors, torch.zeros_like(self.vectors)])
            self.facts = np.concatenate([self.facts, np.zeros_like(self.facts)])
            self.characters = np.concatenate([self.characters, np.zeros_like(self.characters)])
        vectors = self.encoder.embed_text(new).cpu()
        self.vectors[self.filled : end] = normalize(vectors, eps=1e-9)
        self.facts[self.filled : end] = [self._facts(word) for word in new]
        self.characters[self.filled : end] = [len(word) for word in new]
        self.filled = end

    def _facts(self, word: str) -> tuple[bool, bool, bool, bool]:
        lexicon = self.lexicon
        return (
            word[0].isalpha() and word not in lexicon.known,
            word in self.common,
            word in self.negations,
            any(map(str.isdigit, word)),
        )


@dataclass(frozen=True)
class _Lists:
    """Words of B references and of their B lists of N hypotheses.

    Attributes:
        hyp, ref: every word as its number among the distinct words of its list, flat.
        hyp_ids, ref_ids: as its row of the table.
        hyp_lengths, ref_lengths: (B * N,) and (B,).
        ids, kinds: the distinct words' rows of the table, list by list, and how many (B,).
    """

    hyp: Ids
    ref: Ids
    hyp_ids: Ids
    ref_ids: Ids
    hyp_lengths: Ids
    ref_lengths: Ids
    ids: Ids
    kinds: Ids

    @property
    def shape(self) -> tuple[int, int]:
        """Return B and N."""
        return len(self.ref_lengths), len(self.hyp_lengths) // len(self.ref_lengths)

    @property
    def width(self) -> int:
        """Return the most distinct words of a list, at least 1."""
        return max(1, int(self.kinds.max()))


def _lists(ids: Ids, lengths: Ids, size: int) -> _Lists:
    """Sort words (P,) and lengths (U,) of `size` lists of hypotheses, then of the references."""
    hyp_lengths, ref_lengths = np.split(lengths, [-size])
    sizes = hyp_lengths.reshape(size, -1).sum(1)
    lists = np.arange(size)
    own = np.concatenate([lists.repeat(sizes), lists.repeat(ref_lengths)])
    most = int(ids.max(initial=0)) + 1
    keys, numbers = np.unique(own * most + ids, return_inverse=True)
    kinds = np.bincount(keys // most, minlength=size)
    numbers -= (kinds.cumsum() - kinds)[own]
    cut = int(sizes.sum())
    return _Lists(
        *(numbers[:cut], numbers[cut:], ids[:cut], ids[cut:]),
        *(hyp_lengths, ref_lengths, keys % most, kinds),
    )


def _beginnings(ids: Ids, lengths: Ids) -> tuple[Ids, Ids]:
    """Return the first MATCHED_WORDS of each sentence, as ids (P,) and lengths (U,)."""
    places = np.arange(len(ids)) - (lengths.cumsum() - lengths).repeat(lengths)
    return ids[places < MATCHED_WORDS], np.minimum(lengths, MATCHED_WORDS)


def _counts(table: WordTable, lists: _Lists) -> dict[str, Floats]:
    """Features of words too many, missing or repeated, whatever their order."""
    size, candidates = lists.shape
    width, rows = lists.width, size * candidates
    hyp_rows = np.arange(rows).repeat(lists.hyp_lengths)
    ref_rows = np.arange(size).repeat(lists.ref_lengths)
    starts = lists.kinds.cumsum() - lists.kinds
    in_ref = np.bincount(starts[ref_rows] + lists.ref, minlength=len(lists.ids))
    keys = hyp_rows * width + lists.hyp

    def compare(fact: int) -> tuple[Ids, Ids, Ids]:
        """Words with a fact: too many, too few, and those of the reference, (rows,) each."""
        # Only they are sorted: no table of all words by all hypotheses.
        told = keys[table.facts[lists.hyp_ids, fact] > 0]
        own = np.bincount(told // width, minlength=rows)
        whole = np.bincount(ref_rows[table.facts[lists.ref_ids, fact] > 0], minlength=size)
        distinct, in_hyp = np.unique(told, return_counts=True)
        of, words = np.divmod(distinct, width)
        shared = np.minimum(in_hyp, in_ref[starts[of // candidates] + words])
        both = np.bincount(of, shared, rows).astype(np.int64)
        whole = whole.repeat(candidates)
        return own - both, whole - both, whole

    _, common_few, common = compare(COMMON)
    repeats = _repeats(hyp_rows, lists.hyp, width, rows)
    allowed = _repeats(ref_rows, lists.ref, width, size).repeat(candidates)
    return {
        "repeated": np.maximum(repeats - allowed, 0) / np.maximum(lists.hyp_lengths - 1, 1),
        "unknown": np.log1p(compare(UNKNOWN)[0]),
        "common_missing": np.sqrt(common_few / np.maximum(common, 1)),
        "negation": np.log1p(np.add(*compare(NEGATION)[:2])),
        "number": np.log1p(np.add(*compare(NUMBER)[:2])),
    }


def _repeats(rows: Ids, words: Ids, width: int, size: int) -> Ids:
    """Count the bigrams of each row that stood in it before: (size,)."""
    same = rows[1:] == rows[:-1]
    keys = np.sort(((rows[:-1] * width + words[:-1]) * width + words[1:])[same])
    again = keys[1:][keys[1:] == keys[:-1]]
    return np.bincount(again // width**2, minlength=size)


def _lengths(table: WordTable, lists: _Lists) -> dict[str, Floats]:
    """Features of length, in characters with one space a word."""
    size, candidates = lists.shape
    hyp_rows = np.arange(size * candidates).repeat(lists.hyp_lengths)
    ref_rows = np.arange(size).repeat(lists.ref_lengths)
    hyp = np.bincount(hyp_rows, table.characters[lists.hyp_ids] + 1, size * candidates)
    ref = np.bincount(ref_rows, table.characters[lists.ref_ids] + 1, size)
    ratio = np.log((hyp + 1) / (ref + 1).repeat(candidates))
    return {"long": np.maximum(ratio, 0), "short": np.maximum(-ratio, 0)}


def _matches(table: WordTable, lists: _Lists) -> dict[str, Floats]:
    """Features of soft matching, for lists of like length together, so that little is padding."""
    size, candidates = lists.shape
    found = {name: np.empty((size, candidates)) for name in ("pairs_p", "pairs_r", "breaks")}
    longest = lists.hyp_lengths.reshape(size, -1).max(1)
    order = np.argsort(longest + lists.ref_lengths, kind="stable")
    cells = candidates * np.maximum(longest * lists.ref_lengths, 1)
    for some in np.split(order, _ends(cells[order], lists.kinds[order])):
        for name, values in _match(table, lists, some).items():
            found[name][some] = values.numpy()
    return found


def _ends(cells: Ids, kinds: Ids) -> list[int]:
    """Return where groups of lists end: at CELLS pairs of words, or KINDS words with padding."""
    steps = np.diff(cells.cumsum() // CELLS, prepend=0)
    ends, start, width = [], 0, 0
    for place, (new, own) in enumerate(zip(steps.tolist(), kinds.tolist(), strict=True)):
        width = max(width, own)
        if place and (new or (place + 1 - start) * width > KINDS):
            ends.append(place)
            start, width = place, own
    return ends


def _padded(values: Ids, lengths: Ids, rows: Ids, fill: int) -> Ids:
    """Return some rows of flat ragged values as a matrix."""
    starts = (lengths.cumsum() - lengths)[rows, None]
    columns = np.arange(max(1, int(lengths[rows].max())))
    inside = columns < lengths[rows, None]
    return np.where(inside, np.append(values, fill)[np.where(inside, starts + columns, -1)], fill)


def _match(table: WordTable, lists: _Lists, some: Ids) -> dict[str, Tensor]:
    """pairs_p, pairs_r and breaks of the lists `some` (G,): (G, N) each.

    s_ij = max(0, cosine of two words), ALMOST at most, 1 for equal words, less
    NEARBY * |i / |h| - j / |r|| for words at different places.
    """
    size, candidates = len(some), lists.shape[1]
    rows = (some[:, None] * candidates + np.arange(candidates)).ravel()
    kinds = _padded(lists.ids, lists.kinds, some, 0)
    width = kinds.shape[1]
    hyp = _padded(lists.hyp, lists.hyp_lengths, rows, width)
    ref = _padded(lists.ref, lists.ref_lengths, some, -1)
    ref_ids = np.take_along_axis(kinds, np.maximum(ref, 0), 1)
    words, ref_words = (embedding(torch.from_numpy(i), table.vectors) for i in (kinds, ref_ids))
    cosines = torch.bmm(words, ref_words.transpose(1, 2))
    cosines.clamp_(0, ALMOST)
    cosines.masked_fill_(torch.from_numpy(np.arange(width)[:, None] == ref[:, None]), 1.0)
    cosines.masked_fill_(torch.from_numpy(ref[:, None] < 0), -1.0)
    cosines = pad(cosines, (0, 0, 0, 1), value=-1.0)  # the row of padding
    places = hyp.reshape(size, -1) + np.arange(size)[:, None] * (width + 1)
    s = cosines.flatten(0, 1).index_select(0, torch.from_numpy(places.ravel()))
    # Hypotheses last: what is done for each pair of places is then done for all of them at once.
    s = s.view(*hyp.shape, ref.shape[1]).permute(1, 2, 0).contiguous()
    h = torch.from_numpy(lists.hyp_lengths[rows])
    r = torch.from_numpy(lists.ref_lengths[some].repeat(candidates))
    i = torch.arange(len(s))[:, None] / h.clamp(min=1)
    j = torch.arange(s.shape[1])[:, None] / r.clamp(min=1)
    s -= NEARBY * (i[:, None] - j).abs_()
    found = _match_features(s, h, r)
    return {name: values.view(size, candidates) for name, values in found.items()}


def _match_features(s: Tensor, h: Tensor, r: Tensor) -> dict[str, Tensor]:
    """From likeness s (T, Q, S), below 0 at padding, and lengths h and r (S,): (S,) each."""
    best_h, best_r = s.amax(1), s.amax(0)
    # s equals both, above 0, where it reaches the larger of them: one comparison, not three.
    mutual = s >= torch.maximum(best_h[:, None], best_r).clamp_(min=torch.finfo(s.dtype).tiny)
    pairs = torch.minimum(s[:-1, :-1], s[1:, 1:])
    p, q = _unlike(best_h, h), _unlike(best_r, r)
    if pairs.numel():
        single = (h < 2) | (r < 2)
        p = torch.where(single, p, _unlike(pairs.amax(1), h - 1))
        q = torch.where(single, q, _unlike(pairs.amax(0), r - 1))
    found = _count(mutual)
    kept = _count(mutual[:-1, :-1] & mutual[1:, 1:])
    breaks = torch.where(found > 1, 1 - kept / (found - 1).clamp(min=1), 0.0)
    return {"pairs_p": p.sqrt(), "pairs_r": q.sqrt(), "breaks": breaks}


def _count(true: Tensor) -> Tensor:
    """Count how many of the first two dimensions are true, (T, Q, S) -> (S,)."""
    return true.sum(0, dtype=torch.int16).sum(0, dtype=torch.int32)  # narrow sums are fast ones


def _unlike(best: Tensor, count: Tensor) -> Tensor:
    """Return 1 - mean of the best likenesses (count, S), 0 where there is none."""
    return (1 - best.clamp(min=0).sum(0) / count.clamp(min=1)).clamp(min=0)

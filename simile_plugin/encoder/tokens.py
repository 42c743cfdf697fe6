"""The tokens of an encoder: sentencepiece pieces, words, or character n-grams.

All have one interface, `Tokenizer`. Ids of words and n-grams begin at 1; 0 is the unknown token,
which counts in the length of a sentence and is left out of its vector. Several tokenisers side by
side, for mixtures of encoders, are one tokeniser too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder.segmenter import Preprocessing, Segmenter, Tokenizer
from simile_plugin.encoder.word_cache import Ints, Words
from simile_plugin.files import InputError

NGRAM_ORDERS = {"trigram": (3,), "ngram": (2, 3, 4)}  # TRIGRAM's, and CHARAGRAM's
TOKENS = ("sp", "word", *NGRAM_ORDERS)
SENTENCEPIECE = "sentencepiece.model"
TYPES = {"sp": "pieces", "word": "words", "trigram": "trigrams", "ngram": "n-grams"}
VOCABULARY = "vocabulary.json"
MIX = "+"  # between the parts of a mixture
PAD = " "  # stands before and after a sentence whose n-grams are taken


class _Vocabulary(Tokenizer):
    """The file and the ids, alike for words and n-grams."""

    def __init__(self, types: Sequence[str], preprocessing: Preprocessing) -> None:
        self.types = list(types)
        self.preprocessing = preprocessing

    @property
    def files(self) -> dict[str, bytes]:
        return {VOCABULARY: _vocabulary_json(self.name, self.types)}

    @property
    def texts(self) -> list[str | None]:
        return [None, *self.types]

    def __len__(self) -> int:
        return 1 + len(self.types)


class WordTokenizer(_Vocabulary):
    """The words of the preprocessed sentence; with --split-punctuation marks are words, too.

    Args:
        types: the known words, distinct.
        preprocessing: applied to each sentence first; it must do the same to each word alone.
    """

    name, unit = "word", "words"

    def __init__(self, types: Sequence[str], preprocessing: Preprocessing) -> None:
        super().__init__(types, preprocessing)
        self._id = {word: number for number, word in enumerate(self.types, 1)}
        self._words = Words(self._ids_of)

    def __reduce__(self) -> tuple[type[WordTokenizer], tuple[list[str], Preprocessing]]:
        return WordTokenizer, (self.types, self.preprocessing)

    def encode_flat(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the ids of all words (P,), and where each sentence begins among them, (U,)."""
        ids, lengths = self._words.flat(sentences)
        return ids, np.cumsum(lengths) - lengths

    def _ids_of(self, raw: list[str]) -> list[list[int]]:
        prepared = self.preprocessing.apply_all(raw)
        return [[self._id.get(word, self.unk_id) for word in text.split()] for text in prepared]


class NgramTokenizer(_Vocabulary):
    """Character n-grams over the preprocessed sentence with a space before and after it.

    Its length counts characters, spaces included: a sentence of L characters has L trigrams, and
    (L + 1) + L + (L - 1) n-grams of 2 to 4 characters.

    Args:
        name: "trigram" or "ngram", see NGRAM_ORDERS.
        types: the known n-grams, distinct.
        preprocessing: applied to each sentence first.

    Raises:
        InputError: for an n-gram of a wrong length, or too many different characters.
    """

    unit = "characters"

    def __init__(self, name: str, types: Sequence[str], preprocessing: Preprocessing) -> None:
        super().__init__(types, preprocessing)
        self.name = name
        self.orders = NGRAM_ORDERS[name]
        wrong = [text for text in self.types if len(text) not in self.orders]
        if wrong:
            raise InputError(f"got {wrong[0]!r}, expected n-grams of {self.orders} characters")
        # n-grams are looked up as 64-bit integers: the numbers of their characters side by side,
        # counted from 1; a character that no known n-gram has is 0.
        self._bits = 64 // max(self.orders)
        alphabet = np.unique(_codepoints(self.types))
        if len(alphabet) >= 1 << self._bits:
            raise InputError(
                f"got {len(alphabet)} different characters, expected fewer than "
                f"{1 << self._bits} for n-grams of up to {max(self.orders)}"
            )
        self._number = np.zeros(0x110000, dtype=np.uint64)
        self._number[alphabet] = np.arange(1, len(alphabet) + 1, dtype=np.uint64)
        self._known = {}
        lengths = np.fromiter(map(len, self.types), np.int64, count=len(self.types))
        for order in self.orders:
            numbers = np.flatnonzero(lengths == order)
            points = _codepoints([self.types[number] for number in numbers])
            codes = self._codes(points, order)[::order]
            by_code = np.argsort(codes)
            self._known[order] = codes[by_code], numbers[by_code] + 1

    def __reduce__(self) -> tuple[type[NgramTokenizer], tuple[str, list[str], Preprocessing]]:
        return NgramTokenizer, (self.name, self.types, self.preprocessing)

    def encode_flat(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Return ids (P,) by sentence, within it by the n-grams' length, and starts (U,)."""
        prepared = map(self.preprocessing.apply, sentences)
        padded = [f"{PAD}{sentence}{PAD}" if sentence else "" for sentence in prepared]
        points = _codepoints(padded)
        lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded))
        starts = np.cumsum(lengths) - lengths
        counts = np.array([np.maximum(lengths - order + 1, 0) for order in self.orders])
        totals = counts.sum(0)
        offsets = np.cumsum(totals) - totals
        ids = np.zeros(int(totals.sum()), dtype=np.int64)
        done = np.zeros_like(totals)
        for order, count in zip(self.orders, counts, strict=True):
            codes = self._codes(points, order)[_ranges(starts, count)]
            ids[_ranges(offsets + done, count)] = self._look_up(codes, order)
            done += count
        return ids, offsets

    def _codes(self, points: NDArray[np.uint32], order: int) -> NDArray[np.uint64]:
        """Return the code of the n-gram that begins at each code point, but for the last n - 1."""
        numbers = self._number[points]
        count = max(0, len(numbers) - order + 1)
        codes = np.zeros(count, dtype=np.uint64)
        for position in range(order):
            codes = (codes << np.uint64(self._bits)) | numbers[position : position + count]
        return codes

    def _look_up(self, codes: NDArray[np.uint64], order: int) -> Ints:
        known, ids = self._known[order]
        if not len(known):
            return np.zeros(len(codes), dtype=np.int64)
        place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[place] == codes, ids[place], self.unk_id)

    def lengths(self, ids: Ints, offsets: Ints) -> Ints:
        """Return the characters (U,) of each sentence."""
        return super().lengths(ids, offsets) // len(self.orders)


class MixedTokenizer(Tokenizer):
    """Several tokenisers side by side: the tokens of the first one, those of the second, ...

    The ids of a part follow those of the parts before it. The length of a sentence is that of the
    first part.

    Args:
        parts: of different kinds, with the same preprocessing.
    """

    def __init__(self, parts: Sequence[Tokenizer]) -> None:
        self.parts = list(parts)
        self.name = MIX.join(part.name for part in parts)
        self.unit = parts[0].unit
        self.preprocessing = parts[0].preprocessing
        self.bounds = np.cumsum([0, *self.sizes])

    def __reduce__(self) -> tuple[type[MixedTokenizer], tuple[list[Tokenizer]]]:
        return MixedTokenizer, (self.parts,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of ids of each part."""
        return tuple(len(part) for part in self.parts)

    @property
    def files(self) -> dict[str, bytes]:
        """The files of all parts, with the part's number before their names."""
        return {
            f"{number}.{name}": content
            for number, part in enumerate(self.parts)
            for name, content in part.files.items()
        }

    @property
    def texts(self) -> list[str | None]:
        """The tokens of all parts by id; None for unknown ones."""
        return [text for part in self.parts for text in part.texts]

    def __len__(self) -> int:
        return sum(self.sizes)

    def encode_flat(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Return ids (P,) by sentence, within it by part, and where each sentence begins, (U,)."""
        of_parts = [part.encode_flat(sentences) for part in self.parts]
        counts = np.array([np.diff(offsets, append=len(ids)) for ids, offsets in of_parts])
        totals = counts.sum(0)
        offsets = np.cumsum(totals) - totals
        result = np.empty(int(totals.sum()), dtype=np.int64)
        done = np.zeros_like(totals)
        for (ids, _), count, bound in zip(of_parts, counts, self.bounds[:-1], strict=True):
            result[_ranges(offsets + done, count)] = ids + bound
            done += count
        return result, offsets

    def known(self, ids: Ints) -> NDArray[np.bool_]:
        """Return a mask (P,) of the ids that are known to their part."""
        result = np.ones(len(ids), dtype=bool)
        for part, begin, end in zip(self.parts, self.bounds[:-1], self.bounds[1:], strict=True):
            within = (ids >= begin) & (ids < end)
            result[within] = part.known(ids[within] - begin)
        return result

    def lengths(self, ids: Ints, offsets: Ints) -> Ints:
        """Return lengths (U,) of the sentences in tokens of the first part."""
        return self.parts[0].lengths(*self._of_first(ids, offsets))

    def surprise(self, sentences: Sequence[str]) -> float | None:
        """Return the surprise of the first part that knows it; None where no part does."""
        values = (part.surprise(sentences) for part in self.parts)
        return next((value for value in values if value is not None), None)

    def counts(self, ids: Ints, offsets: Ints) -> tuple[Ints, Ints]:
        """Return (U,) numbers of tokens and of unknown ones in the first part.

        Only there: a word that is not in the second part's vocabulary can have known pieces.
        """
        return self.parts[0].counts(*self._of_first(ids, offsets))

    def _of_first(self, ids: Ints, offsets: Ints) -> tuple[Ints, Ints]:
        before = np.concatenate([[0], np.cumsum(ids < self.bounds[1])])
        return ids[ids < self.bounds[1]], before[offsets]


def _codepoints(texts: Iterable[str]) -> NDArray[np.uint32]:
    """Return the code points of all texts, concatenated."""
    joined = "".join(texts)
    return np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """Return starts[0], starts[0] + 1, ... (counts[0] of them), starts[1], ..."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places: Ints = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return places


def _vocabulary_json(name: str, types: list[str]) -> bytes:
    return (json.dumps({"tokens": name, "types": types}, ensure_ascii=False) + "\n").encode()


def file_names(name: str) -> list[str]:
    """Return the names of a tokeniser's files, those of a mixture in the order of its parts.

    Raises:
        InputError: for a name that no tokeniser has.
    """
    parts = name.split(MIX)
    if not set(parts) <= set(TOKENS) or len(set(parts)) < len(parts):
        raise InputError(
            f"got {name!r}, expected one of {', '.join(TOKENS)}, or different ones with {MIX} "
            "between them"
        )
    files = [SENTENCEPIECE if part == "sp" else VOCABULARY for part in parts]
    if len(files) == 1:
        return files
    return [f"{number}.{file}" for number, file in enumerate(files)]


def load_tokenizer(
    name: str, files: Mapping[str, bytes], preprocessing: Preprocessing
) -> Tokenizer:
    """Make a tokeniser from its files.

    Args:
        name: see Tokenizer.
        files: content of each of file_names.

    Raises:
        InputError: naming a file that is damaged, or of another kind.
    """
    parts = []
    for kind, file in zip(name.split(MIX), file_names(name), strict=True):
        try:
            parts.append(_load_part(kind, files[file], preprocessing))
        except ValueError as error:
            raise InputError(f"{file}: {error}") from error
    return parts[0] if len(parts) == 1 else MixedTokenizer(parts)


def _load_part(name: str, data: bytes, preprocessing: Preprocessing) -> Tokenizer:
    if name == "sp":
        return Segmenter(data, preprocessing)
    try:
        content = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid JSON ({error})") from error
    if not isinstance(content, dict) or content.get("tokens") != name:
        kind = content.get("tokens") if isinstance(content, dict) else type(content).__name__
        raise InputError(f"tokens: got {kind!r}, expected {name!r}")
    types = content.get("types")
    strings = isinstance(types, list) and all(isinstance(text, str) and text for text in types)
    if not strings or not types or len(set(types)) < len(types):
        raise InputError("types: expected a list of different strings, and none of them empty")
    if name == "word":
        return WordTokenizer(types, preprocessing)
    return NgramTokenizer(name, types, preprocessing)


def types_of(name: str) -> str:
    """Return the plural noun for a tokeniser's ids, for messages."""
    return " and ".join(TYPES[part] for part in name.split(MIX))


def count_vocabulary(
    name: str, sentences: Sequence[str], preprocessing: Preprocessing, vocab_size: int
) -> bytes:
    """Return `vocabulary.json` of the most frequent words or n-grams; ties go to the smaller text.

    Args:
        name: "word", "trigram" or "ngram".
        vocab_size: at most so many ids, with that of the unknown token.

    Raises:
        InputError: if the vocabulary is empty.
    """
    counts: Counter[str] = Counter()
    for sentence in map(preprocessing.apply, sentences):
        if name == "word":
            counts.update(sentence.split())
        elif sentence:
            text = f"{PAD}{sentence}{PAD}"
            for order in NGRAM_ORDERS[name]:
                counts.update(map("".join, zip(*(text[i:] for i in range(order)), strict=False)))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    types = [text for text, _ in ranked[: vocab_size - 1]]
    if not types:
        raise InputError(
            f"--vocab-size {vocab_size}: the vocabulary is empty ({len(sentences)} sentences with "
            f"{len(ranked)} different {name}s); give more text or a larger size"
        )
    return _vocabulary_json(name, types)

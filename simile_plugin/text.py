"""Text on its way to the reward: NMT ids -> plain string -> encoder pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Protocol

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from simile_plugin.piece_model import SPACE_MARK, read_piece_model
from simile_plugin.word_pieces import WordPieces

CONTINUATION = "@@"  # subword-nmt marks a piece that goes on in the next one
# An unknown target token; NFKC leaves it alone, and hypothesis and reference must not match on it.
UNKNOWN_HYP = "\ufffd"
UNKNOWN_REF = "\ufffd\ufffd"


class _PunctuationTable(dict[int, str]):
    """Translation table that sets every punctuation mark and symbol off by spaces."""

    def __missing__(self, codepoint: int) -> str:
        char = chr(codepoint)
        category = unicodedata.category(char)
        if char == SPACE_MARK or category in ("Cc", "Zl", "Zp"):
            value = " "  # control characters and sentencepiece's own mark separate, never score
        else:
            value = f" {char} " if category[0] in "PS" else char
        self[codepoint] = value
        return value


_PUNCTUATION = _PunctuationTable()
_ASCII_TOKENS = re.compile(r"[0-9A-Za-z]+|[!-/:-@\[-`{-~]").findall


@dataclass(frozen=True)
class Preprocessing:
    """What happens to a sentence before sentencepiece sees it; part of an encoder's identity.

    The paper lowercases and tokenises the English side before segmentation (section 3 of
    Wieting et al. 2019); the split by Unicode category needs no language-specific rules.
    """

    lowercase: bool = True
    nfkc: bool = True
    split_punctuation: bool = True

    @property
    def signature(self) -> str:
        """What happens, in the signature of scores."""
        steps = {"nfkc": self.nfkc, "lc": self.lowercase, "punct": self.split_punctuation}
        return "+".join(name for name, done in steps.items() if done) or "raw"

    def apply(self, sentence: str) -> str:
        """Normalise one sentence; the result has single spaces and no edge spaces."""
        if self.split_punctuation and sentence.isascii():
            # The same as below, and several times as fast.
            return " ".join(_ASCII_TOKENS(sentence.lower() if self.lowercase else sentence))
        if self.nfkc:
            sentence = unicodedata.normalize("NFKC", sentence)
        if self.lowercase:
            sentence = sentence.lower()
        if self.split_punctuation:
            sentence = sentence.translate(_PUNCTUATION)
        else:
            sentence = sentence.replace(SPACE_MARK, " ").replace("\0", " ")
        return " ".join(sentence.split())


class Segmenter:
    """Plain sentences -> sentencepiece ids, after preprocessing.

    Words are segmented once and remembered, where that is exact (see `word_pieces`); the ids are
    always those that sentencepiece gives the whole sentence.

    Args:
        model_proto: bytes of a sentencepiece model (kept, so that it can be saved again).
        preprocessing: applied to each sentence first.

    Attributes:
        model: what the sentencepiece model says of itself.
        unk_id: id of the unknown piece.

    Raises:
        ValueError: if the bytes are no sentencepiece model.
    """

    name, unit = "sp", "pieces"  # see encoder.tokens.Tokenizer

    def __init__(self, model_proto: bytes, preprocessing: Preprocessing) -> None:
        self.model_proto = model_proto
        self.preprocessing = preprocessing
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model_proto)
        except RuntimeError as error:
            raise ValueError(f"not a sentencepiece model ({len(model_proto)} bytes)") from error
        self.model = read_piece_model(model_proto)
        self.unk_id = int(self._processor.unk_id())
        self._mark_id = int(self._processor.PieceToId(SPACE_MARK))
        self._words = self._word_pieces() if self.model.segments_words_apart else None

    def _word_pieces(self) -> WordPieces:
        def best_two(prepared: str) -> list[tuple[list[int], list[str]]]:
            ids = self._processor.NBestEncodeAsIds(prepared, nbest_size=2)
            if all(self.unk_id not in row for row in ids):
                return [(row, [pieces[piece] for piece in row]) for row in ids]
            texts = self._processor.NBestEncodeAsPieces(prepared, nbest_size=2)
            return list(zip(ids, texts, strict=True))

        pieces = self.model.pieces

        return WordPieces(
            self.model,
            prepare=self.preprocessing.apply,
            segment=self._processor.EncodeAsIds,
            best_two=best_two,
            whole=self.encode_whole,
        )

    def __len__(self) -> int:
        return int(self._processor.GetPieceSize())

    def __reduce__(self) -> tuple[type[Segmenter], tuple[bytes, Preprocessing]]:
        return Segmenter, (self.model_proto, self.preprocessing)

    @property
    def files(self) -> dict[str, bytes]:
        """The sentencepiece model's bytes by the name of its file."""
        return {"sentencepiece.model": self.model_proto}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of pieces."""
        return (len(self),)

    def known(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which ids (P,) are not the unknown piece."""
        return ids != self.unk_id

    def lengths(self, ids: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Pieces of each sentence, (U,), unknown ones included."""
        return np.diff(offsets, append=len(ids))

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Segment each sentence; one of only white space gives an empty list."""
        ids, offsets = self.encode_flat(sentences)
        flat, ends = ids.tolist(), [*offsets.tolist(), len(ids)]
        return [flat[start:end] for start, end in pairwise(ends)]

    def encode_flat(self, sentences: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Segment sentences into one array, as EmbeddingBag takes it.

        Returns:
            ids (P,) of all pieces, and offsets (U,), where each sentence begins among them.
        """
        if self._words is not None:
            ids, lengths = self._words.encode(sentences)
        else:
            rows = self.encode_whole(sentences)
            lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
            total = int(lengths.sum())
            ids = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=total)
        return ids, np.cumsum(lengths) - lengths

    def encode_whole(self, sentences: Sequence[str]) -> list[list[int]]:
        """Segment each sentence by sentencepiece itself: the slow way, which defines the ids."""
        prepared = [self.preprocessing.apply(sentence) for sentence in sentences]
        rows = self._processor.EncodeAsIds(prepared) if prepared else []
        return [self._without_lone_marks(row) for row in rows]

    def _without_lone_marks(self, row: list[int]) -> list[int]:
        # The bare word mark stands before an unknown word; were it the only known piece, any two
        # sentences of unknown words would have cosine 1.
        if self.unk_id in row and set(row) <= {self.unk_id, self._mark_id}:
            return [self.unk_id] * len(row)
        return row


class TargetDictionary(Protocol):
    """What is used of fairseq's Dictionary."""

    symbols: list[str]

    def pad(self) -> int: ...
    def eos(self) -> int: ...
    def bos(self) -> int: ...
    def unk(self) -> int: ...


def guess_post_process(symbols: Sequence[str]) -> str:
    """Tell from the target vocabulary how its tokens join to words.

    Returns:
        "sentencepiece", "subword_nmt" or "none".
    """
    marked = sum(SPACE_MARK in symbol for symbol in symbols)
    continued = sum(symbol.endswith(CONTINUATION) for symbol in symbols)
    few = max(1, len(symbols) // 100)  # a stray mark in a word vocabulary decides nothing
    if max(marked, continued) < few:
        return "none"
    return "sentencepiece" if marked >= continued else "subword_nmt"


def join_tokens(tokens: Iterable[str], post_process: str) -> str:
    """Undo the NMT segmentation of one sentence (the inverse named by ``post_process``)."""
    if post_process == "sentencepiece":
        return "".join(tokens).replace(SPACE_MARK, " ").strip()
    joined = " ".join(tokens)
    if post_process == "subword_nmt":
        return (joined + " ").replace(CONTINUATION + " ", "").strip()
    return joined


class TargetText:
    """Target ids of the NMT model -> the plain strings that are scored.

    Args:
        dictionary: the task's target dictionary.
        post_process: "auto", "sentencepiece", "subword_nmt" or "none".
        detokenize: applied to each joined string (Moses detokenisation, say), or None.
    """

    def __init__(
        self,
        dictionary: TargetDictionary,
        post_process: str = "auto",
        detokenize: Callable[[str], str] | None = None,
    ) -> None:
        self.symbols = dictionary.symbols
        if post_process == "auto":
            post_process = guess_post_process(self.symbols)
        self.post_process = post_process
        self.detokenize = detokenize
        self.unk = dictionary.unk()
        self.silent = {dictionary.pad(), dictionary.eos(), dictionary.bos()}

    def strings(
        self,
        rows: Iterable[Sequence[int]],
        reference: bool = False,
        tags: frozenset[int] = frozenset(),
    ) -> list[str]:
        """Decode rows of ids; padding, bos and eos are dropped, wherever they stand.

        Args:
            rows: ids of each sentence.
            reference: unknown tokens of a reference never match those of a hypothesis.
            tags: more ids that are dropped.
        """
        silent = self.silent | tags
        unknown = UNKNOWN_REF if reference else UNKNOWN_HYP
        if self.post_process == "sentencepiece":
            unknown = SPACE_MARK + unknown
        sentences = []
        for row in rows:
            tokens = [
                unknown if index == self.unk else self.symbols[index]
                for index in row
                if index not in silent
            ]
            sentence = join_tokens(tokens, self.post_process)
            sentences.append(self.detokenize(sentence) if self.detokenize else sentence)
        return sentences


def moses_detokenizer(language: str) -> Callable[[str], str]:
    """Moses' detokeniser of sacremoses, for bitext that was tokenised by Moses.

    Raises:
        ValueError: if sacremoses is not installed.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise ValueError(
            "--risk-detok moses: the package sacremoses is not installed; "
            "install it (pip install sacremoses) or use --risk-detok none"
        ) from error
    detokenizer = MosesDetokenizer(lang=language)
    return lambda sentence: detokenizer.detokenize(sentence.split())

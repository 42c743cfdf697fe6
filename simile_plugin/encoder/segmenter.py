"""Plain sentences -> preprocessed ones -> sentencepiece's pieces."""

from __future__ import annotations

import itertools
import logging
import re
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, Self

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from simile_plugin.encoder.piece_model import NORMAL, SPACE_MARK, UNIGRAM, read_piece_model
from simile_plugin.encoder.word_cache import Ints, Words, as_rows, flat_rows
from simile_plugin.files import InputError, find_surrogate

logger = logging.getLogger(__name__)


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
_CONTROLS = str.maketrans({code: " " for code in (*range(32), 127) if code != ord("\n")})
# Invisible characters. The first ones separate words, as in sentencepiece's nmt_nfkc; the others
# (soft hyphen, word joiner, directions) stand within words. U+200C and U+200D carry meaning in
# Persian, Hindi, Sinhala and emoji, and stay.
INVISIBLE = str.maketrans(
    dict.fromkeys("\u061c\u200b\u200e\u200f\ufeff", " ")
    | dict.fromkeys("\u00ad\u2060\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
)


@cache
def _tell_invisible(character: str) -> None:
    """Warn once for each character."""
    logger.warning(
        "warning: text has U+%04X, which nobody sees, but this encoder, made by an older version, "
        "scores as a letter or an unknown word; remove it from all text, or train or convert the "
        "encoder again",
        ord(character),
    )


@dataclass(frozen=True)
class Preprocessing:
    """Normalisation of a sentence before its segmentation; part of an encoder's identity.

    The paper lowercases and tokenises the English side before segmentation (section 3 of
    Wieting et al. 2019); the split by Unicode category needs no language-specific rules.
    """

    lowercase: bool = True
    nfkc: bool = True
    split_punctuation: bool = True
    drop_invisible: bool = True  # False for encoders that are older than this choice

    find_invisible = staticmethod(re.compile(f"[{''.join(map(chr, INVISIBLE))}]").search)

    @classmethod
    def of_facts(cls, facts: object) -> Self | None:
        """Make it from :attr:`facts`, of an older version, too; None for any other object."""
        names = {field.name for field in fields(cls)}
        if not isinstance(facts, dict) or not all(type(value) is bool for value in facts.values()):
            return None
        facts = {"drop_invisible": False, **facts}
        return cls(**facts) if set(facts) == names else None

    @property
    def facts(self) -> dict[str, Any]:
        """The choices for files and fingerprints, of an old encoder in its old form."""
        facts = asdict(self)
        if not self.drop_invisible:
            del facts["drop_invisible"]
        return facts

    @property
    def signature(self) -> str:
        """The steps of the normalisation, for the signature of scores."""
        steps = {"nfkc": self.nfkc, "lc": self.lowercase, "punct": self.split_punctuation}
        steps["vis"] = self.drop_invisible
        return "+".join(name for name, done in steps.items() if done) or "raw"

    def apply(self, sentence: str) -> str:
        """Normalise a sentence; the result has single spaces and no edge spaces."""
        if self.split_punctuation and sentence.isascii():
            # The same as below, and several times as fast.
            return " ".join(_ASCII_TOKENS(sentence.lower() if self.lowercase else sentence))
        if seen := self.find_invisible(sentence):
            if self.drop_invisible:
                sentence = sentence.translate(INVISIBLE)
            elif self.nfkc:  # without NFKC, sentencepiece's rules may drop them
                _tell_invisible(seen[0])
        if self.nfkc:
            sentence = unicodedata.normalize("NFKC", sentence)
        if self.lowercase:
            sentence = sentence.lower()
        if self.split_punctuation:
            sentence = sentence.translate(_PUNCTUATION)
        else:
            sentence = sentence.replace(SPACE_MARK, " ").replace("\0", " ")
        return " ".join(sentence.split())

    def apply_all(self, sentences: Sequence[str]) -> list[str]:
        """Normalise many sentences, those of ASCII as one text: twice as fast again."""
        if not self.split_punctuation:
            return [self.apply(sentence) for sentence in sentences]
        plain = iter(self._apply_ascii([text for text in sentences if text.isascii()]))
        return [next(plain) if text.isascii() else self.apply(text) for text in sentences]

    def _apply_ascii(self, sentences: Sequence[str]) -> list[str]:
        text = "\n".join([sentence.replace("\n", " ") for sentence in sentences])
        text = text.translate(_CONTROLS)
        for mark in string.punctuation:
            text = text.replace(mark, f" {mark} ")
        if self.lowercase:
            text = text.lower()
        return [" ".join(line.split()) for line in text.split("\n")]


class Tokenizer:
    """Base of all: sentences -> ids of tokens."""

    name: str  # an element of tokens.TOKENS, or several with + between them
    unit: str  # that `lengths` counts, for the length penalty
    preprocessing: Preprocessing  # applied to each sentence first
    unk_id = 0  # of the unknown token

    def __len__(self) -> int:
        """Return the number of ids."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of ids of each part of a mixture; of other tokenisers a single number."""
        return (len(self),)

    @property
    def texts(self) -> list[str | None]:
        """The token of each id; None for the unknown token."""
        raise NotImplementedError

    @property
    def files(self) -> dict[str, bytes]:
        """Names and contents of its files, which load_tokenizer reads."""
        raise NotImplementedError

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of each sentence, unknown ones included."""
        return as_rows(*self.encode_flat(sentences))

    def encode_flat(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Return all ids (P,), and where each sentence begins among them, (U,)."""
        raise NotImplementedError

    def known(self, ids: Ints) -> NDArray[np.bool_]:
        """Return a mask (P,) of the ids that are no unknown token."""
        mask: NDArray[np.bool_] = ids != self.unk_id
        return mask

    def lengths(self, ids: Ints, offsets: Ints) -> Ints:
        """Return lengths (U,) in the length penalty of sentences as encode_flat gives them."""
        return np.diff(offsets, append=len(ids))

    def surprise(self, sentences: Sequence[str]) -> float | None:
        """Return the distance of sentences from its training text; None where it is not known."""
        return None

    def counts(self, ids: Ints, offsets: Ints) -> tuple[Ints, Ints]:
        """Return (U,) numbers of tokens, and of unknown tokens, of each sentence."""
        tokens = np.diff(offsets, append=len(ids))
        before = np.concatenate([[0], np.cumsum(~self.known(ids))])
        return tokens, before[offsets + tokens] - before[offsets]


class Segmenter(Tokenizer):
    """Plain sentences -> sentencepiece ids, after preprocessing.

    Words are segmented once and remembered, where a word's pieces cannot depend on its neighbours.
    The ids are then those of sentencepiece, unless two segmentations of a word have the same
    score but for rounding: it adds up scores from the sentence's beginning.

    Args:
        model_proto: bytes of a sentencepiece model (kept, so that it can be saved again).
        preprocessing: applied to each sentence first.

    Attributes:
        model: pieces, scores and normaliser of the sentencepiece model.

    Raises:
        InputError: if the bytes are no sentencepiece model.
    """

    name, unit = "sp", "pieces"

    def __init__(self, model_proto: bytes, preprocessing: Preprocessing) -> None:
        self.model_proto = model_proto
        self.preprocessing = preprocessing
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model_proto)
        except RuntimeError as error:
            raise InputError(f"not a sentencepiece model ({len(model_proto)} bytes)") from error
        self.model = read_piece_model(model_proto)
        self.unk_id = int(self._processor.unk_id())
        self._mark_id = int(self._processor.PieceToId(SPACE_MARK))
        self._words = Words(self._rows) if self.model.segments_words_apart else None

    def __len__(self) -> int:
        return int(self._processor.GetPieceSize())

    def __reduce__(self) -> tuple[type[Segmenter], tuple[bytes, Preprocessing]]:
        return Segmenter, (self.model_proto, self.preprocessing)

    @property
    def files(self) -> dict[str, bytes]:
        """The bytes of the sentencepiece model, by the file's name."""
        return {"sentencepiece.model": self.model_proto}

    @property
    def texts(self) -> list[str | None]:
        """The piece of each id; None for the unknown piece."""
        texts: list[str | None] = list(self.model.pieces)
        texts[self.unk_id] = None
        return texts

    def encode_flat(self, sentences: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the ids of all pieces (P,), and where each sentence begins among them, (U,)."""
        if self._words is None:
            ids, lengths = flat_rows(self._rows(sentences))
        else:
            ids, lengths = self._words.flat(sentences)
        self._remove_lone_marks(ids, lengths)
        return ids, np.cumsum(lengths) - lengths

    def surprise(self, sentences: Sequence[str]) -> float | None:
        """Return nats a character of sentences, divided by those expected of the model's text.

        A character that no piece has counts as the least likely piece. About 0.9 to 1.6 for the
        model's language, above 2.3 for others; None where scores are no log-probabilities (BPE).
        """
        normal = np.array([kind == NORMAL for kind in self.model.types])
        if self.model.model_type != UNIGRAM or not normal.any():
            return None
        scores = np.array(self.model.scores)
        sizes = np.array([len(piece) for piece in self.model.pieces])
        share = np.where(normal, np.exp(scores), 0.0)
        usual = -(share * scores).sum() / (share * sizes).sum()
        ids, _ = self.encode_flat(sentences)
        text = "\n".join(self.preprocessing.apply_all(sentences)) + "\n"
        # An unknown piece may be a word of them: its characters are counted.
        letters = {*"".join(itertools.compress(self.model.pieces, normal)), *" \n"}
        foreign = sum(character not in letters for character in text)
        nats = -np.where(normal, scores, 0)[ids].sum() - foreign * scores[normal].min()
        return float(nats / len(text) / usual) if sentences and usual > 0 else None

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            rows: list[list[int]] = self._processor.EncodeAsIds(self.preprocessing.apply_all(texts))
        except TypeError:  # sentencepiece raises it for text that UTF-8 cannot hold
            for text in texts:
                if find_surrogate(text) >= 0:
                    raise InputError(
                        f"got {text[:60]!r}, which has half of a pair of UTF-16; expected text, "
                        "see str.encode(errors='replace')"
                    ) from None
            raise
        return rows

    def _remove_lone_marks(self, ids: Ints, lengths: Ints) -> None:
        # The bare word mark stands before an unknown word. If it counted where it is the only known
        # piece, any two sentences of unknown words would have cosine 1.
        unknown = ids == self.unk_id
        if not unknown.any():
            return
        row_of = np.arange(len(lengths)).repeat(lengths)
        others = np.bincount(row_of[~unknown & (ids != self._mark_id)], minlength=len(lengths))
        some = np.bincount(row_of[unknown], minlength=len(lengths)) > 0
        ids[((others == 0) & some)[row_of]] = self.unk_id

"""The source language of an encoder: its encoder, and usual lengths, copies and pieces.

An encoder that was distilled from another one (`simile distil-encoder`) has a source side: its
teacher, with vectors in the same space. All else is learnt from the distillation's bitext.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from string import punctuation
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from simile_plugin.encoder.piece_model import SPACE_MARK
from simile_plugin.encoder.segmenter import Segmenter, Tokenizer
from simile_plugin.encoder.tokens import MixedTokenizer
from simile_plugin.encoder.unspaced import split_parts, split_words
from simile_plugin.files import InputError

logger = logging.getLogger(__name__)

Floats = NDArray[np.floating]
TARGET, SOURCE, ANY = range(3)  # classes of the naive Bayes, rows of its table
SMOOTHING = 0.5  # added to the count of each piece
USUAL = 0.05  # share of the bitext's targets that count as unusual
# A candidate half-way between usual and a copy of the source, or another language, costs nothing:
# text of another domain than the bitext has more names.
FREE = 0.5
MOST_COPIES = 0.9  # however much the two languages share
# A name of two words translates to itself, and a single word tells little of its language: copies
# are certain from so many bigrams on, and so many characters of usual odds are added to each text.
FEW_BIGRAMS, FEW_CHARACTERS = 2, 10


class SourceEncoder(Protocol):
    """The part of an encoder that a source side uses, see models.RewardEncoder."""

    @property
    def fingerprint(self) -> str:
        """12 hex digits over all that decides the vectors."""

    def embed_counted(self, sentences: Sequence[str]) -> Any:
        """Return vectors (U, D) and lengths (U,) as attributes."""

    def embed_text(self, sentences: Sequence[str]) -> Tensor:
        """Return vectors (U, D)."""


class SourceSide(nn.Module):
    """The source language of an encoder.

    Args:
        encoder: g of source sentences.
        pieces: the target's segmenter.
        mean: (D,) mean unit vector of source sentences, which is near to all of them.
        log_probs: (3, V) log-probabilities of these V pieces in target text, in source text, and in
            text of any language, which has the characters of both.
        length_ratio: the usual |target| / |source|, each in the unit of its encoder: the median.
        usual_copies: the share of a target's word bigrams that stand in its source, too, which
            1 - USUAL of the targets do not exceed.
        usual_odds: the log-odds a character of the target's language that 1 - USUAL of them reach.
    """

    mean: Tensor

    def __init__(
        self,
        encoder: SourceEncoder,
        pieces: Segmenter,
        mean: Tensor,
        log_probs: Tensor,
        length_ratio: float,
        usual_copies: float,
        usual_odds: float,
    ) -> None:
        super().__init__()
        self.encoder, self.pieces = encoder, pieces
        self.register_buffer("mean", mean)
        self.log_probs = log_probs  # on the CPU, where text is: no buffer, which would move
        self.length_ratio, self.usual_copies = length_ratio, usual_copies
        self.usual_odds = usual_odds

    @property
    def facts(self) -> dict[str, Any]:
        """The numbers for `config.json`: all that is no tensor."""
        return {
            "fingerprint": self.encoder.fingerprint,
            "length_ratio": self.length_ratio,
            "usual_copies": self.usual_copies,
            "usual_odds": self.usual_odds,
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that are saved beside the teacher's folder, by name."""
        return {"mean": self.mean, "log_probs": self.log_probs}

    def centred(self, vectors: Tensor) -> Tensor:
        """Return unit source vectors (U, D) less their mean: a text near to all sources gains 0."""
        known = vectors.norm(dim=-1, keepdim=True) > 0  # without a known token: the zero vector
        return torch.where(known, normalize(vectors, eps=1e-9) - self.mean, 0.0)

    def of_language(self, hyps: Sequence[str], srcs: Sequence[str]) -> Tensor:
        """Return (U,) in [0, 1]: 1 for usual sentences of the target's language, 0 for others.

        odds / (FREE * usual odds), between 0 and 1; the odds are log p(h | target) less the larger
        of log p(h | source) and log p(h | any), a character: naive Bayes of pieces. Words that
        stand in the source, too, say nothing: names and numbers.

        Args:
            hyps, srcs: candidates and the source of each.
        """
        texts = [*map(own_words, hyps, srcs)]
        odds = _odds(self.log_probs.numpy(), self.pieces, texts, FEW_CHARACTERS, self.usual_odds)
        return torch.from_numpy(np.clip(odds / (FREE * self.usual_odds), 0, 1)).float()

    def not_copied(self, hyp: str, src: str) -> float:
        """Return 1 for a candidate with few word bigrams of its source, falling to 0 for a copy."""
        free = self.usual_copies + FREE * (1 - self.usual_copies)
        honest = min(1.0, (1 - copied_share(hyp, src)) / (1 - free))
        certain = min(1.0, (len(split_words(src)) - 1) / FEW_BIGRAMS)
        return 1 - certain * (1 - honest)


def own_words(hyp: str, src: str) -> str:
    """Return the words of a candidate that its source does not have.

    If a longer source has them all, in any order, they are no names: all words are returned.
    """
    source = [word.strip(punctuation) for word in split_words(src.lower())]
    known, (parts, space) = {*source}, split_parts(hyp)
    others = space.join(w for w in parts if w.lower().strip(punctuation) not in known)
    return hyp if not others.strip() and len(source) > FEW_BIGRAMS + 1 else others


def copied_share(hyp: str, src: str) -> float:
    """Return the share of the candidate's word bigrams that stand in the source, in [0, 1].

    A single word may be a name, and is no copy.
    """
    bigrams = [*pairwise(split_words(hyp.lower()))]
    known = {*pairwise(split_words(src.lower()))}
    return sum(bigram in known for bigram in bigrams) / max(1, len(bigrams))


def pieces_of(tokenizer: Tokenizer) -> Segmenter:
    """Return the tokeniser of sentencepiece's pieces: the tokeniser itself, or its first part.

    Raises:
        InputError: for a tokeniser of other tokens.
    """
    first = tokenizer.parts[0] if isinstance(tokenizer, MixedTokenizer) else tokenizer
    if not isinstance(first, Segmenter):
        raise InputError(f"tokens: got {tokenizer.name}, expected sp, or sp+ others")
    return first


def learn_source_side(
    target: Tokenizer, source: SourceEncoder, targets: Sequence[str], sources: Sequence[str]
) -> SourceSide:
    """Make a source side from bitext: lengths, copies, and the pieces of both languages.

    Args:
        target: tokeniser of the encoder that gets the source side.
        targets, sources: sentences, line by line.
    """
    pieces = pieces_of(target)
    of_target, of_source = pieces.encode_flat(targets), pieces.encode_flat(sources)
    counts = [
        np.bincount(ids, minlength=len(pieces)) + SMOOTHING for ids, _ in (of_target, of_source)
    ]
    rows = [np.log(row / row.sum()) for row in counts]
    texts = [pieces.preprocessing.apply(text) for text in (*targets, *sources)]
    table = np.stack([*rows, _any_language(pieces.texts, texts)])
    odds = _odds(table, pieces, [*map(own_words, targets, sources)])
    usual_odds = float(np.quantile(odds, USUAL))
    if usual_odds <= 0:
        logger.warning(
            f"{np.mean(odds <= 0):.0%} of the targets look no more like their language than like "
            "any other: as candidates these are worth 0; are both sides what they should be?"
        )
    usual_odds = max(1e-3, usual_odds)
    shares = [copied_share(*pair) for pair in zip(targets, sources, strict=True)]
    copies = min(MOST_COPIES, float(np.quantile(shares, 1 - USUAL)))
    embedded = source.embed_counted(sources)
    lengths = np.maximum(target.lengths(*target.encode_flat(targets)), 1)
    ratio = float(np.median(lengths / embedded.lengths.cpu().clamp(min=1).numpy()))
    mean = normalize(embedded.vectors, eps=1e-9).mean(0)
    return SourceSide(
        source, pieces, mean, torch.from_numpy(table).float(), ratio, copies, usual_odds
    )


def _any_language(pieces: Sequence[str | None], texts: Sequence[str]) -> Floats:
    """Return the log-probability of each piece spelled character by character: (V,).

    A character that no text has gets the probability of a uniform draw: other languages have some.
    """
    counts = Counter(SPACE_MARK + SPACE_MARK.join(" ".join(texts).split()))
    log = {character: np.log(count / counts.total()) for character, count in counts.items()}
    unseen = -np.log(len(counts))
    return np.array([sum(log.get(c, unseen) for c in piece or "\0") for piece in pieces])


def _odds(
    table: Floats, pieces: Segmenter, texts: Sequence[str], few: int = 0, usual: float = 0.0
) -> Floats:
    """Return the log-odds a character of each text for the target's language, (U,).

    Args:
        few, usual: `few` characters of odds `usual` are added to each text.
    """
    ids, offsets = pieces.encode_flat(texts)
    characters = np.array([len(piece or "?") for piece in pieces.texts], dtype=float)
    before = np.pad(np.vstack([table[:, ids], characters[ids]]).cumsum(1), ((0, 0), (1, 0)))
    sums = before[:, np.append(offsets[1:], len(ids))] - before[:, offsets]
    other = np.maximum(sums[SOURCE], sums[ANY])
    odds = (sums[TARGET] - other + few * usual) / np.maximum(sums[-1] + few, 1)
    return np.where(sums[-1] > 0, odds, np.inf)  # a text without words is of no language

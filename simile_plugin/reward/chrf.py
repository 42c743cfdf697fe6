"""chrF and chrF++ as sacreBLEU counts them: statistics of whole lists at once, and their scores.

chrF2 (Popovic 2015) with sacreBLEU's defaults: character n-grams of orders 1 to 6 without white
space, beta 2. chrF++ (Popovic 2017) has word n-grams of orders 1 and 2 beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.reward.ngrams import Ids, TokenWords, common_ngrams

Floats = NDArray[np.float64]

CHAR_ORDER = 6
WORD_ORDER = 2  # chrF++'s; chrF's is 0
BETA = 2
PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
LINES_AT_ONCE = 512
NEWLINE = ord("\n")


def _split_word(word: str) -> tuple[str, ...]:
    """Split off a mark at the end, else one at the beginning; never both."""
    if len(word) > 1 and word[-1] in PUNCTUATION:
        return word[:-1], word[-1]
    if len(word) > 1 and word[0] in PUNCTUATION:
        return word[0], word[1:]
    return (word,)


_WORDS = TokenWords(_split_word)


def list_chrf_statistics(
    hyps: Sequence[Sequence[str]], refs: Sequence[str], word_order: int = 0
) -> Ids:
    """Count n-grams of each candidate, of its reference and in both; each distinct one once.

    Args:
        hyps: B lists of N candidates.
        refs: B references.
        word_order: 0 for chrF, 2 for chrF++.

    Returns:
        (B, N, 3 * (6 + word_order)) in sacreBLEU's order: three numbers for each order of
        characters, then of words.
    """
    shape = len(refs), len(hyps[0]) if hyps else 0, 3 * (CHAR_ORDER + word_order)
    distinct: dict[tuple[int, str], int] = {}
    rows = [
        distinct.setdefault((sentence, hyp), len(distinct))
        for sentence, candidates in enumerate(hyps)
        for hyp in candidates
    ]
    if not rows:
        return np.zeros(shape, dtype=np.int64)
    texts = [*refs, *(hyp for _, hyp in distinct)]
    sentences = np.array([*range(len(refs)), *(sentence for sentence, _ in distinct)])
    counts = [_count(character_ids(texts), sentences, len(refs), CHAR_ORDER)]
    if word_order:
        counts.append(_count(word_ids(texts), sentences, len(refs), word_order))
    return np.concatenate(counts, axis=1)[rows].reshape(shape)


def character_ids(texts: Sequence[str]) -> Ids:
    """Return a number from 1 for each character that is no white space, 0 after each text."""
    joined = "".join(["".join(text.split()) + "\n" for text in texts])
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.int32)
    return np.where(codes == NEWLINE, 0, codes.astype(np.int64) + 1)


def word_ids(texts: Sequence[str]) -> Ids:
    """Return a number from 1 for each word, 0 after each text."""
    _WORDS.trim()
    ids, lengths = _WORDS.flat(texts)
    return np.insert(ids, lengths.cumsum(), 0)


def _count(units: Ids, sentences: Ids, refs: int, order: int) -> Ids:
    """Return the statistics (rows, 3 * order) of the texts that come after the references."""
    matches, totals = common_ngrams(units, sentences, refs, order)
    hyp, ref = totals[refs:], totals[sentences[refs:]]
    # sacreBLEU leaves out the candidate's n-grams of an order that the reference does not have
    hyp = np.where(ref > 0, hyp, 0)
    return np.stack([hyp, ref, matches], axis=2).reshape(len(hyp), -1)


def chrf_statistics(
    outputs: Sequence[Sequence[str]], refs: Sequence[str], word_order: int = 0
) -> NDArray[np.int32]:
    """Return :func:`list_chrf_statistics` of S outputs of N sentences each: (S, N, 18 or 24)."""
    shape = len(outputs), len(refs), 3 * (CHAR_ORDER + word_order)
    stats = np.zeros(shape, dtype=np.int32)
    for start in range(0, len(refs), LINES_AT_ONCE):
        lines = slice(start, start + LINES_AT_ONCE)
        lists = list(zip(*(output[lines] for output in outputs), strict=True))
        stats[:, lines] = list_chrf_statistics(lists, refs[lines], word_order).transpose(1, 0, 2)
    return stats


def corpus_chrf(sums: NDArray[np.floating | np.integer]) -> Floats:
    """chrF = (1 + 4) P R / (4 P + R), P and R averaged over the orders that both sides have.

    Args:
        sums: (..., 18) statistics summed over a corpus, or (..., 24) for chrF++.

    Returns:
        (...) in [0, 100].
    """
    hyp, ref, matches = (sums[..., first::3] for first in range(3))
    both = (hyp > 0) & (ref > 0)
    orders = np.maximum(both.sum(-1), 1)
    precision = np.where(both, matches / np.maximum(hyp, 1), 0).sum(-1) / orders
    recall = np.where(both, matches / np.maximum(ref, 1), 0).sum(-1) / orders
    below = BETA**2 * precision + recall
    above = (1 + BETA**2) * precision * recall
    shares: Floats = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return 100 * shares


def sentence_chrf(stats: Ids) -> Tensor:
    """:func:`corpus_chrf` of each sentence: (...) float32 in [0, 1]."""
    return torch.from_numpy(corpus_chrf(stats) / 100).float()


def chrf_signature(word_order: int = 0) -> str:
    """sacreBLEU's signature of `corpus_chrf`."""
    import sacrebleu

    words = f"nw:{word_order}|space:no|version:{sacrebleu.__version__}"
    return f"nrefs:1|case:mixed|eff:yes|nc:{CHAR_ORDER}|{words}"

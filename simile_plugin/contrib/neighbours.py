"""The texts nearest to given ones: what an encoder takes for similar.

Wieting's thesis, tables 8 and 22 (words and phrases), and 23 (words that training did not have);
the same for sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.contrib.bitext import BLOCK, embed_all
from simile_plugin.encoder import Encoder, RewardEncoder
from simile_plugin.files import InputError

DIGITS = 6  # of the cosines that are compared: in the seventh equal float32 vectors may differ


@dataclass(frozen=True)
class Pool:
    """Distinct texts with a known token, from which neighbours are chosen.

    Attributes:
        texts: (n) as they are shown.
        keys: (n) the same, as they are compared with a query: preprocessed.
        places: (n) line of each in its file, from 1; of words their number.
        vectors: (n, D) unit vectors on the CPU.
    """

    texts: list[str]
    keys: list[str]
    places: list[int]
    vectors: Tensor


@dataclass(frozen=True)
class Neighbour:
    """A text of the pool: its place there, and its cosine with the query, to DIGITS digits."""

    text: str
    place: int
    cosine: float


def nearest_rows(
    queries: Tensor, pool: Tensor, k: int, block: int = BLOCK
) -> tuple[Tensor, Tensor]:
    """The k rows of the pool with the highest inner product, best first; of equals the first.

    Exact: every product is computed, a block at a time, in float64. Products are rounded to DIGITS
    digits, and each with its row makes one integer, product first: such integers have no ties.

    Args:
        queries: (q, D), pool: (n, D) unit vectors.

    Returns:
        products and rows, (q, min(k, n)) each.
    """
    size, k = max(1, len(pool)), min(k, len(pool))
    numbers = torch.empty(len(queries), k, dtype=torch.int64)
    for start in range(0, len(queries), block):
        some = queries[start : start + block].double()
        best = torch.empty(len(some), 0, dtype=torch.int64)
        for begin in range(0, len(pool), block):
            products = some @ pool[begin : begin + block].double().T
            rows = torch.arange(begin, begin + products.shape[1])
            # (c + 1) n - row - 1 puts c first and then the lower row.
            more = ((products * 10**DIGITS).round().long() + 1) * size - rows - 1
            best = torch.cat([best, more], dim=1)
            best = best.topk(min(k, best.shape[1]), dim=1).values
        numbers[start : start + block] = best
    cosines = torch.div(numbers, size, rounding_mode="floor")
    return cosines.double() / 10**DIGITS, size - 1 - (numbers - cosines * size)


def nearest_texts(
    keys: Sequence[str], vectors: Tensor, pool: Pool, k: int
) -> list[list[Neighbour] | None]:
    """The k nearest texts of each query, without itself; None for a query of unknown tokens.

    Args:
        keys: (q) of the queries, as Pool.keys.
        vectors: (q, D) unit vectors of them, zero where no token is known.
    """
    cosines, rows = nearest_rows(vectors, pool.vectors, k + 1)
    known = vectors.any(1).tolist()
    found: list[list[Neighbour] | None] = []
    for number, key in enumerate(keys):
        pairs = zip(cosines[number].tolist(), rows[number].tolist(), strict=True)
        others = [pair for pair in pairs if pool.keys[pair[1]] != key][:k]
        listed = [Neighbour(pool.texts[row], pool.places[row], cosine) for cosine, row in others]
        found.append(listed if known[number] else None)
    return found


def text_key(encoder: RewardEncoder) -> Callable[[str], str]:
    """Return what gives the preprocessed form of a text: two that share it are copies."""
    return encoder.segmenter.preprocessing.apply if isinstance(encoder, Encoder) else str.strip


def text_pool(encoder: RewardEncoder, lines: Sequence[str]) -> Pool:
    """The distinct sentences of a file; a copy counts as the first line that it stands on."""
    key = text_key(encoder)
    first: dict[str, int] = {}
    for number, line in enumerate(lines):
        if line.strip():
            first.setdefault(key(line), number)
    texts = [lines[number].strip() for number in first.values()]
    places = [number + 1 for number in first.values()]
    return _known(texts, list(first), embed_all(encoder.embed_text, texts), places)


def word_pool(encoder: RewardEncoder, lines: Sequence[str] | None, most: int | None) -> Pool:
    """Words of a text, or of the vocabulary of a word encoder, in the order they stand there.

    Args:
        lines: the text; None for the vocabulary.
        most: only so many, the most frequent ones (thesis, 3.4: 10,000); None for all. A vocabulary
            is in order of frequency.

    Raises:
        InputError: if a text is needed, and there is none.
    """
    if lines is not None:
        key = text_key(encoder)
        counts = Counter(word for line in lines for word in key(line).split())
        frequent = {word for word, _ in counts.most_common(most)}
        words = [word for word in counts if word in frequent]
        return _known(words, words, embed_all(encoder.embed_text, words))
    if not isinstance(encoder, Encoder) or encoder.segmenter.name != "word":
        raise InputError(
            f"--vocabulary: an encoder of kind {encoder.kind} has no vocabulary of words; expected "
            "--vocabulary FILE, a text whose words are to choose from"
        )
    known = {row: text for row, text in enumerate(encoder.segmenter.texts) if text is not None}
    words = list(known.values())[:most]
    rows = [[row] for row in known][:most]
    vectors = F.normalize(encoder.embed(rows).cpu(), dim=1, eps=1e-30)
    return _known(words, words, vectors)


def _known(
    texts: list[str], keys: list[str], vectors: Tensor, places: Sequence[int] | None = None
) -> Pool:
    """The pool without texts whose vector is zero; by default a text's place is its number."""
    places = places or range(1, len(texts) + 1)
    rows = vectors.any(1).nonzero().flatten().tolist()
    return Pool(
        [texts[row] for row in rows],
        [keys[row] for row in rows],
        [places[row] for row in rows],
        vectors[rows],
    )

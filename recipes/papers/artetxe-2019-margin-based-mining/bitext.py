"""Which sentences of two languages are translations: nearest neighbours, margins, F1, retrieval.

Artetxe and Schwenk 2019, "Margin-based Parallel Corpus Mining with Multilingual Sentence
Embeddings"; the protocol and the files of the BUCC shared task (Zweigenbaum et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.files import InputError, read_rows

Embed = Callable[[Sequence[str]], Tensor]  # sentences -> (U, D) vectors
Progress = Callable[[int], object]  # called with how much more is done

NEIGHBOURS = 4  # k of the paper
BLOCK = 2048  # rows and columns of a block of similarities: 16 MB of float32
EMBED_BATCH = 10_000


@dataclass(frozen=True)
class Corpus:
    """Distinct sentences of one language, in the order of the file.

    Attributes:
        ids: of each distinct sentence; the first one stands for all its copies.
        sentences: the distinct sentences.
        row: id -> index into ``sentences``, for every id of the file.
    """

    ids: list[str]
    sentences: list[str]
    row: dict[str, int]


def read_corpus(path: str | Path, flag: str) -> Corpus:
    """Read BUCC's layout, ``id TAB sentence`` a line.

    Raises:
        InputError: naming file:line, for a line without TAB, an empty or repeated id or an empty
            sentence, and for an empty file.
    """
    ids: list[str] = []
    row: dict[str, int] = {}
    first: dict[str, int] = {}
    for line in read_rows(path, flag, "lines of id TAB sentence", splits=1):
        line.expect(2, what="an id, a TAB and a sentence")
        name, sentence = line.cells
        if not name or not sentence.strip() or name in row:
            wrong = "has an empty id or sentence" if name not in row else "is here a second time"
            raise InputError(f"{line.where}: {name!r} {wrong}; remove the line")
        if sentence not in first:
            first[sentence] = len(ids)
            ids.append(name)
        row[name] = first[sentence]
    return Corpus(ids, list(first), row)


def read_gold(path: str | Path, flag: str, source: Corpus, target: Corpus) -> set[tuple[int, int]]:
    """Read ``source id TAB target id`` lines as pairs of rows of the two corpora.

    Raises:
        InputError: naming file:line, for a line that is not two ids, or an id that the text lacks.
    """
    pairs = set()
    for row in read_rows(path, flag, expected := "source id TAB target id"):
        row.expect(2, 2, expected)
        for name, corpus, side in zip(
            row.cells, (source, target), ("source", "target"), strict=True
        ):
            if name not in corpus.row:
                raise InputError(f"{row.where}: the {side} text has no id {name!r}")
        pairs.add((source.row[row.cells[0]], target.row[row.cells[1]]))
    return pairs


def embed_all(embed: Embed, sentences: Sequence[str], progress: Progress | None = None) -> Tensor:
    """Unit vectors (U, D) float32 on the CPU; a sentence without a known piece is the zero vector.

    Raises:
        InputError: if a vector is not finite.
    """
    vectors = torch.zeros(0, 0)
    for start in range(0, len(sentences), EMBED_BATCH):
        batch = sentences[start : start + EMBED_BATCH]
        found = embed(batch).float().cpu()
        if not bool(torch.isfinite(found).all()):
            raise InputError(
                "the encoder gives vectors with NaN or infinite values; train it again"
            )
        if start == 0:
            vectors = torch.empty(len(sentences), found.shape[1])
        vectors[start : start + len(batch)] = F.normalize(found, dim=1, eps=1e-30)
        if progress:
            progress(len(batch))
    return vectors


@dataclass(frozen=True)
class Neighbours:
    """The k nearest rows of the other side, best first.

    Attributes:
        sims: (n, k) cosines.
        rows: (n, k) int64.
    """

    sims: Tensor
    rows: Tensor


def nearest(
    x: Tensor,
    y: Tensor,
    k: int = NEIGHBOURS,
    block: int = BLOCK,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> tuple[Neighbours, Neighbours]:
    """Exact k nearest neighbours by inner product, of each x in y and of each y in x, in one pass.

    Memory beside x and y: one block x block matrix and the (n + m) k results. Of a block only the
    rows and columns whose best value beats their k-th best so far are sorted.

    Args:
        x: (n, D), y: (m, D) unit vectors.
        progress: called with the number of similarities just computed.

    Returns:
        neighbours of x in y, (n, min(k, m)), and of y in x, (m, min(k, n)).
    """
    n, m = len(x), len(y)
    forward = _empty(n, min(k, m), device)
    backward = _empty(m, min(k, n), device)
    for i in range(0, n, block):
        rows = x[i : i + block].to(device)
        for j in range(0, m, block):
            sims = rows @ y[j : j + block].to(device).T
            _merge(forward, i, sims, j, dim=1)
            _merge(backward, j, sims, i, dim=0)
            if progress:
                progress(sims.numel())
    first, second = (
        Neighbours(found.sims.cpu(), found.rows.cpu()) for found in (forward, backward)
    )
    return first, second


def _empty(n: int, k: int, device: torch.device | str) -> Neighbours:
    sims = torch.full((n, k), -math.inf, device=device)
    return Neighbours(sims, torch.zeros(n, k, dtype=torch.int64, device=device))


def _merge(found: Neighbours, start: int, sims: Tensor, offset: int, dim: int) -> None:
    """Put a block of similarities into the running k best, in place.

    Args:
        found: the best so far; those of this block begin at ``start``.
        sims: the block; ``dim`` runs over the neighbours, which begin at ``offset``.
    """
    here = slice(start, start + sims.shape[1 - dim])
    # Late blocks hardly ever improve a row: most of the time is then one maximum, and no sorting.
    better = (sims.amax(dim) > found.sims[here, -1]).nonzero().squeeze(1)
    if not len(better):
        return
    candidates = sims.index_select(1 - dim, better)
    candidates = candidates if dim == 1 else candidates.T.contiguous()
    k = found.sims.shape[1]
    best, where = candidates.topk(min(k, candidates.shape[1]), dim=1)
    better += start
    values = torch.cat([found.sims[better], best], dim=1)
    rows = torch.cat([found.rows[better], where + offset], dim=1)
    kept, order = values.topk(k, dim=1)
    found.sims[better] = kept
    found.rows[better] = rows.gather(1, order)


@dataclass(frozen=True)
class Candidates:
    """Proposed pairs, best score first.

    Attributes:
        source, target: (c,) rows.
        scores: (c,) float64.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    scores: NDArray[np.float64]


def margin_scores(
    cosines: NDArray[np.float64], neighbourhood: NDArray[np.float64], margin: str
) -> NDArray[np.float64]:
    """margin(a, b) of Artetxe and Schwenk 2019: absolute a, distance a - b, ratio a / b.

    Args:
        cosines: a = cos(x, y).
        neighbourhood: b = sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k.

    A ratio with b <= 0 says nothing and is 0.
    """
    if margin == "absolute":
        return cosines
    if margin == "distance":
        return cosines - neighbourhood
    positive = neighbourhood > 0
    return np.where(positive, cosines / np.where(positive, neighbourhood, 1.0), 0.0)


def propose(forward: Neighbours, backward: Neighbours, margin: str = "ratio") -> Candidates:
    """Pair sentences with that of their k neighbours which has the best margin score.

    Every source sentence with its best target and every target with its best source (the paper's
    strategy "max"): best first, each sentence used once.
    """
    mean_x = forward.sims.double().mean(1).numpy()
    mean_y = backward.sims.double().mean(1).numpy()
    targets, there = _best(forward, mean_x, mean_y, margin)
    sources, back = _best(backward, mean_y, mean_x, margin)
    source = np.concatenate([np.arange(len(mean_x)), sources])
    target = np.concatenate([targets, np.arange(len(mean_y))])
    scores = np.concatenate([there, back])
    kept = []
    used_x, used_y = bytearray(len(mean_x)), bytearray(len(mean_y))
    for place in np.lexsort((target, source, -scores)):
        i, j = source[place], target[place]
        if not used_x[i] and not used_y[j]:
            used_x[i] = used_y[j] = 1
            kept.append(place)
    return Candidates(source[kept], target[kept], scores[kept])


def _best(
    found: Neighbours,
    own: NDArray[np.float64],
    other: NDArray[np.float64],
    margin: str,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(row of the other side, score) of the best neighbour of each sentence."""
    rows = found.rows.numpy()
    scores = margin_scores(found.sims.double().numpy(), (own[:, None] + other[rows]) / 2, margin)
    best = scores.argmax(1)
    each = np.arange(len(rows))
    return rows[each, best], scores[each, best]


@dataclass(frozen=True)
class Mined:
    """Mined pairs against gold pairs, in percent.

    Attributes:
        threshold: pairs of this score or more count as mined.
        precision, recall, f1: NaN for the precision of no pair at all.
    """

    threshold: float
    precision: float
    recall: float
    f1: float
    mined: int
    correct: int
    gold: int


def evaluate_mining(pairs: Candidates, gold: set[tuple[int, int]], threshold: float) -> Mined:
    """Precision, recall and F1 of the pairs with a score >= threshold."""
    hits = _hits(pairs, gold)
    mined = int((pairs.scores >= threshold).sum())
    correct = int(hits[:mined].sum())
    precision = 100 * correct / mined if mined else math.nan
    f1 = 200 * correct / (mined + len(gold))
    return Mined(threshold, precision, 100 * correct / len(gold), f1, mined, correct, len(gold))


def tune_threshold(pairs: Candidates, gold: set[tuple[int, int]]) -> float:
    """The threshold of the best F1, halfway between the last pair kept and the first dropped.

    Of equal F1 the higher threshold. Pairs of equal score are kept or dropped together.

    Raises:
        InputError: if none of the pairs is a gold pair: languages without overlap.
    """
    correct = np.cumsum(_hits(pairs, gold))
    if not len(correct) or not correct[-1]:
        raise InputError(
            f"none of the {len(gold)} gold pairs is among the {len(pairs.scores)} candidates, so "
            "no threshold can be tuned; is the encoder trained on both languages, and does the "
            "gold file belong to these texts?"
        )
    f1 = 2 * correct / (np.arange(1, len(correct) + 1) + len(gold))
    last_of_score = np.append(pairs.scores[1:] != pairs.scores[:-1], True)
    best = int(np.where(last_of_score, f1, -1.0).argmax())
    if best + 1 == len(f1):
        return float(pairs.scores[best])
    return float((pairs.scores[best] + pairs.scores[best + 1]) / 2)


def _hits(pairs: Candidates, gold: set[tuple[int, int]]) -> NDArray[np.bool_]:
    found = zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)
    return np.fromiter((pair in gold for pair in found), dtype=bool, count=len(pairs.scores))


@dataclass(frozen=True)
class Retrieval:
    """Share of sentences whose nearest one of the other language translates them, in percent."""

    forward: float
    backward: float
    sentences: int

    @property
    def mean(self) -> float:
        """Mean of both directions."""
        return (self.forward + self.backward) / 2


def retrieval_accuracy(
    source: Sequence[str], target: Sequence[str], forward: Neighbours, backward: Neighbours
) -> Retrieval:
    """Accuracy of the nearest neighbour by cosine, both ways (the Tatoeba protocol).

    Line i of the source is the translation of line i of the target; a copy of that line counts. A
    sentence of which the encoder knows nothing has cosine 0 with all, and finds none.
    """

    def accuracy(found: Neighbours, sentences: Sequence[str]) -> float:
        best = zip(found.rows[:, 0].tolist(), found.sims[:, 0].tolist(), strict=True)
        hits = sum(sim != 0 and sentences[row] == sentences[i] for i, (row, sim) in enumerate(best))
        percent: float = 100 * hits / len(sentences)
        return percent

    return Retrieval(accuracy(forward, target), accuracy(backward, source), len(source))

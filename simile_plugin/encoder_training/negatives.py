"""Mega-batch mining: the hardest negative of every sentence, by a matrix product in blocks.

A GPU makes the product itself. A processor searches it exactly in two passes. The first multiplies
blocks, in bfloat16 where it has that, and keeps of each tile only the largest value of every row
and column. The second multiplies again, in float32, the few tiles whose value is within the first
pass's error of the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

CELLS = 2**28  # of a product on a GPU, 1 GB: a mega-batch of 16,000 pairs
BLOCK = 512  # rows multiplied at once: memory is O(block * n)
TILE = 128  # side of a tile, the unit of the second pass
NOTHING = -2.0  # below every cosine: the value of a forbidden cell


@dataclass(frozen=True)
class Passes:
    """Speed and memory of the search on a CPU.

    Attributes:
        dtype: of the first pass; None: the fastest on this processor.
        block: rows multiplied at once in the first pass.
        tile: columns searched at once in the second pass.
    """

    dtype: torch.dtype | None = None
    block: int = BLOCK
    tile: int = TILE


def hardest_negatives(
    left: Tensor,
    right: Tensor,
    left_keys: Tensor,
    right_keys: Tensor,
    pool: str = "other",
    only: Tensor | None = None,
    passes: Passes | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the most similar wrong partner of each sentence (Wieting et al. 2019, eq. 4).

    t' of s_i is the argmax of cos(s_i, c) over the pool, s' of t_i likewise. The pool of a
    sentence is the other side of all other pairs ("other", the paper's choice) or both sides of
    them ("all"). Pairs that share a sentence are never each other's negatives: their partners
    would be the sentence itself or a known paraphrase of it.

    Args:
        left, right: (n, D) vectors of the pairs' sides, any length.
        left_keys, right_keys: (n,) int64, equal for equal sentences.
        only: (k,) pairs to find negatives for. Default: all.
        passes: of the search on a CPU; the result does not depend on them.

    Returns:
        For each s_i and for each t_i the position of its negative in cat(left, right), (n,) or
        (k,) int64 each; -1 where no pair is left to choose from. The first of equals wins.
    """
    n = len(left)
    left, right = F.normalize(left, dim=1), F.normalize(right, dim=1)
    forbidden = sharing_pairs(left_keys, right_keys)
    left_queries, right_queries = left, right
    if only is not None:
        place = torch.full((n,), -1, dtype=torch.int64, device=left.device)
        place[only] = torch.arange(len(only), device=left.device)
        forbidden = forbidden[place[forbidden[:, 0]] >= 0]
        forbidden = torch.stack([place[forbidden[:, 0]], forbidden[:, 1]], 1)
        left_queries, right_queries = left[only], right[only]
    search: _Search | _OneProduct
    if left.device.type == "cpu":
        search = _Search(forbidden, passes or Passes())
    else:
        search = _OneProduct(forbidden)
    if only is None:
        for_left, for_right = search.both_ways(left, right)
    else:
        for_left, for_right = search.rows(left_queries, right), search.rows(right_queries, left)
    for_left = for_left[0], _shifted(for_left[1], n)
    if pool == "other":
        return for_left[1], for_right[1]
    same_left, same_right = search.rows(left_queries, left), search.rows(right_queries, right)
    # Positions are in cat(left, right): of equals the left comes first.
    same_right = same_right[0], _shifted(same_right[1], n)
    return _better(same_left, for_left), _better(for_right, same_right)


def fastest_dtype() -> torch.dtype:
    """Return bfloat16 where the processor multiplies it faster than float32, else float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if supported() else torch.float32


def sharing_pairs(left_keys: Tensor, right_keys: Tensor) -> Tensor:
    """Return the cells (i, j) where pairs i and j share a sentence, every (i, i) among them.

    Args:
        left_keys, right_keys: (n,) equal for equal sentences.

    Returns:
        (cells, 2) int64; a cell can be repeated.
    """
    n = len(left_keys)
    keys, order = torch.sort(torch.cat([left_keys, right_keys]))
    pairs = order % n
    diagonal = torch.arange(n, device=keys.device)
    cells = [torch.stack([diagonal, diagonal], 1)]
    # Equal keys are neighbours now: compare at distance 1, 2, ... until nothing is equal.
    for distance in range(1, 2 * n):
        same = (keys[distance:] == keys[:-distance]).nonzero().squeeze(1)
        if len(same) == 0:
            break
        first, second = pairs[same], pairs[same + distance]
        cells += [torch.stack([first, second], 1), torch.stack([second, first], 1)]
    return torch.cat(cells)


Best = tuple[Tensor, Tensor]  # value (n,) and position (n,), -1 for none


def _shifted(index: Tensor, by: int) -> Tensor:
    return torch.where(index >= 0, index + by, index)


def _better(first: Best, second: Best) -> Tensor:
    """Return the positions of the larger of two maxima; of equals the first's."""
    return torch.where(second[0] > first[0], second[1], first[1])


class _OneProduct:
    """Maxima of the rows of a float32 product on a GPU, which takes a millisecond there."""

    def __init__(self, forbidden: Tensor, cells: int = CELLS) -> None:
        self.forbidden = forbidden
        self.cells = cells

    def both_ways(self, queries: Tensor, pool: Tensor) -> tuple[Best, Best]:
        """For each query the best of the pool, and for each of the pool the best query."""
        turned = _OneProduct(self.forbidden.flip(1), self.cells)
        return self.rows(queries, pool), turned.rows(pool, queries)

    def rows(self, queries: Tensor, pool: Tensor) -> Best:
        """For each query the best of the pool."""
        block = max(1, self.cells // max(1, len(pool)))
        best = []
        for start in range(0, len(queries), block):
            product = queries[start : start + block] @ pool.T
            row, column = self.forbidden[:, 0] - start, self.forbidden[:, 1]
            if block < len(queries):  # synchronises: the number of cells in this block
                inside = (row >= 0) & (row < len(product))
                row, column = row[inside], column[inside]
            product[row, column] = NOTHING
            value, index = product.max(1)
            best.append((value, torch.where(value > NOTHING / 2, index, -1)))
        values, places = zip(*best, strict=True)
        return torch.cat(values), torch.cat(places)


class _Search:
    """Maxima of the rows and columns of a product on the CPU, forbidden cells left out."""

    def __init__(self, forbidden: Tensor, passes: Passes) -> None:
        self.forbidden = forbidden[torch.argsort(forbidden[:, 0])]
        self.transposed = forbidden.flip(1)[torch.argsort(forbidden[:, 1])]
        self.dtype = passes.dtype or fastest_dtype()
        self.block = max(1, passes.block // passes.tile) * passes.tile
        self.tile = passes.tile

    def both_ways(self, queries: Tensor, pool: Tensor) -> tuple[Best, Best]:
        """For each query the best of the pool, and for each of the pool the best query."""
        rows, columns = self._bounds(queries, pool)
        slack = self._slack(queries, pool)
        return (
            self._refined(queries, pool, rows, self.transposed, slack),
            self._refined(pool, queries, columns.T, self.forbidden, slack),
        )

    def rows(self, queries: Tensor, pool: Tensor) -> Best:
        """For each query the best of the pool."""
        rows, _ = self._bounds(queries, pool)
        return self._refined(queries, pool, rows, self.transposed, self._slack(queries, pool))

    def _bounds(self, queries: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
        """Return the largest values in tiles, of each row (k, tiles) and each column (tiles, n)."""
        n, tile = len(queries), self.tile
        rows = torch.empty(n, -(-len(pool) // tile), device=queries.device)
        columns = torch.empty(-(-n // tile), len(pool), device=queries.device)
        coarse, coarse_pool = queries.to(self.dtype), pool.to(self.dtype).T.contiguous()
        limits = torch.searchsorted(
            self.forbidden[:, 0].contiguous(),
            torch.arange(0, n + self.block, self.block, device=queries.device),
        ).tolist()
        for number, start in enumerate(range(0, n, self.block)):
            stop = min(n, start + self.block)
            product = coarse[start:stop] @ coarse_pool
            cells = self.forbidden[limits[number] : limits[number + 1]]
            product[cells[:, 0] - start, cells[:, 1]] = _hidden(product)
            first = start // tile
            rows[start:stop], columns[first : first + -(-(stop - start) // tile)] = _tile_maxima(
                product, tile
            )
        return rows, columns

    def _slack(self, queries: Tensor, pool: Tensor) -> float:
        """Return twice the largest error of a value of the first pass.

        Of unit vectors a, b and their rounded a', b': |ab - a'b'| <= |a - a'| + |b - b'| |a'|; the
        product itself is rounded once more. A hundredth is for |a'| > 1, 2e-5 for float32.
        """
        error = torch.finfo(self.dtype).eps / 2
        for side in (queries, pool):
            if len(side):
                error += float((side - side.to(self.dtype).float()).norm(dim=1).max())
        return 2.02 * error + 2e-5

    def _refined(
        self, queries: Tensor, pool: Tensor, bounds: Tensor, cells: Tensor, slack: float
    ) -> Best:
        """Search the tiles that can hold the best value of a query, in float32.

        Args:
            queries, pool: (n, D) unit vectors.
            bounds: (n, tiles) largest value of each query in each tile of the pool.
            cells: forbidden cells as (pool, query), by rising position in the pool.
        """
        n = len(queries)
        value = torch.full((n,), NOTHING, device=queries.device)
        index = torch.full((n,), -1, dtype=torch.int64, device=queries.device)
        best = bounds.amax(1)
        # A query whose cells are all forbidden has no tile.
        possible = (bounds >= best[:, None] - slack) & (best > NOTHING / 2)[:, None]
        place = torch.empty(n, dtype=torch.int64, device=queries.device)
        for number, (start, some) in enumerate(self._tiles(cells, len(pool))):
            chosen = possible[:, number].nonzero().squeeze(1)
            product = queries[chosen] @ pool[start : start + self.tile].T
            place.fill_(-1)
            place[chosen] = torch.arange(len(chosen), device=queries.device)
            rows = place[some[:, 1]]
            product[rows[rows >= 0], some[rows >= 0, 0] - start] = NOTHING
            highest, where = _row_maxima(product)
            better = highest > value[chosen]
            value[chosen] = torch.where(better, highest, value[chosen])
            index[chosen] = torch.where(better, where + start, index[chosen])
        return value, index

    def _tiles(self, cells: Tensor, n: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the start of each tile, and the forbidden cells in it."""
        edges = torch.arange(0, n + self.tile, self.tile, device=cells.device)
        limits = torch.searchsorted(cells[:, 0].contiguous(), edges).tolist()
        for number, start in enumerate(range(0, n, self.tile)):
            yield start, cells[limits[number] : limits[number + 1]]


def _row_maxima(product: Tensor) -> Best:
    """Return the largest value of each row, and its first position."""
    # numpy's argmax is vectorised: 12 times faster than torch's on (256, 2560).
    index = torch.from_numpy(product.numpy().argmax(axis=1))
    return product.gather(1, index[:, None]).squeeze(1), index


def _tile_maxima(product: Tensor, tile: int) -> tuple[Tensor, Tensor]:
    """Return the largest values in tiles, of each row (rows, tiles) and each column (tiles, n)."""
    rows, n = product.shape
    row_tiles, column_tiles = -(-rows // tile), -(-n // tile)
    padding = (0, column_tiles * tile - n, 0, row_tiles * tile - rows)
    if any(padding):
        product = F.pad(product, padding, value=_hidden(product))
    by_row = product.view(-1, column_tiles, tile)
    by_column = product.view(row_tiles, tile, -1)
    if _by_bits(product):
        return _bfloat16_maxima(by_row)[:rows], _bfloat16_maxima(by_column, 1)[:, :n]
    return by_row.amax(2)[:rows].float(), by_column.amax(1)[:, :n].float()


def _by_bits(product: Tensor) -> bool:
    return product.dtype == torch.bfloat16


def _hidden(product: Tensor) -> float:
    """Return the value for forbidden cells: at most the bound of any other cell."""
    return 0.0 if _by_bits(product) else NOTHING


def _bfloat16_maxima(product: Tensor, axis: int = 2) -> Tensor:
    """Return upper bounds of maxima along an axis: the maximum, or 0 where it is below 0.

    Read as integers, the bits of numbers from 0 on are in their order, and those of numbers below 0
    are negative: numpy's maxima of integers are six times faster than torch's of bfloat16.
    """
    bits = product.view(torch.int16).numpy().max(axis=axis)
    return torch.from_numpy(bits).view(torch.bfloat16).float().clamp(min=0)

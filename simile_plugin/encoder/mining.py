"""Mega-batch mining: the hardest negative of every sentence, by blocks of one matrix product."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 256  # rows of a block; its similarities stay in the processor's cache
POOLS = ("other", "all")


def hardest_negatives(
    left: Tensor,
    right: Tensor,
    left_keys: Tensor,
    right_keys: Tensor,
    pool: str = "other",
    block: int = BLOCK,
) -> tuple[Tensor, Tensor]:
    """The most similar wrong partner of each sentence of a mega-batch (Wieting et al. 2019, eq. 4).

    t' of s_i is the argmax of cos(s_i, c) over the pool, s' of t_i likewise. The pool of a
    sentence is the other side of all other pairs ("other", the paper's choice) or both sides of
    them ("all"). Pairs that share a sentence are never each other's negatives: their partners
    would be the sentence itself or a known paraphrase of it.

    Args:
        left, right: (n, D) vectors of the pairs' sides, any length.
        left_keys, right_keys: (n,) int64, equal for equal sentences.
        pool: "other" or "all".
        block: rows compared at once; memory is O(block * n).

    Returns:
        For each s_i and for each t_i the position of its negative in cat(left, right), (n,)
        int64 each; -1 where no pair is left to choose from.
    """
    n = len(left)
    left, right = F.normalize(left, dim=1), F.normalize(right, dim=1)
    sharing = _Sharing(left_keys, right_keys)
    for_left = _Best(n, left.device)
    for_right = _Best(n, left.device)
    for start in range(0, n, block):
        stop = min(n, start + block)
        similarity = sharing.mask(left[start:stop] @ right.T, start)
        for_left.rows(similarity, start, shift=n)
        for_right.columns(similarity, start)
        if pool == "all":
            for_left.rows(sharing.mask(left[start:stop] @ left.T, start), start, shift=0)
            for_right.rows(sharing.mask(right[start:stop] @ right.T, start), start, shift=n)
    return for_left.index, for_right.index


class _Sharing:
    """Which pairs share a sentence; pair i always does with itself."""

    def __init__(self, left_keys: Tensor, right_keys: Tensor) -> None:
        n = len(left_keys)
        _, keys, counts = torch.unique(
            torch.cat([left_keys, right_keys]), return_inverse=True, return_counts=True
        )
        self.left, self.right = keys[:n], keys[n:]
        seen_elsewhere = (counts[self.left] > 1) | (counts[self.right] > 1)
        # Most pairs share nothing: only the others are compared one with one.
        self.repeated = seen_elsewhere.nonzero().squeeze(1)

    def mask(self, similarity: Tensor, start: int) -> Tensor:
        """Set forbidden cells of the rows from ``start`` on to -inf, in place."""
        rows = len(similarity)
        similarity[:, start : start + rows].fill_diagonal_(-torch.inf)
        inside = (self.repeated >= start) & (self.repeated < start + rows)
        here = self.repeated[inside]
        if len(here) == 0:
            return similarity
        shared = torch.zeros(len(here), len(self.repeated), dtype=torch.bool, device=here.device)
        for a in (self.left, self.right):
            for b in (self.left, self.right):
                shared |= a[here, None] == b[None, self.repeated]
        row, column = shared.nonzero(as_tuple=True)
        similarity[here[row] - start, self.repeated[column]] = -torch.inf
        return similarity


class _Best:
    """Running maximum over blocks, with its position; the first of equals wins."""

    def __init__(self, n: int, device: torch.device) -> None:
        self.value = torch.full((n,), -torch.inf, device=device)
        self.index = torch.full((n,), -1, dtype=torch.int64, device=device)

    def rows(self, similarity: Tensor, start: int, shift: int) -> None:
        """Maximum of each row; column j is the candidate ``j + shift``."""
        self._update(slice(start, start + len(similarity)), similarity, shift)

    def columns(self, similarity: Tensor, start: int) -> None:
        """Maximum of each column; row i is the candidate ``i + start``."""
        self._update(slice(None), similarity.T.contiguous(), start)

    def _update(self, where: slice, similarity: Tensor, shift: int) -> None:
        index = _argmax(similarity)
        value = similarity.gather(1, index[:, None]).squeeze(1)
        better = value > self.value[where]
        self.value[where] = torch.where(better, value, self.value[where])
        self.index[where] = torch.where(better, index + shift, self.index[where])


def _argmax(similarity: Tensor) -> Tensor:
    if similarity.device.type == "cpu":
        # numpy's is vectorised: 12 times faster than torch's on (256, 2560).
        return torch.from_numpy(similarity.numpy().argmax(axis=1))
    return similarity.argmax(dim=1)

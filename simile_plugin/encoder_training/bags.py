"""Sentences as bags of pieces: a minibatch at a time on the host, many of them on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder_training.pairs import Pairs

Rows = NDArray[np.integer] | Tensor  # a tensor where all rows are touched at every step


def row_numbers(rows: Rows, device: torch.device) -> Tensor:
    """Return rows of a table as int64 on the device."""
    return rows if isinstance(rows, Tensor) else torch.from_numpy(rows.astype(np.int64)).to(device)


@dataclass(frozen=True)
class Bags:
    """Sentences of a minibatch as bags of pieces, by sentence and by piece."""

    ids: Tensor  # (P,) int64 pieces of all sentences, concatenated
    starts: Tensor  # (U,) int64 start of each sentence; a part of a sentence can be empty
    rows: Rows  # (R,) distinct pieces, rising
    members: Tensor  # (P,) int64 sentences in which the first row occurs, the second, ...
    row_starts: Tensor  # (R,) int64 start of each row in members

    @property
    def lengths(self) -> Tensor:
        """The number of pieces of each sentence, (U,)."""
        return torch.diff(F.pad(self.starts, (0, 1), value=len(self.ids)))

    @property
    def row_numbers(self) -> Tensor:
        """The distinct pieces, int64 on the device of the ids."""
        return row_numbers(self.rows, self.ids.device)

    @classmethod
    def of(
        cls,
        pairs: Pairs,
        sentences: NDArray[np.integer],
        device: torch.device | str = "cpu",
        split: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> Bags:
        """Return the bags of some sentences of the training pairs.

        Args:
            split: ids and starts of sentences -> starts of several bags of each.
        """
        ids, starts = pairs.bags(sentences)
        if split is not None:
            starts = split(torch.from_numpy(ids), torch.from_numpy(starts)).numpy()
        # 16-bit keys are sorted by radix, four times faster than wider ones.
        order = np.argsort(ids.astype(np.uint16), kind="stable")
        if pairs.ids.dtype.itemsize > 2:
            order = order[np.argsort((ids[order] >> 16).astype(np.uint16), kind="stable")]
        ordered = ids[order]
        row_starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        lengths = np.diff(starts, append=len(ids))
        sentence_of = np.repeat(np.arange(len(starts)), lengths)
        tensors = (ids, starts, sentence_of[order], row_starts)
        on_device = [torch.from_numpy(values).to(device) for values in tensors]
        return cls(on_device[0], on_device[1], ordered[row_starts], *on_device[2:])

    def means(self, weight: Tensor) -> Tensor:
        """Return the mean embedding (U, D) of each sentence."""
        return F.embedding_bag(self.ids, weight, self.starts, mode="mean")

    def gradient(self, of_means: Tensor) -> Tensor:
        """Return the gradient (R, D) of the rows, from that of the means (U, D).

        The transposed problem is a weighted bag too: a piece's gradient is the sum, over the
        sentences it stands in, of their gradients / their lengths. EmbeddingBag's forward does
        that several times faster than its backward.
        """
        scaled = of_means / self.lengths.clamp(min=1)[:, None]
        return F.embedding_bag(self.members, scaled, self.row_starts, mode="sum")


class DevicePairs:
    """The pieces of all training sentences on a GPU, so that no minibatch waits for the host.

    The paper's 16.77 million pairs take 1.2 GB.

    Args:
        types: V, number of different pieces.
    """

    def __init__(self, pairs: Pairs, types: int, device: torch.device) -> None:
        # torch can do little with unsigned integers: read the same bits as signed integers.
        self.bits = 8 * pairs.ids.dtype.itemsize
        signed = np.array(pairs.ids).view(f"<i{self.bits // 8}")
        self.ids = torch.from_numpy(signed).to(device)
        self.offsets = torch.from_numpy(np.array(pairs.offsets)).to(device)
        self.types = types

    def bags(self, sentences: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
        """Return the pieces of the given sentences, as Pairs.bags does."""
        chosen = torch.from_numpy(sentences).to(self.ids.device)
        begin = self.offsets[chosen]
        lengths = self.offsets[chosen + 1] - begin
        ends = lengths.cumsum(0)
        starts, count = ends - lengths, int(ends[-1])
        shift = torch.repeat_interleave(begin - starts, lengths, output_size=count)
        ids = self.ids[torch.arange(count, device=shift.device) + shift].long()
        return ids & (2**self.bits - 1), starts

    def minibatches(self, parts: Sequence[NDArray[np.integer]]) -> list[Bags]:
        """Return the bags of each minibatch, as Bags.of makes them; the host waits twice."""
        device, sizes = self.ids.device, np.array([len(part) for part in parts])
        ids, starts = self.bags(np.concatenate(parts))
        starts = F.pad(starts, (0, 1), value=len(ids))
        part = torch.from_numpy(np.arange(len(parts)).repeat(sizes)).to(device)  # of each sentence
        edges = np.append(0, sizes.cumsum())
        first = torch.from_numpy(edges).to(device)
        first_piece = starts[first]
        lengths, starts = starts.diff(), starts[:-1] - first_piece[part]
        sentence = torch.arange(len(part), device=device)
        sentence = torch.repeat_interleave(sentence, lengths, output_size=len(ids))
        ordered, order = torch.sort(part[sentence] * self.types + ids, stable=True)
        rows, counts = torch.unique_consecutive(ordered, return_counts=True)
        bounds = torch.arange(len(parts) + 1, device=device) * self.types
        pieces, distinct = torch.stack([first_piece, torch.searchsorted(rows, bounds)]).tolist()
        members = (sentence - first[part[sentence]])[order]
        row_starts = counts.cumsum(0) - counts - first_piece[rows // self.types]
        sliced = (
            [values[begin:end] for begin, end in pairwise(limits)]
            for values, limits in (
                (ids, pieces),
                (starts, edges.tolist()),
                (rows % self.types, distinct),
                (members, pieces),
                (row_starts, distinct),
            )
        )
        return [Bags(*values) for values in zip(*sliced, strict=True)]

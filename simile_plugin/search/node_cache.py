"""Keys and values of a search's hypotheses, which are nodes of one sequence a sentence.

A token's key and value stay where they were written, at ``step * N + hypothesis``, and a mask says
which of them each hypothesis descends from: reordering is that of the mask. So the hypotheses of a
sentence are the queries of one product, and each key is read once for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import torch
from torch import Tensor

from simile_plugin.search.beam import numbers
from simile_plugin.search.recorder import Recorder

ROOM = 16  # tokens for which room is made at once


class NodeDecoder(Protocol):
    """A framework's decoder, which writes its keys and values into a NodeCache.

    Attributes:
        key: what its recorded steps depend on, beside the shape of the cache.
        shape: of a token's keys: layers, heads, width of a head.
        dtype: of keys, values and masks.
    """

    key: Hashable
    shape: tuple[int, int, int]
    dtype: torch.dtype

    def begin(self, cache: NodeCache) -> None:
        """Write what follows from weights and sources, ``cache.sources`` among it; recorded."""

    def decode(self, last: Tensor, position: Tensor, cache: NodeCache) -> Tensor:
        """Decode one token more of each hypothesis; recorded.

        Args:
            last: (S x N,) the hypotheses' last tokens.
            position: (1,) of these tokens.

        Returns:
            (S x N, V) logits.
        """


class NodeCache:
    """The keys and values that a decoder looks at; see Steps.

    Args:
        recorder: whose buffers it lies in. If it records, all slots are looked at, so that each
            step has the same shape; else those that are written.
        size: N.
        sentences: S.
        source: length of the sources.
        room: steps.

    Attributes:
        sources: (layers, 2, S, heads, source, width) keys and values of the sources; ``mask``:
            (S, 1, 1, source), what is added to the products with them, 0 or -inf. The caller
            writes the mask.
        nodes: (layers, 2, S, heads, room x N, width) those of the hypotheses' tokens; ``descent``:
            (S, 1, N, room x N), what is added to the products with them.
        slots: (N,) where the tokens of this step lie.
        used: the slots that are looked at, from the first one.
        has_sources: ``sources`` is written.
    """

    def __init__(
        self,
        recorder: Recorder,
        decoder: NodeDecoder,
        size: int,
        sentences: int,
        source: int,
        room: int,
        device: torch.device,
    ) -> None:
        self.recorder, self.decoder, self.device = recorder, decoder, device
        self.size, self.sentences, self.source, self.room = size, sentences, source, room
        self.key: Hashable = (decoder.key, size, sentences, source, room, decoder.dtype)

        def buffer(name: str, *shape: int) -> Tensor:
            return recorder.buffer(f"nodes {name}", shape, decoder.dtype, device)

        layers, heads, width = decoder.shape
        shape = (layers, 2, sentences, heads)
        self.sources = buffer("sources", *shape, source, width)
        self.mask = buffer("mask", sentences, 1, 1, source)
        self.nodes = buffer("nodes", *shape, room * size, width)
        self.descent = buffer("descent", sentences, 1, size, room * size)
        self.slots = numbers(size, device)
        self.used = room * size if recorder.records else 0
        self.has_sources = False

    def begin(self) -> None:
        """Prepare the first step; recorded, as `logits` and `reorder`."""
        self.decoder.begin(self)
        self.forget()

    def forget(self) -> None:
        """Mask all tokens of the hypotheses."""
        self.nodes.zero_()  # what is masked counts nothing, but it must be a number
        self.descent.fill_(-torch.inf)

    def logits(self, last: Tensor, step: Tensor, first: bool) -> Tensor:
        """Go on by one token, see Steps; all N hypotheses are decoded, also where they are one."""
        if not self.recorder.records:
            self.used += self.size
        self.slots = torch.add(numbers(self.size, self.device), step, alpha=self.size)
        places = self.slots.view(1, 1, -1, 1).expand(self.sentences, -1, -1, -1)
        self.descent.scatter_(3, places, 0.0)
        logits = self.decoder.decode(last, step, self)
        self.has_sources = True
        return logits[:: self.size] if first else logits

    @property
    def seen(self) -> Tensor:
        """The part of ``descent`` for the slots that are looked at."""
        return self.descent[..., : self.used]

    def keep(self, layer: int, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's keys and values (2, S, heads, N, width) of the tokens of this step.

        Returns:
            Those of all slots that are looked at, (S, heads, used, width) each.
        """
        nodes = self.nodes[layer]
        nodes.index_copy_(3, self.slots, pairs.to(nodes.dtype))
        return nodes[0, :, :, : self.used], nodes[1, :, :, : self.used]

    def keep_source(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's keys and values of the sources, and return those that are kept."""
        kept = self.sources[layer]
        kept[0].copy_(keys)
        kept[1].copy_(values)
        return kept[0], kept[1]

    def reorder(self, parents: Tensor) -> None:
        """Let each hypothesis descend from the tokens of its parent (S, N)."""
        places = parents.view(-1, 1, self.size, 1).expand(self.descent.shape)
        self.descent.copy_(self.descent.gather(2, places))

    def moved(self, kept: Tensor | None, sentences: int, room: int) -> NodeCache:
        """Return a cache of another shape with what some sentences hold, see Steps."""
        before = [taken(values, dim, kept) for values, dim in self._by_sentence()]
        shape = (self.size, sentences, self.source, room)
        new = NodeCache(self.recorder, self.decoder, *shape, self.device)
        new.has_sources = self.has_sources
        new.used = new.used if self.recorder.records else self.used
        new.forget()
        new.sources.zero_()
        new.mask.zero_()
        for (values, _), old in zip(new._by_sentence(), before, strict=True):
            values[tuple(map(slice, old.shape))] = old
        return new

    def _by_sentence(self) -> list[tuple[Tensor, int]]:
        """Return what goes with the sentences, and its dimension of them."""
        nodes = self.nodes[..., : self.used, :]
        return [(self.sources, 2), (self.mask, 0), (nodes, 2), (self.seen, 0)]


def taken(values: Tensor, dim: int, kept: Tensor | None) -> Tensor:
    """Return a copy of some sentences' values, or of all."""
    return values.clone() if kept is None else values.index_select(dim, kept)

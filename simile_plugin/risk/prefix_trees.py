"""Prefixes that the rows of a sentence share: each is one node of a tree, and is decoded once.

Half of the tokens of an 8-best list repeat what another candidate has begun with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass
class PrefixTree:
    """Trees of B sentences with M rows of T targets each; L nodes in the largest.

    Attributes:
        node: (B, M, T) the node whose prefix a target follows; -1 where there is no target.
        counts: (B,) nodes of each sentence; the root, the empty prefix, is node 0.
        row, depth: (B, L) a row that has this prefix, and the length of the prefix; beyond the
            count anything that is within the rows.
    """

    node: Ids
    counts: Ids
    row: Ids
    depth: Ids

    def ancestors(self, sentences: Sequence[int], nodes: int) -> NDArray[np.bool_]:
        """Return the nodes that each node may look at, itself and its prefixes: (S, nodes, nodes).

        What lies beyond a sentence's count looks at the root.
        """
        # A node's ancestors are the nodes along any row that has its prefix, up to its depth; what
        # stands behind it in that row is replaced by the node itself.
        chosen = np.asarray(sentences)
        depth, row = self.depth[chosen, :nodes], self.row[chosen, :nodes]
        path = self.node[chosen[:, None], row]  # (S, nodes, T)
        itself = np.take_along_axis(path, depth[..., None], axis=-1)
        path = np.where(np.arange(path.shape[-1]) <= depth[..., None], path, itself)
        found = np.zeros((len(chosen), nodes, nodes), dtype=bool)
        np.put_along_axis(found, path, True, axis=-1)
        return found

    def edges(self, sentences: Sequence[int]) -> tuple[Ids, Ids, list[int]]:
        """Return the targets of some sentences, by their node, the nodes counted through.

        Returns:
            (E,) places of the targets in (B, M, T), (E,) their nodes, and where each node's
            targets begin among them, the end last.
        """
        chosen = np.asarray(sentences)
        # Several rows may go on from one prefix, with the same token or with others: a node's
        # features are projected once, and looked up for each of its targets. Sorting by node lets
        # the projection run in slices of nodes.
        before = np.concatenate([[0], self.counts[chosen].cumsum()])
        sentence, row, time = (self.node[chosen] >= 0).nonzero()
        nodes = before[sentence] + self.node[chosen[sentence], row, time]
        order = nodes.argsort(kind="stable")
        places = (chosen[sentence] * self.node.shape[1] + row) * self.node.shape[2] + time
        starts = np.searchsorted(nodes[order], np.arange(before[-1] + 1)).tolist()
        return places[order], nodes[order], starts


def prefix_tree(ids: Ids, lengths: Ids) -> PrefixTree:
    """Find the distinct prefixes.

    Args:
        ids: (B, M, T) tokens.
        lengths: (B, M) targets of each row, 0 for rows that are left out.
    """
    batch, rows, width = ids.shape
    # same[b, m, k, t]: the rows m and k of sentence b agree in all tokens before t, and row k is
    # that long; a prefix is that of target t, so that it ends before it.
    there = np.arange(width) < lengths[..., None]
    same = np.ones((batch, rows, rows, width), dtype=bool)
    equal = ids[:, :, None, :-1] == ids[:, None, :, :-1]
    np.logical_and.accumulate(equal, axis=-1, out=same[..., 1:])
    same &= there[:, None]
    first = same.argmax(axis=2)  # the first row with the same prefix
    # A prefix is a node of the first row that has it: numbering these rows' own prefixes in order
    # numbers the nodes, the empty one first, and each after the one that it continues.
    own = there & (first == np.arange(rows)[:, None])
    number = own.reshape(batch, -1).cumsum(axis=1).reshape(own.shape) - 1
    node = number[np.arange(batch)[:, None, None], first, np.arange(width)]
    counts = own.sum(axis=(1, 2))
    row, depth = np.zeros((2, batch, int(counts.max(initial=1))), dtype=np.int64)
    sentence, owner, time = own.nonzero()
    row[sentence, number[own]], depth[sentence, number[own]] = owner, time
    return PrefixTree(np.where(there, node, -1), counts, row, depth)


def trees_of_rows(lengths: Ids, width: int) -> PrefixTree:
    """Make each row, of at most ``width`` targets, (B, M) lengths, a tree of its own, of M = 1."""
    counts = lengths.flatten()
    times = np.broadcast_to(np.arange(width), (len(counts), width))
    node = np.where(times < counts[:, None], times, -1)
    return PrefixTree(node[:, None], counts, np.zeros_like(times), times)

"""The second scoring of a risk set by any decoder: prefixes that rows share are decoded once.

A decoder is asked for two things: its features of some nodes, and what its output layer makes of
features. Everything between rows of targets and nodes, and back, stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from simile_plugin.encoder import to_device
from simile_plugin.risk.prefix_trees import Ids, PrefixTree, prefix_tree, trees_of_rows
from simile_plugin.risk.risk_set import RiskSet

# Rows share their prefixes where that leaves at most this share of their tokens, and where the
# attention masks have at most so many entries.
TREE_SHARE, TREE_MASK = 0.8, 2**26
# What a part costs beside its tokens, in tokens: the decoder's fixed time for one call.
PART_TOKENS = 256


@dataclass(frozen=True)
class Nodes:
    """What a decoder takes at once: S trees, of which the largest has L nodes.

    Attributes:
        source: (S,) the sentence of the batch that each tree belongs to.
        tokens: (S, L) decoder inputs.
        depth: (S, L) the position of each node in its rows.
        allowed: (S, L, L) bool, the nodes that each one may attend to; None where a tree is a
            single row, in order.
        width: T, more than any depth.
    """

    source: Tensor
    tokens: Tensor
    depth: Tensor
    allowed: Tensor | None
    width: int

    def attention_mask(self, heads: int, like: Tensor) -> Tensor:
        """Return 0 where a node may look, -inf elsewhere: (S x heads, L, L).

        Args:
            like: a tensor with the dtype and device of the mask.
        """
        assert self.allowed is not None
        seen = self.allowed.to(like.device)
        mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
        return mask.masked_fill(~seen, -torch.inf).repeat_interleave(heads, dim=0)


# (S, L, D) features of nodes; the log-probability of each target, (E,), and the mean over the
# vocabulary at each position, (K,), of (K, D) features, targets (E,), positions (E,) and starts.
Features = Callable[[Nodes], Tensor]
Project = Callable[[Tensor, Tensor, Tensor, list[int]], tuple[Tensor, Tensor]]


def choose_tree(risk_set: RiskSet, pad: int, heads: int, max_tokens: int) -> PrefixTree:
    """Lay out the rows with the least work: one tree a sentence where that pays, else one a row.

    Args:
        heads: how often an attention mask is repeated; 0 where the decoder takes none.
    """
    lengths = risk_set.lengths_of_scored(pad)
    if heads:
        tree = prefix_tree(risk_set.on_host[0], lengths)
        if pays(tree, int(lengths.sum()), heads, max_tokens):
            return tree
    return trees_of_rows(lengths, risk_set.tokens.size(-1))


def pays(tree: PrefixTree, targets: int, heads: int, max_tokens: int) -> bool:
    """Return whether shared prefixes of so many targets are less work than rows, and fit."""
    counts = tree.counts.tolist()
    few = sum(counts) <= TREE_SHARE * targets
    parts = plan_parts(counts, max_tokens)
    largest = max(len(part) * counts[part[0]] ** 2 for part in parts)
    fits = not max_tokens or max(counts) <= max_tokens
    return few and fits and heads * largest <= TREE_MASK


def score_nodes(
    features: Features,
    project: Project,
    tree: PrefixTree,
    tokens: Tensor,
    previous: Tensor,
    max_tokens: int,
) -> Tensor:
    """Score target rows by their nodes, in parts of similar size.

    Args:
        tokens: (B, M, T) target rows; ``previous``: (..., T) the decoder inputs of as many rows.
        max_tokens: see :func:`plan_parts`; with it the parts are decoded again in the backward
            pass, so that one of them is in memory at a time.

    Returns:
        (B, M, T, 2) log-probability of each target, and its mean over the vocabulary; 0 where the
        tree has no target.
    """
    counts = tree.counts.tolist()
    parts = plan_parts(counts, max_tokens)
    padded = sum(len(part) * counts[part[0]] for part in parts)

    def score_part(part: list[int], edges: tuple[Ids, Ids, list[int]]) -> Tensor:
        nodes = _nodes(tree, part, tokens, previous)
        found = features(nodes)
        longest, device = counts[part[0]], tokens.device
        # Padding of smaller trees is never projected to the vocabulary.
        real = [i * longest + k for i, one in enumerate(part) for k in range(counts[one])]
        found = found.flatten(0, 1).index_select(0, to_device(torch.tensor(real), device))
        places, positions, starts = edges
        targets = tokens.flatten()[to_device(places, device)]
        at = to_device(positions, device)
        own, means = project(found, targets, at, starts)
        if nodes.allowed is not None:  # else each node has one target
            means = means.index_select(0, at)
        return torch.stack([own, means], dim=-1)

    values, places = [], []
    for part in parts:
        edges = tree.edges(part)
        if 0 < max_tokens < padded:
            values.append(checkpoint(score_part, part, edges, use_reentrant=False))
        else:
            values.append(score_part(part, edges))
        places.append(torch.from_numpy(edges[0]))
    found = torch.cat(values)
    index = to_device(torch.cat(places), found.device)
    return found.new_zeros(tokens.numel(), 2).index_copy(0, index, found).view(*tokens.shape, 2)


def _nodes(tree: PrefixTree, part: list[int], tokens: Tensor, previous: Tensor) -> Nodes:
    longest, device = int(tree.counts[part[0]]), tokens.device
    rows_of_tree = tree.node.shape[1]
    first = to_device(torch.tensor(part), device) * rows_of_tree
    depth = to_device(tree.depth[part, :longest], device)
    row = first.unsqueeze(1) + to_device(tree.row[part, :longest], device)
    allowed = None
    if rows_of_tree > 1:
        allowed = to_device(tree.ancestors(part, longest), device)
    return Nodes(
        source=first.div(tokens.size(1), rounding_mode="floor"),
        tokens=previous.flatten()[row * previous.size(-1) + depth],
        depth=depth,
        allowed=allowed,
        width=tokens.size(-1),
    )


def plan_parts(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Split rows into parts of similar length, for the least padding.

    Args:
        lengths: tokens of each row; rows of length 0 are left out.
        max_tokens: bound on rows x longest row of a part (0: none); a single longer row is a part
            of its own.

    Returns:
        row numbers of each part, longest rows first; the parts are those with the least
        sum over parts of rows x longest + PART_TOKENS.
    """
    order = sorted((row for row in range(len(lengths)) if lengths[row]), key=lambda r: -lengths[r])
    # A part may begin where the length changes, or wherever a bound makes it end.
    step = max(1, max_tokens // max(lengths)) if max_tokens and order else len(order)
    starts = [
        place
        for place, row in enumerate(order)
        if not place or lengths[row] < lengths[order[place - 1]] or place % step == 0
    ]
    starts.append(len(order))
    # least[i]: the least cost of the rows from starts[i] on, and where their first part ends
    least = [(0, 0)] * len(starts)
    for i in range(len(starts) - 2, -1, -1):
        longest = lengths[order[starts[i]]]
        choices = [
            ((starts[end] - starts[i]) * longest + PART_TOKENS + least[end][0], end)
            for end in range(i + 1, len(starts))
            if end == i + 1 or not max_tokens or (starts[end] - starts[i]) * longest <= max_tokens
        ]
        least[i] = min(choices)
    parts, i = [], 0
    while i < len(starts) - 1:
        end = least[i][1]
        parts.append(order[starts[i] : starts[end]])
        i = end
    return parts

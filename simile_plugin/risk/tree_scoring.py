"""The second scoring of a risk set by any decoder: prefixes that rows share are decoded once.

A decoder is asked for two things: its features of some nodes, and what its output layer makes of
features. Everything between rows of targets and nodes, and back, stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from simile_plugin.encoder import to_device
from simile_plugin.risk.prefix_trees import PrefixTree, prefix_tree, trees_of_rows
from simile_plugin.risk.risk_set import RiskSet

# Rows share their prefixes where that leaves at most this share of their tokens, and where the
# attention masks have at most so many entries. Only on a CPU: a GPU takes as long for the masks as
# for the tokens saved (256 sentences of transformer-base), and waits for the host to make trees.
TREE_SHARE, TREE_MASK = 0.8, 2**26
# What a part costs beside its tokens, in tokens: the decoder's fixed time for one call.
# A GPU has decoded so many before the host has asked for all that a call consists of.
PART_TOKENS, PART_TOKENS_ON_GPU = 256, 2**12


@dataclass(frozen=True)
class Nodes:
    """The input of one decoder call: S trees, of which the largest has L nodes.

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

    def attention_mask(self, like: Tensor) -> Tensor:
        """Return 0 where a node may look, -inf elsewhere: (S, L, L).

        Args:
            like: a tensor with the dtype and device of the mask.
        """
        assert self.allowed is not None
        seen = self.allowed.to(like.device)
        mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
        return mask.masked_fill(~seen, -torch.inf)


# (S, L, D) features of nodes; the log-probability of each target, (E,), and the mean over the
# vocabulary at each position, (K,), of (K, D) features, targets (E,), positions (E,) and starts, or
# None and None where each position has one target.
Features = Callable[[Nodes], Tensor]
Project = Callable[[Tensor, Tensor, Tensor | None, list[int] | None], tuple[Tensor, Tensor]]


def choose_tree(risk_set: RiskSet, pad: int, share_prefixes: bool, max_tokens: int) -> PrefixTree:
    """Lay out the rows with the least work: one tree a sentence where that pays, else one a row.

    Args:
        share_prefixes: whether the decoder takes an attention mask, which a tree needs.
    """
    lengths = risk_set.lengths_of_scored(pad)
    if share_prefixes and risk_set.tokens.device.type == "cpu":
        tree = prefix_tree(risk_set.on_host[0], lengths)
        if pays(tree, int(lengths.sum()), max_tokens):
            return tree
    return trees_of_rows(lengths, risk_set.tokens.size(-1))


def pays(tree: PrefixTree, targets: int, max_tokens: int) -> bool:
    """Return whether shared prefixes of so many targets are less work than rows, and fit."""
    counts: list[int] = tree.counts.tolist()
    few = sum(counts) <= TREE_SHARE * targets
    parts = plan_parts(counts, max_tokens)
    largest = max(len(part) * counts[part[0]] ** 2 for part in parts)
    fits = not max_tokens or max(counts) <= max_tokens
    return few and fits and largest <= TREE_MASK


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
    device = tokens.device
    cost = PART_TOKENS if device.type == "cpu" else PART_TOKENS_ON_GPU
    parts = [_Part(tree, some) for some in plan_parts(tree.counts.tolist(), max_tokens, cost)]
    padded = sum(part.row.size for part in parts)
    at_once = not 0 < max_tokens < padded
    width = tree.node.shape[2]
    # All that the host knows goes over in one copy.
    sizes = [array.size for part in parts for array in part.arrays]
    joined = np.concatenate([array.reshape(-1) for part in parts for array in part.arrays])
    sent = iter(to_device(joined, device).split(sizes))

    def score_part(part: _Part, own: list[Tensor]) -> Tensor:
        row, depth, real, places, positions = own
        row, depth = row.view(part.row.shape), depth.view(part.row.shape)
        allowed = None if part.allowed is None else to_device(part.allowed, device)
        source = row[:, 0].div(tokens.size(1), rounding_mode="floor")
        inputs = previous.flatten()[row * width + depth]
        # Padding of smaller trees is never projected to the vocabulary.
        found = features(Nodes(source, inputs, depth, allowed, width))
        found = found.flatten(0, 1).index_select(0, real)
        targets = tokens.flatten()[places]
        if allowed is None:  # each node has one target
            own_lprobs, means = project(found, targets, None, None)
        else:
            own_lprobs, means = project(found, targets, positions, part.starts)
            means = means.index_select(0, positions)
        return torch.stack([own_lprobs, means], dim=-1)

    values, places = [], []
    for part in parts:
        own = [next(sent) for _ in part.arrays]
        if at_once:
            values.append(score_part(part, own))
        else:
            values.append(checkpoint(score_part, part, own, use_reentrant=False))
        places.append(own[3])
    found, index = torch.cat(values), torch.cat(places)
    return found.new_zeros(tokens.numel(), 2).index_copy(0, index, found).view(*tokens.shape, 2)


class _Part:
    """The host's arrays of some trees that are decoded together, the largest first.

    Attributes:
        row: (S, L) for each node a row that has its prefix, rows counted through the batch.
        starts: where each node's targets begin, the end last.
        allowed: see :class:`Nodes`.
        arrays: row; depth: (S, L); real: the nodes among S x L that are no padding; places: (E,)
            of the targets among the batch's; positions: (E,) their nodes among the real ones.
    """

    def __init__(self, tree: PrefixTree, part: list[int]) -> None:
        counts = tree.counts[part]
        longest, rows_of_tree = int(counts[0]), tree.node.shape[1]
        first = np.asarray(part)[:, None] * rows_of_tree
        self.row = first + tree.row[part, :longest]
        real = np.flatnonzero(np.arange(longest) < counts[:, None])
        places, positions, self.starts = tree.edges(part)
        self.allowed = tree.ancestors(part, longest) if rows_of_tree > 1 else None
        self.arrays = self.row, tree.depth[part, :longest], real, places, positions


def plan_parts(
    lengths: Sequence[int], max_tokens: int, part_tokens: int | None = None
) -> list[list[int]]:
    """Split rows into parts of similar length, for the least padding.

    Args:
        lengths: tokens of each row; rows of length 0 are left out.
        max_tokens: bound on rows x longest row of a part (0: none); a single longer row is a part
            of its own.
        part_tokens: cost of a part beside its tokens; default: PART_TOKENS.

    Returns:
        row numbers of each part, longest rows first; the parts are those with the least
        sum over parts of rows x longest + part_tokens.
    """
    if part_tokens is None:
        part_tokens = PART_TOKENS
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
            ((starts[end] - starts[i]) * longest + part_tokens + least[end][0], end)
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

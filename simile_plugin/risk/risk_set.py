"""The risk set U(x) as one block of tokens, and how its rows are put through a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.risk.nonfinite import repeats

# What a part costs beside its tokens, in tokens: the decoder's fixed time for one call.
PART_TOKENS = 256


@dataclass
class RiskSet:
    """Reference and candidates of B sentences, in one block.

    Attributes:
        tokens: (B, 1 + N, T) ids, each row ending in eos, padded on the right; the reference is
            row 0, the generator's candidates follow, best first.
        mask: (B, 1 + N) bool, members of the risk set; the reference is one only if asked for.
        tags: tokens that start and end every row of its batch, and are no text.
    """

    tokens: Tensor
    mask: Tensor
    tags: frozenset[int] = frozenset()

    @cached_property
    def on_host(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """``tokens`` and ``mask`` as arrays; the one time that the host waits for them."""
        both = torch.cat([self.tokens, self.mask.unsqueeze(-1).to(self.tokens)], dim=-1)
        array = both.cpu().numpy()
        return array[..., :-1], array[..., -1].astype(bool)

    def part(self, rows: slice, width: int | None = None) -> RiskSet:
        """The lists of some sentences, or of all, and of their targets the first ``width``."""
        found = replace(
            self, tokens=self.tokens[rows, :, :width].contiguous(), mask=self.mask[rows]
        )
        tokens, mask = self.on_host
        found.on_host = tokens[rows, :, :width], mask[rows]
        return found

    def lengths(self, pad: int) -> NDArray[np.int64]:
        """Targets of each row, (B, 1 + N)."""
        found: NDArray[np.int64] = (self.on_host[0] != pad).sum(-1)
        return found

    def sentence_tokens(self, pad: int) -> list[int]:
        """Rows x longest row of each sentence, B numbers."""
        found: list[int] = (self.tokens.size(1) * self.lengths(pad).max(1)).tolist()
        return found


def layout(
    target: Tensor,
    hyps: Tensor,
    found: Tensor,
    include_reference: bool,
    keep_duplicates: bool,
    pad: int,
    eos: int,
) -> RiskSet:
    """Lay out references and n-best lists as one padded block.

    Lists shorter than N, also empty ones, leave rows that are no members. Of equal token
    sequences the first is a member, the others only with ``keep_duplicates``.

    Args:
        target: (B, T') ids of the references, ending in eos, padded on the right.
        hyps: (B, N, T) those of the candidates, best first.
        found: (B, N) bool, False where a list is shorter.
    """
    batch, size, longest = hyps.shape
    width = max(longest, target.size(1))
    tokens = target.new_full((batch, 1 + size, width), pad)
    tokens[:, 0, : target.size(1)] = target
    tokens[:, 1:, :longest] = hyps
    mask = torch.zeros(batch, 1 + size, dtype=torch.bool, device=target.device)
    mask[:, 0] = include_reference
    mask[:, 1:] = found
    # a row of padding only would make attention, then gradients, NaN
    tokens[:, 1:, 0] = torch.where(mask[:, 1:], tokens[:, 1:, 0], eos)
    if not keep_duplicates:
        mask &= ~repeats(tokens, mask)
    return RiskSet(tokens, mask)


def teacher_forcing_input(tokens: Tensor, start: Tensor | int, pad: int) -> Tensor:
    """Decoder input of target rows: shifted right by one, beginning with ``start``.

    Args:
        tokens: (..., T) targets, padded on the right.
        start: first decoder input, an id or a tensor that broadcasts over the rows.

    Returns:
        (..., T); padding wherever the target is padding, as fairseq's collater leaves it.
    """
    shifted = tokens.roll(1, dims=-1)
    shifted[..., 0] = start
    return shifted.masked_fill(tokens.eq(pad), pad)


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

"""The risk set U(x) as one block of tokens, and how its rows are put through a decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass
class RiskSet:
    """Reference and candidates of B sentences, in one block.

    Attributes:
        tokens: (B, 1 + N, T) ids, each row ending in eos, padded on the right; the reference is
            row 0, padding alone where there is none; the generator's candidates follow, best first.
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
        """Return some sentences' lists, and of their targets the first ``width``."""
        found = replace(
            self, tokens=self.tokens[rows, :, :width].contiguous(), mask=self.mask[rows]
        )
        tokens, mask = self.on_host
        found.on_host = tokens[rows, :, :width], mask[rows]
        return found

    def lengths(self, pad: int) -> NDArray[np.int64]:
        """Return the targets of each row, (B, 1 + N)."""
        lengths: NDArray[np.int64] = (self.on_host[0] != pad).sum(-1)
        return lengths

    def lengths_of_scored(self, pad: int) -> NDArray[np.int64]:
        """Return the same, 0 for candidates outside the risk set, which are not scored.

        A list with nothing to score has a token of its first candidate: even if a batch has such
        lists alone, its loss, which does not read it, has a gradient.
        """
        scored = self.on_host[1].copy()
        scored[:, 0] = True
        lengths: NDArray[np.int64] = self.lengths(pad) * scored
        lengths[:, 1] = np.where(lengths.any(1), lengths[:, 1], 1)
        return lengths

    def sentence_tokens(self, pad: int) -> list[int]:
        """Return rows x longest row of each sentence, B numbers."""
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
        target: (B, T') ids of the references, ending in eos, padded on the right; padding alone
            where there is none.
        hyps: (B, N, T) those of the candidates, best first.
        found: (B, N) bool, False where a list is shorter.
    """
    batch, size, longest = hyps.shape
    width = max(longest, target.size(1))
    tokens = target.new_full((batch, 1 + size, width), pad)
    tokens[:, 0, : target.size(1)] = target
    tokens[:, 1:, :longest] = hyps
    mask = torch.zeros(batch, 1 + size, dtype=torch.bool, device=target.device)
    mask[:, 0] = target.ne(pad).any(-1) if include_reference else False
    mask[:, 1:] = found
    # a row of padding only would make attention, then gradients, NaN
    tokens[:, 1:, 0] = torch.where(mask[:, 1:], tokens[:, 1:, 0], eos)
    if not keep_duplicates:
        mask &= ~repeats(tokens, mask)
    return RiskSet(tokens, mask)


def teacher_forcing_input(tokens: Tensor, start: Tensor | int, pad: int) -> Tensor:
    """Return decoder input of target rows: shifted right by one, beginning with ``start``.

    Args:
        tokens: (..., T) targets, padded on the right.
        start: first decoder input, an id or a tensor that broadcasts over the rows.

    Returns:
        (..., T); padding wherever the target is padding, as fairseq's collater leaves it.
    """
    shifted = tokens.roll(1, dims=-1)
    shifted[..., 0] = start
    return shifted.masked_fill(tokens.eq(pad), pad)


def repeats(tokens: Tensor, members: Tensor) -> Tensor:
    """Mark members whose tokens (B, M, T) are those of an earlier one of their list: (B, M)."""
    equal = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).all(-1)
    earlier = torch.ones_like(equal[0]).tril(-1)
    return (equal & earlier & members.unsqueeze(1)).any(-1)

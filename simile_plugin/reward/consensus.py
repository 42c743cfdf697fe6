"""Does a candidate agree with the others of its list? A reward without a reference.

consensus(h) = mean over the other candidates r of the list of chrF(h, r): what minimum Bayes risk
decoding chooses by (Kumar and Byrne 2004), with equal weights. It says nothing of the source, and
what a model is sure of it makes surer: mix it with `source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from simile_plugin.reward.chrf import list_chrf_statistics, sentence_chrf

PAIRS_AT_ONCE = 1 << 15


def consensus_scores(hyps: Sequence[Sequence[str]], members: Tensor) -> Tensor:
    """Compare each string of B lists of N with the members of its list: (B, N) float32 in [0, 1].

    Args:
        members: (B, N) bool, the candidates; a string is not compared with itself. Where there is
            no other, the value is 0.
    """
    width = members.shape[1]
    step = max(1, PAIRS_AT_ONCE // max(1, width * width))
    blocks = [hyps[start : start + step] for start in range(0, len(hyps), step)]
    found = [_all_pairs(block, width) for block in blocks]
    pairs = torch.cat(found) if found else torch.zeros(0, width, width)
    others = members.cpu()[:, None, :] & ~torch.eye(width, dtype=torch.bool)
    return (pairs * others).sum(-1) / others.sum(-1).clamp(min=1)


def _all_pairs(hyps: Sequence[Sequence[str]], width: int) -> Tensor:
    """ChrF of each string of a list against each: (B, N of candidates, N of references)."""
    lists = [row for row in hyps for _ in row]
    found = sentence_chrf(list_chrf_statistics(lists, [*chain.from_iterable(hyps)]))
    return found.view(len(hyps), width, width).transpose(1, 2)

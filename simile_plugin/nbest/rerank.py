"""Reranking: the reward of training of every candidate, by its reference or its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from simile_plugin.nbest.mbr import STRINGS_AT_ONCE
from simile_plugin.nbest.readers import NbestList
from simile_plugin.reward import Scorer
from simile_plugin.significance import Floats


def list_rewards(
    lists: Sequence[NbestList],
    refs: Sequence[str],
    scorer: Scorer,
    progress: Callable[[int], object] | None = None,
) -> list[Floats]:
    """Return the reward of training of each candidate against its reference: (N,) a list."""
    values: list[Floats] = []
    step = max(1, STRINGS_AT_ONCE // max(1, *(len(one.hyps) for one in lists)))
    for start in range(0, len(lists), step):
        block = lists[start : start + step]
        width = max(1, *(len(one.hyps) for one in block))
        hyps = [[*one.hyps, *[""] * (width - len(one.hyps))] for one in block]
        mask = torch.tensor([[n < len(one.hyps) for n in range(width)] for one in block])
        srcs = [one.src or "" for one in block]
        found = scorer.values(hyps, refs[start : start + step], srcs, mask)
        table = found.double().cpu().numpy()
        values += [row[: len(one.hyps)] for row, one in zip(table, block, strict=True)]
        if progress is not None:
            progress(len(block))
    return values

"""The lists of a batch, also where they do not fit into a device's memory at once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import nn

from simile_plugin.search.beam import Hypotheses
from simile_plugin.search.recorder import Recorder

logger = logging.getLogger(__name__)


def within_memory(
    search: Callable[[slice], Hypotheses], rows: slice, recorder: Recorder | None, pad: int
) -> Hypotheses:
    """Return the lists of a batch; of its halves one after the other where memory runs out.

    Args:
        search: of some sentences of the batch.
        rows: the sentences wanted.
        recorder: whose memory the search uses.

    Raises:
        torch.OutOfMemoryError: if the list of one sentence does not fit.
    """
    try:
        return search(rows)
    except torch.OutOfMemoryError:
        if rows.stop - rows.start == 1:
            raise
    # Here, not above: while an exception is handled, its frames hold on to their tensors.
    if recorder is not None:
        recorder.clear()
    logger.warning(
        f"out of memory; making the lists of {rows.stop - rows.start} sentences in two halves"
    )
    middle = (rows.start + rows.stop) // 2
    halves = (slice(rows.start, middle), slice(middle, rows.stop))
    return joined([within_memory(search, half, recorder, pad) for half in halves], pad)


def joined(parts: list[Hypotheses], pad: int) -> Hypotheses:
    """Return the lists of several batches as those of one."""
    longest = max(part.tokens.size(-1) for part in parts)
    tokens = [
        nn.functional.pad(part.tokens, (0, longest - part.tokens.size(-1)), value=pad)
        for part in parts
    ]
    return Hypotheses(torch.cat(tokens), torch.cat([part.scores for part in parts]))

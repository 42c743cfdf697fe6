"""How fast an encoder turns text into vectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from simile_plugin.files import InputError, Progress

SENTENCES, BATCH = 128_000, 128  # of the papers


def measure_speed(
    embed: Callable[[Sequence[str]], torch.Tensor], lines: Sequence[str], total: int = SENTENCES
) -> dict[str, Any]:
    """Time an encoder's ``embed_text`` on the papers' protocol: 128,000 sentences, 128 at a time.

    The lines are repeated, in order, until there are enough; one batch runs untimed before.
    Segmentation is included. On a busy machine the seconds of CPU time are the fairer figure.

    Raises:
        InputError: without lines.
    """
    if not lines:
        raise InputError("--speed: the file has no sentences")
    sentences = [lines[i % len(lines)] for i in range(total)]
    vectors = embed(sentences[:BATCH])
    start, cpu = time.perf_counter(), time.process_time()
    with Progress(total, " sentences") as bar:
        for first in range(0, total, BATCH):
            vectors = embed(sentences[first : first + BATCH])
            bar.update(len(vectors))
    vectors.cpu()  # waits for a GPU
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        **{"sentences": total, "batch": BATCH, "seconds": seconds, "cpu_seconds": cpu},
        **{"device": str(vectors.device), "threads": torch.get_num_threads()},
        "per_second": total / seconds,
    }

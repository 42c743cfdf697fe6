"""How fast an encoder turns text into vectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from simile_plugin.files import InputError

SPEED_SENTENCES, SPEED_BATCH = 128_000, 128  # of the papers


@dataclass(frozen=True)
class EncodingSpeed:
    """How fast an encoder turns text into vectors, segmentation included.

    Attributes:
        cpu_seconds: of the process; on a busy machine the fairer figure.
    """

    sentences: int
    batch: int
    seconds: float
    cpu_seconds: float
    device: str
    threads: int

    @property
    def per_second(self) -> float:
        """Sentences a second."""
        return self.sentences / self.seconds


def measure_speed(
    embed: Callable[[Sequence[str]], torch.Tensor],
    sentences: Sequence[str],
    total: int = SPEED_SENTENCES,
    batch: int = SPEED_BATCH,
    progress: Callable[[int], object] | None = None,
) -> EncodingSpeed:
    """Time an encoder's ``embed_text`` on the papers' protocol: 128,000 sentences, 128 at a time.

    The sentences are repeated, in order, until there are enough; one batch runs untimed before.
    progress is called with the number of sentences just encoded.

    Raises:
        InputError: without sentences.
    """
    if not sentences:
        raise InputError("--speed: the file has no sentences")
    repeated = [sentences[i % len(sentences)] for i in range(total)]
    vectors = embed(repeated[:batch])
    start, cpu = time.perf_counter(), time.process_time()
    for first in range(0, total, batch):
        vectors = embed(repeated[first : first + batch])
        if progress:
            progress(len(vectors))
    vectors.cpu()  # waits for a GPU
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return EncodingSpeed(total, batch, seconds, cpu, str(vectors.device), torch.get_num_threads())

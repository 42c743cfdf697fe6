"""Several processes of one training: what fairseq forgets of them, and what if one is gone?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# What gloo, NCCL and torch's store say when another process ended, stopped or never came.
LOST = (
    *("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Timed out waiting"),
    *("Socket closed", "remote process exited", "NCCL communicator was aborted"),
    "Watchdog caught collective operation timeout",
)
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
MEMORY_ADVICE = (
    "give --risk-max-tokens, or halve --batch-size (--max-tokens) and double --update-freq, and "
    "run the same command again: training goes on from checkpoint_last.pt"
)


def broadcast(
    original: Callable[..., Any], obj: Any, src_rank: int, group: Any, dist_device: torch.device
) -> Any:
    """Replace ``_broadcast_object_slow``: all ranks start from the checkpoint that one has read.

    fairseq sends it through ``torch.load``, with a parsed command line (omegaconf) in it that the
    others' torch >= 2.6 refuses: they die and the first one waits. Here it goes through torch's own
    exchange of objects; it comes from the same job, not from a file.
    """
    held = [obj]
    torch.distributed.broadcast_object_list(held, src_rank, group, dist_device)
    return held[0]


def launch_on_cpu_too(original: Callable[..., None], cfg: Any) -> None:
    """Let torchrun work without a GPU: fairseq divides by the number of GPUs and wants NCCL."""
    if torch.cuda.is_available():
        original(cfg)
        return
    count = torch.cuda.device_count
    torch.cuda.device_count = lambda: 1  # device_id becomes 0
    try:
        original(cfg)
    finally:
        torch.cuda.device_count = count
    cfg.distributed_backend = "gloo"


def fail_where_memory_ends(
    original: Callable[..., Any], trainer: Any, samples: Any, raise_oom: bool = False
) -> Any:
    """Wrap ``Trainer.train_step``: a rank out of memory ends, and the others with it.

    fairseq goes on with the next batch; but then this rank makes fewer collective calls than the
    others, and they wait for it, or add up numbers that do not belong together.
    """
    return original(trainer, samples, raise_oom or trainer.data_parallel_world_size > 1)


def without_empty_batches(
    original: Callable[..., Any], trainer: Any, samples: Any, *args: Any, **kw: Any
) -> Any:
    """Wrap ``Trainer.train_step``: with --update-freq the batches before an empty one count.

    Where the batches of an epoch run out amid an update, a rank's last one is empty, and fairseq
    leaves out the sentences of its others when it divides the gradient, and when it logs.
    """
    real = [sample for sample in samples if sample is not None and len(sample)]
    if real and not trainer.is_fsdp:  # which talks to the other ranks at each batch
        samples = real
    return original(trainer, samples, *args, **kw)


def explain(error: BaseException) -> str | None:
    """Return one line for a lost rank or a full memory, or None for any other error."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in text for words in OUT_OF_MEMORY)
    ):
        return f"out of memory ({text[:160] or 'MemoryError'}); {MEMORY_ADVICE}"
    if not isinstance(error, RuntimeError) or not any(words in text for words in LOST):
        return None
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    return (
        f"rank {rank}: another process of this training ended or does not answer ({text[:120]}); "
        "its own log says why. Run the same command again: training goes on from checkpoint_last.pt"
    )

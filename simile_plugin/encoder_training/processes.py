"""Several processes of a training, started by torchrun: rank, device, and sums over all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.encoder import usable_device
from simile_plugin.encoder_training.bags import Rows, row_numbers


@contextlib.contextmanager
def joined_processes(device: str) -> Iterator[tuple[int, torch.device]]:
    """Join the processes that torchrun started, if it did.

    Yields:
        the number of this process, and its device: with "cuda" each process has a GPU.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, usable_device(device)
        return
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    usable = usable_device(device)
    torch.distributed.init_process_group("nccl" if usable.type == "cuda" else "gloo")
    try:
        yield torch.distributed.get_rank(), usable
    finally:
        torch.distributed.destroy_process_group()


def rank_and_world() -> tuple[int, int]:
    """Return the rank of this process and the number of processes; (0, 1) without torchrun."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def sum_of_rows(rows: Rows, gradient: Tensor) -> tuple[Rows, Tensor]:
    """Return the sum over processes of gradients of some rows each, on all the same bits.

    Args:
        rows: (R,) distinct rows of this process.
        gradient: (R, D).

    Returns:
        the distinct rows of all processes, rising, and the sum of their gradients.
    """
    distributed, world = torch.distributed, torch.distributed.get_world_size()
    device = gradient.device
    sizes = torch.zeros(world, dtype=torch.int64, device=device)
    sizes[distributed.get_rank()] = len(rows)
    distributed.all_reduce(sizes)
    # Processes have different numbers of rows, and all_gather wants equal shapes: pad with -1.
    longest = int(sizes.max())
    padded_rows = torch.full((longest,), -1, dtype=torch.int64, device=device)
    padded_rows[: len(rows)] = row_numbers(rows, device)
    padded = F.pad(gradient, (0, 0, 0, longest - len(rows)))
    all_rows = [torch.empty_like(padded_rows) for _ in range(world)]
    all_gradients = [torch.empty_like(padded) for _ in range(world)]
    distributed.all_gather(all_rows, padded_rows)
    distributed.all_gather(all_gradients, padded)
    given = torch.cat(all_rows)
    kept = given >= 0
    distinct, place = torch.unique(given[kept], return_inverse=True)
    total = torch.zeros(len(distinct), gradient.shape[1], device=device)
    # In the order of the processes: float sums depend on it.
    total.index_add_(0, place, torch.cat(all_gradients)[kept])
    return distinct if isinstance(rows, Tensor) else distinct.cpu().numpy(), total

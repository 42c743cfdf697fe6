"""Log-probabilities and gradients of logits, each in one pass over them on a GPU.

By torch alone each is several kernels, with a float32 copy of half-precision logits: on an H200 the
passes over the logits then take longer than the products that make them. The kernels are Triton's,
which torch brings along for GPUs. Where it is missing, or cannot compile, torch does the same.
"""

from __future__ import annotations

import functools
import logging

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

BLOCK, WARPS = 4096, 8


def log_sums(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each row's target, and log sum_v exp of the row.

    Args:
        logits: (K, V), contiguous.
        targets: (K,) ids.

    Returns:
        (K,) each; float32, or float64 for float64 logits.
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    if not triton_works(logits.device, logits.dtype):
        normalized = torch.log_softmax(logits, dim=-1, dtype=exact)
        return normalized.gather(1, targets.unsqueeze(1)).squeeze(1), row_sums(logits, normalized)
    lprobs, sums = (logits.new_empty(len(logits), dtype=exact) for _ in range(2))
    _log_sums[len(logits),](
        *(logits, targets.contiguous(), lprobs, sums),
        **{"V": logits.size(1), "BLOCK": BLOCK, "num_warps": WARPS},
    )
    return lprobs, sums


def row_sums(logits: Tensor, normalized: Tensor) -> Tensor:
    """Return log sum_v exp of each row from its largest logit; any other may be -inf, or -1e9.

    Args:
        logits, normalized: (K, V), and their log-softmax.
    """
    # The largest of both is the same entry: two amax take half the time of max with its place.
    return logits.amax(-1).to(normalized.dtype) - normalized.amax(-1)


def logit_gradient(
    logits: Tensor, targets: Tensor, sums: Tensor, on_all: Tensor, on_own: Tensor
) -> Tensor:
    """Return d loss / d logits = on_all * softmax(logits), plus on_own at the target.

    On a GPU it overwrites ``logits``.

    Args:
        logits: (K, V), contiguous, and ``targets``: (K,), ``sums``: (K,) as of log_sums.
        on_all, on_own: (K,), in the type of ``sums``.
    """
    if not triton_works(logits.device, logits.dtype):
        # One pass, rounded to the model's type; at the targets, where much may cancel, exact.
        own, sums, on_all, on_own = (x.unsqueeze(1) for x in (targets, sums, on_all, on_own))
        exact = on_all * (logits.gather(1, own) - sums).exp() + on_own
        found = torch.softmax(logits, dim=-1).mul_(on_all)
        return found.scatter_(1, own, exact.to(logits.dtype))
    size = logits.size(1)
    # A gradient may come as a view with gaps, or as one number for all; kernels see none of that.
    rows = (x.contiguous() for x in (targets, sums, on_all, on_own))
    _gradient[len(logits), triton.cdiv(size, BLOCK)](
        logits, *rows, **{"V": size, "BLOCK": BLOCK, "num_warps": WARPS}
    )
    return logits


if triton is not None:

    @triton.jit
    def _log_sums(logits, targets, lprobs, sums, V: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        first = logits + row * V
        top = tl.full((BLOCK,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, V, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            x = tl.load(first + columns, mask=columns < V, other=float("-inf")).to(tl.float32)
            new = tl.maximum(top, x)
            scale = tl.where(top == new, 1.0, tl.exp(top - new))  # no -inf - -inf
            total = total * scale + tl.where(x == float("-inf"), 0.0, tl.exp(x - new))
            top = new
        highest = tl.max(top, 0)
        found = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
        tl.store(sums + row, found)
        own = tl.load(first + tl.load(targets + row)).to(tl.float32)
        tl.store(lprobs + row, own - found)

    @triton.jit
    def _gradient(logits, targets, sums, on_all, on_own, V: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        there = logits + row * V + columns
        x = tl.load(there, mask=columns < V, other=0.0).to(tl.float32)
        found = tl.load(on_all + row) * tl.exp(x - tl.load(sums + row))
        found += tl.where(columns == tl.load(targets + row), tl.load(on_own + row), 0.0)
        tl.store(there, found.to(logits.dtype.element_ty), mask=columns < V)


@functools.cache
def triton_works(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether Triton's kernels run on a device; on a GPU where they do not, warn once.

    They want a C compiler. No kernel here is for float64.
    """
    if device.type != "cuda" or dtype == torch.float64:
        return False
    try:
        if triton is None:
            raise ImportError("it is not installed")
        logits, row = torch.zeros(1, 2, dtype=dtype, device=device), torch.zeros(1, device=device)
        _log_sums[1,](logits, row.long(), row, row, V=2, BLOCK=BLOCK, num_warps=WARPS)
    except Exception as error:  # Triton's own, or of the compiler that it calls
        first = (str(error).splitlines() or [type(error).__name__])[0]
        logger.warning(f"no Triton, so that searches and scoring are slower: {first}")
        return False
    return True

# mypy: ignore-errors
"""Small kernels for a GPU: the best of each row of logits, read little more than once; a residual
and its layer norm.

Blocks of the vocabulary are looked through for their maxima, and for the row's log-sum-exp; then
the best tokens are looked for in as many blocks as are wanted, as in continuations.block_topk.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

BLOCK = 128


def best_of_rows(logits: Tensor, k: int, left_out: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The k best log-probabilities of (R, V) rows, best first, and their tokens.

    Args:
        logits: on a GPU, each row of them contiguous.
        left_out: tokens that are not chosen, but that the others are normalised with; -1: none.

    Returns:
        (R, k) float32 and int64; -inf where a row is NaN. Of equal logits the first token is first.
    """
    rows, width = logits.shape
    blocks = triton.cdiv(width, BLOCK)
    sums = logits.new_empty(rows, dtype=torch.float32)
    maxima = logits.new_empty(rows, blocks, dtype=torch.float32)
    best = logits.new_empty(rows, k, dtype=torch.float32)
    tokens = logits.new_empty(rows, k, dtype=torch.int64)
    sizes = (width, blocks, *left_out)
    given = (logits, logits.stride(0), sums, maxima)
    _blocks[(rows,)](*given, *sizes, BLOCK=BLOCK, CHUNK=4096, num_warps=4)
    powers = {"K": triton.next_power_of_2(k), "BLOCKS": triton.next_power_of_2(blocks)}
    _choice[(rows,)](*given, best, tokens, *sizes, k, BLOCK=BLOCK, **powers, num_warps=4)
    return best, tokens


def added_and_normed(x: Tensor, change: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """x + change, and what the norm makes of it.

    Args:
        x, change: (.., width), contiguous.
        norm: with weight and bias.
    """
    total = x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, change.dtype))
    normed = torch.empty_like(total)
    width = x.size(-1)
    _added[(x.numel() // width,)](
        *(x, change, total, normed, norm.weight, norm.bias, width, norm.eps),
        WIDTH=triton.next_power_of_2(width),
        num_warps=4,
    )
    return total, normed


@triton.jit
def _added(x, change, total, normed, weight, bias, width, eps, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    there = at < width
    places = tl.program_id(0).to(tl.int64) * width + at
    left = tl.load(x + places, mask=there, other=0.0).to(tl.float32)
    right = tl.load(change + places, mask=there, other=0.0).to(tl.float32)
    summed = (left + right).to(total.dtype.element_ty)
    tl.store(total + places, summed, mask=there)
    value = summed.to(tl.float32)
    centred = tl.where(there, value - tl.sum(value, 0) / width, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
    factor = tl.load(weight + at, mask=there, other=0.0).to(tl.float32)
    shift = tl.load(bias + at, mask=there, other=0.0).to(tl.float32)
    tl.store(
        normed + places, (centred * scale * factor + shift).to(total.dtype.element_ty), mask=there
    )


@triton.jit
def _blocks(logits, stride, sums, maxima, width, blocks, first_out, second_out,
            BLOCK: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    low = -float("inf")
    largest = low
    total = 0.0
    for start in range(0, width, CHUNK):
        tokens = start + tl.arange(0, CHUNK)
        x = tl.load(logits + row * stride + tokens, mask=tokens < width, other=low).to(tl.float32)
        found = tl.maximum(largest, tl.max(x, 0))
        base = tl.where(found == low, 0.0, found)  # where all are -inf
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(x - base), 0)
        largest = found
        x = tl.where((tokens == first_out) | (tokens == second_out), low, x)
        best = tl.max(tl.reshape(x, (CHUNK // BLOCK, BLOCK)), 1)
        places = start // BLOCK + tl.arange(0, CHUNK // BLOCK)
        tl.store(maxima + row * blocks + places, best, mask=places < blocks)
    tl.store(sums + row, largest + tl.log(total))


@triton.jit
def _choice(logits, stride, sums, maxima, best, tokens, width, blocks, first_out, second_out, k,
            BLOCK: tl.constexpr, K: tl.constexpr, BLOCKS: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    low = -float("inf")
    numbers = tl.arange(0, BLOCKS)
    left = numbers < blocks
    top = tl.load(maxima + row * blocks + numbers, mask=left, other=low)
    chosen = tl.full((K,), BLOCKS, tl.int32)
    for place in range(k):
        largest = tl.max(tl.where(left, top, low), 0)
        block = tl.min(tl.where(left & (top == largest), numbers, BLOCKS), 0)
        chosen = tl.where(tl.arange(0, K) == place, block, chosen)
        left = left & (numbers != block)
    ids = chosen[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (chosen[:, None] < BLOCKS) & (ids < width)
    x = tl.load(logits + row * stride + ids, mask=inside, other=low).to(tl.float32)
    x = tl.where((ids == first_out) | (ids == second_out), low, x)
    x = tl.reshape(x, (K * BLOCK,))
    ids = tl.reshape(ids, (K * BLOCK,))
    left = tl.reshape(inside, (K * BLOCK,))
    normaliser = tl.load(sums + row)
    for place in range(k):
        largest = tl.max(tl.where(left, x, low), 0)
        token = tl.min(tl.where(left & (x == largest), ids, width), 0)
        value = largest - normaliser
        tl.store(best + row * k + place, tl.where(value == value, value, low))  # NaN is none
        tl.store(tokens + row * k + place, tl.minimum(token, width - 1).to(tl.int64))
        left = left & (ids != token)

"""Log-probabilities of target tokens without a positions x vocabulary tensor, and their loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from simile_plugin.risk.logit_kernels import log_sums, logit_gradient, row_sums

# Logits alive at once on a CPU: 2^22 are 16 MiB in float32. Larger slices gain no time, smaller
# ones lose. On a GPU fewer and larger ones: this share of its memory, at most so many. A share of
# all its memory, not of what is free, so that the same seed gives the same sums again.
SLICE_LOGITS = 2**22
MEMORY_SHARE, MOST_LOGITS = 256, 2**27
# Logits that the forward pass keeps on a CPU: 2^26 are 256 MiB in float32. More are computed again.
KEPT_LOGITS = 2**26


class _TokenLogits(torch.autograd.Function):
    """log p of targets and log sum_v exp of the logits, in slices of K positions.

    With p = softmax(logits): d(log p_t) = onehot - p and d(logsumexp) = p. The backward pass needs
    p of one slice at a time: kept if it is small, else computed again. Position k has the targets
    from starts[k] to starts[k + 1]; with positions None it has one, the k-th.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        positions: Tensor | None,
        starts: Sequence[int] | None,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(features.dtype, torch.float32)
        lprobs = features.new_empty(len(targets), dtype=exact)
        sums = features.new_empty(len(features), dtype=exact)
        kept = []
        for part in _slices(features, len(weight)):
            logits = nn.functional.linear(features[part], weight, bias)
            if positions is None or starts is None:
                lprobs[part], sums[part] = log_sums(logits, targets[part])
                held = logits
            else:
                held = torch.log_softmax(logits, dim=-1, dtype=exact)
                sums[part] = row_sums(logits, held)
                some = slice(starts[part.start], starts[part.stop])
                lprobs[some] = held[positions[some] - part.start, targets[some]]
            if keep:
                kept.append(held)
            del logits, held  # before there are those of the next slice
        ctx.save_for_backward(features, weight, bias, targets, positions, sums, *kept)
        ctx.starts = starts
        return lprobs, sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_lprobs: Tensor, grad_sums: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias, targets, positions, sums, *kept = ctx.saved_tensors
        grad_features = torch.empty_like(features)
        grad_weight: Tensor | None = None
        grad_bias: Tensor | None = None
        if positions is None:
            on_all = grad_sums - grad_lprobs
        else:
            on_all = grad_sums.index_add(0, positions, grad_lprobs, alpha=-1)
        for number, part in enumerate(_slices(features, len(weight))):
            if kept:
                grad = kept[number]
            else:
                grad = nn.functional.linear(features[part], weight, bias)
            if positions is None:
                rows = targets[part], sums[part], on_all[part], grad_lprobs[part]
                grad = logit_gradient(grad, *rows)
            else:
                if kept:
                    grad = grad.exp()
                else:
                    grad = grad.to(sums.dtype).sub_(sums[part].unsqueeze(-1)).exp_()
                grad.mul_(on_all[part].unsqueeze(-1))
                some = slice(ctx.starts[part.start], ctx.starts[part.stop])
                where = (positions[some] - part.start, targets[some])
                grad.index_put_(where, grad_lprobs[some], accumulate=True)
                grad = grad.to(features.dtype)
            torch.mm(grad, weight, out=grad_features[part])
            if bias is not None:
                own_bias = grad.sum(0, dtype=sums.dtype)
                grad_bias = own_bias if grad_bias is None else grad_bias.add_(own_bias)
            # Slices are summed up in float32 also where the model is half precision.
            if grad_weight is None:
                grad_weight = grad.t() @ features[part]
            elif grad_weight.dtype == features.dtype == sums.dtype:
                grad_weight.addmm_(grad.t(), features[part])
            else:
                grad_weight = grad_weight.to(sums.dtype).add_(grad.t() @ features[part])
            del grad
        grad_weight = torch.zeros_like(weight) if grad_weight is None else grad_weight
        grad_bias = None if grad_bias is None else grad_bias.to(weight.dtype)
        return grad_features, grad_weight.to(weight.dtype), grad_bias, None, None, None, None


def _slices(features: Tensor, vocabulary: int) -> Iterator[slice]:
    step = max(1, slice_logits(features) // vocabulary)
    for start in range(0, len(features), step):
        yield slice(start, min(start + step, len(features)))


def slice_logits(like: Tensor) -> int:
    """Return how many logits are alive at once, of a tensor's type on its device."""
    if like.device.type != "cuda":
        return SLICE_LOGITS
    memory = torch.cuda.get_device_properties(like.device).total_memory
    return min(MOST_LOGITS, memory // MEMORY_SHARE // like.element_size())


def token_lprobs(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    positions: Tensor | None = None,
    starts: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of targets under softmax(features W' + b), without a K x V tensor.

    Args:
        features: (K, D) decoder output.
        weight: (V, D) output embedding; ``bias``: (V,) or None.
        targets: (E,) ids.
        positions: (E,) position of each target, in order, and ``starts``: where each position's
            targets begin, the end last. Without them E = K: one target each.

    Returns:
        (E,) log-probability of each target, (K,) mean log-probability over the vocabulary (which
        label smoothing needs); float32, or float64 for a float64 model.
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        features, weight = features.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    with torch.autocast(device, enabled=False):
        # On a GPU computing logits again costs less than the memory to keep them.
        keep = device == "cpu" and len(features) * len(weight) <= KEPT_LOGITS
        lprobs, sums = _TokenLogits.apply(features, weight, bias, targets, positions, starts, keep)
        # The mean of the logits is the logit of the mean output vector: D numbers, not V.
        means = features.to(sums.dtype) @ weight.mean(0, dtype=sums.dtype)
        if bias is not None:
            means = means + bias.mean(dtype=sums.dtype)
    return lprobs, means - sums


def label_smoothed_nll(
    lprobs: Tensor, means: Tensor, smoothing: float, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """L_TokLS times the tokens: a reference's label-smoothed negative log-likelihood.

    fairseq's smoothing: eps / (V - 1) on each wrong token, 1 - eps on the right one.

    Args:
        lprobs: (B, T) log-probability of the reference's tokens, 0 at padding.
        means: (B, T) mean log-probability over the vocabulary, 0 at padding.
        smoothing: eps, from 0 to below 1.
        vocabulary: V.

    Returns:
        (B,) smoothed loss, (B,) negative log-likelihood; both in nats, summed over tokens.
    """
    each = smoothing / (vocabulary - 1)
    nll, smooth = -lprobs.sum(-1), -vocabulary * means.sum(-1)
    return (1 - smoothing - each) * nll + each * smooth, nll

"""The second scoring of a risk set: with gradient, in one model call, without full logits.

fairseq's way keeps B x N x T x V log-probabilities in float32 for the backward pass. Here each
source is encoded once, padding is never projected to the vocabulary, and the projection runs in
slices that are computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from simile_plugin.candidates import RiskSet, unwrap

# Decoders whose last step is known to be a linear projection; their subclasses too, as long as
# they inherit that step. Any other decoder is asked for its logits.
KNOWN_DECODERS = {
    "fairseq.models.fairseq_decoder",  # an output_layer that the fconv never calls
    "fairseq.models.fconv",
    "fairseq.models.lstm",
    "fairseq.models.transformer.transformer_decoder",
}
# Logits alive at once: 2^22 are 16 MiB in float32. Larger slices gain no time, smaller ones lose.
SLICE_LOGITS = 2**22
# Softmax values that the forward pass keeps: 2^26 are 256 MiB in float32. More are computed again.
KEPT_LOGITS = 2**26
# What a part costs beside its tokens, in tokens: the decoder's fixed time for one call.
PART_TOKENS = 256


def teacher_forcing_input(tokens: Tensor, start: Tensor | int, pad: int) -> Tensor:
    """Decoder input of target rows: shifted right by one, beginning with ``start``.

    Args:
        tokens: (..., T) targets, padded on the right.
        start: first decoder input, an id or a tensor that broadcasts over the rows.

    Returns:
        (..., T); padding wherever the target is padding, as fairseq's collater leaves it.
    """
    shifted = tokens.roll(1, dims=-1)
    shifted[..., 0] = start
    return shifted.masked_fill(tokens.eq(pad), pad)


class _TokenLogits(torch.autograd.Function):
    """log p of each target and log sum_v exp of its logits, in slices of K positions.

    With p = softmax(logits): d(log p_t) = onehot - p and d(logsumexp) = p. The backward pass needs
    p of one slice at a time: kept if it is small, else computed again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(features.dtype, torch.float32)
        lprobs = features.new_empty(len(targets), dtype=exact)
        sums = torch.empty_like(lprobs)
        kept = []
        for part in _slices(len(targets), len(weight)):
            logits = nn.functional.linear(features[part], weight, bias)
            on_targets = logits.gather(-1, targets[part].unsqueeze(-1)).to(exact)
            normalized = torch.log_softmax(logits, dim=-1, dtype=exact)
            found = normalized.gather(-1, targets[part].unsqueeze(-1))
            lprobs[part], sums[part] = found.squeeze(-1), (on_targets - found).squeeze(-1)
            if keep:
                kept.append(normalized)
        ctx.save_for_backward(features, weight, bias, targets, sums, *kept)
        return lprobs, sums

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_lprobs: Tensor, grad_sums: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, None, None]:
        features, weight, bias, targets, sums, *kept = ctx.saved_tensors
        grad_features = torch.empty_like(features)
        # Slices are summed up in float32 also where the model is half precision.
        grad_weight = torch.zeros_like(weight, dtype=sums.dtype)
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=sums.dtype)
        on_all = (grad_sums - grad_lprobs).unsqueeze(-1)
        for number, part in enumerate(_slices(len(targets), len(weight))):
            if kept:
                grad = kept[number].exp()
            else:
                grad = nn.functional.linear(features[part], weight, bias).to(sums.dtype)
                grad.sub_(sums[part].unsqueeze(-1)).exp_()
            grad.mul_(on_all[part])
            grad.scatter_add_(1, targets[part].unsqueeze(-1), grad_lprobs[part].unsqueeze(-1))
            if grad_bias is not None:
                grad_bias += grad.sum(0)
            grad = grad.to(features.dtype)
            grad_features[part] = grad @ weight
            if grad_weight.dtype == features.dtype:
                grad_weight.addmm_(grad.t(), features[part])
            else:
                grad_weight += grad.t() @ features[part]
        grad_bias = None if grad_bias is None else grad_bias.to(weight.dtype)
        return grad_features, grad_weight.to(weight.dtype), grad_bias, None, None


def _slices(positions: int, vocabulary: int) -> Iterator[slice]:
    step = max(1, SLICE_LOGITS // vocabulary)
    for start in range(0, positions, step):
        yield slice(start, start + step)


def token_lprobs(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of targets under softmax(features W' + b), without a K x V tensor.

    Args:
        features: (K, D) decoder output.
        weight: (V, D) output embedding; ``bias``: (V,) or None.
        targets: (K,) ids.

    Returns:
        (K,) log-probability of each target, (K,) mean log-probability over the vocabulary (which
        label smoothing needs); float32, or float64 for a float64 model.
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        features, weight = features.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    with torch.autocast(device, enabled=False):
        keep = len(targets) * len(weight) <= KEPT_LOGITS
        lprobs, sums = _TokenLogits.apply(features, weight, bias, targets, keep)
        # The mean of the logits is the logit of the mean output vector: D numbers, not V.
        means = features.to(sums.dtype) @ weight.mean(0, dtype=sums.dtype)
        if bias is not None:
            means = means + bias.mean(dtype=sums.dtype)
    return lprobs, means - sums


def output_projection(decoder: Any) -> tuple[Any, str, Any] | None:
    """Where a decoder turns features into logits.

    Returns:
        the object and the name of its method that is called with the features, and the module
        that holds weight and bias; None for decoders that may do something else.
    """
    steps = [getattr(type(decoder), name, None) for name in ("forward", "output_layer")]
    if not {step.__module__ for step in steps if step is not None} <= KNOWN_DECODERS:
        return None
    for name in ("output_projection", "fc3", "fc_out"):  # transformer, fconv, lstm
        linear = getattr(decoder, name, None)
        if isinstance(linear, nn.Linear):
            return linear, "forward", linear
    return decoder, "output_layer", decoder.embed_tokens  # an lstm that shares its embedding


@contextmanager
def replaced(owner: nn.Module, method: str, function: Callable[..., Any]) -> Iterator[None]:
    """Within the block ``owner.method`` is ``function``, for this object only."""
    setattr(owner, method, function)
    try:
        yield
    finally:
        delattr(owner, method)


def copied(encoder_out: Any) -> Any:
    """A copy whose containers ``reorder_encoder_out`` may change in place."""
    if not isinstance(encoder_out, dict):
        return encoder_out
    return {
        key: list(value) if isinstance(value, list) else value for key, value in encoder_out.items()
    }


def plan_parts(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Split rows into parts of similar length, for the least padding.

    Args:
        lengths: tokens of each row; rows of length 0 are left out.
        max_tokens: bound on rows x longest row of a part (0: none); a single longer row is a part
            of its own.

    Returns:
        row numbers of each part, longest rows first; the parts are those with the least
        sum over parts of rows x longest + PART_TOKENS.
    """
    order = sorted((row for row in range(len(lengths)) if lengths[row]), key=lambda r: -lengths[r])
    # A part may begin where the length changes, or wherever a bound makes it end.
    step = max(1, max_tokens // max(lengths)) if max_tokens and order else len(order)
    starts = [
        place
        for place, row in enumerate(order)
        if not place or lengths[row] < lengths[order[place - 1]] or place % step == 0
    ]
    starts.append(len(order))
    # least[i]: the least cost of the rows from starts[i] on, and where their first part ends
    least = [(0, 0)] * len(starts)
    for i in range(len(starts) - 2, -1, -1):
        longest = lengths[order[starts[i]]]
        choices = [
            ((starts[end] - starts[i]) * longest + PART_TOKENS + least[end][0], end)
            for end in range(i + 1, len(starts))
            if end == i + 1 or not max_tokens or (starts[end] - starts[i]) * longest <= max_tokens
        ]
        least[i] = min(choices)
    parts, i = [], 0
    while i < len(starts) - 1:
        end = least[i][1]
        parts.append(order[starts[i] : starts[end]])
        i = end
    return parts


class _RowDecoder:
    """Stands in for ``decoder.forward`` in one model call: encoder output of B sentences, and
    B x (1 + N) target rows, to token log-probabilities.

    Args:
        model: the fairseq model, unwrapped.
        tokens: (R, T) target rows; ``lengths``: their lengths, 0 for rows that are not scored.
        sentence_rows: rows a sentence, 1 + N.
        max_tokens: see :func:`plan_parts`.
    """

    def __init__(
        self, model: Any, tokens: Tensor, lengths: list[int], sentence_rows: int, max_tokens: int
    ) -> None:
        self.model, self.tokens, self.lengths = model, tokens, lengths
        self.sentence_rows = sentence_rows
        self.parts = plan_parts(lengths, max_tokens)
        padded = sum(len(part) * lengths[part[0]] for part in self.parts)
        self.again = 0 < max_tokens < padded
        self.forward = model.decoder.forward

    def __call__(self, previous: Tensor, encoder_out: Any = None, **kwargs: Any) -> Tensor:
        """Log-probabilities (R x T, 2): of each target, and their mean over the vocabulary."""
        width = self.tokens.size(1)
        values, places = [], []
        for rows in self.parts:
            places += [row * width + t for row in rows for t in range(self.lengths[row])]
            arguments = (previous, encoder_out, rows, kwargs)
            if self.again:  # nothing but the part's inputs is kept for its backward pass
                values.append(checkpoint(self._part, *arguments, use_reentrant=False))
            else:
                values.append(self._part(*arguments))
        found = torch.cat(values)
        index = torch.tensor(places).to(found.device)
        return found.new_zeros(self.tokens.numel(), 2).index_copy(0, index, found)

    def _part(self, previous: Tensor, encoder_out: Any, rows: list[int], kwargs: Any) -> Tensor:
        longest, device = self.lengths[rows[0]], self.tokens.device
        places = [i * longest + t for i, row in enumerate(rows) for t in range(self.lengths[row])]
        real = torch.tensor(places).to(device)
        chosen = torch.tensor(rows).to(device)
        sources = self.model.encoder.reorder_encoder_out(
            copied(encoder_out), chosen.div(self.sentence_rows, rounding_mode="floor")
        )
        tokens = self.tokens.index_select(0, chosen)[:, :longest]
        previous = previous.index_select(0, chosen)[:, :longest]
        targets = tokens.reshape(-1).index_select(0, real)
        return torch.stack(self._decode(previous, sources, targets, real, kwargs), dim=-1)

    def _decode(
        self, previous: Tensor, encoder_out: Any, targets: Tensor, real: Tensor, kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        def run() -> Any:
            return self.forward(previous, encoder_out=encoder_out, **kwargs)

        found = output_projection(self.model.decoder)
        if found is not None:
            owner, method, holder = found
            with replaced(owner, method, lambda features: features):
                features = run()[0]
            weight, bias = holder.weight, getattr(holder, "bias", None)
            features = features.reshape(-1, features.size(-1)).index_select(0, real)
            return token_lprobs(features, weight, bias, targets)
        lprobs = self.model.get_normalized_probs(run(), log_probs=True)
        lprobs = lprobs.reshape(-1, lprobs.size(-1)).index_select(0, real)
        lprobs = lprobs.to(torch.promote_types(lprobs.dtype, torch.float32))
        return lprobs.gather(-1, targets.unsqueeze(-1)).squeeze(-1), lprobs.mean(-1)


def score_rows(
    model: nn.Module,
    sample: dict[str, Any],
    risk_set: RiskSet,
    pad: int,
    max_tokens: int = 0,
) -> tuple[Tensor, Tensor]:
    """Score reference and candidates with gradient: one model call, each source encoded once.

    Args:
        model: fairseq's model, in its distributed wrapper if there is one.
        sample: the batch; left as it is.
        pad: id of padding.
        max_tokens: bound on the padded target tokens decoded at once (0: none); the parts are
            decoded again in the backward pass.

    Returns:
        (B, 1 + N, T) log-probabilities of the targets, 0 at padding and at candidates outside the
        risk set; (B, T) mean log-probability over the vocabulary at each target of the reference.
        float32, or float64 for a float64 model.
    """
    batch, rows, width = risk_set.tokens.shape
    wanted = risk_set.mask.clone()
    wanted[:, 0] = True
    lengths = (risk_set.tokens.ne(pad).sum(-1) * wanted).flatten().tolist()
    tokens = risk_set.tokens.view(batch * rows, width)
    decoder = _RowDecoder(unwrap(model), tokens, lengths, rows, max_tokens)
    found = _call(model, sample, decoder, pad)
    found = found.view(batch, rows, width, 2)
    return found[..., 0], found[:, 0, :, 1]


def _call(model: nn.Module, sample: dict[str, Any], decoder: _RowDecoder, pad: int) -> Tensor:
    net_input = dict(sample["net_input"])
    start = net_input["prev_output_tokens"][:, :1].repeat_interleave(decoder.sentence_rows, 0)
    net_input["prev_output_tokens"] = teacher_forcing_input(decoder.tokens, start.squeeze(1), pad)
    with replaced(decoder.model.decoder, "forward", decoder):
        found: Tensor = model(**net_input)
    return found

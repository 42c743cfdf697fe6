"""The second scoring of a risk set: with gradient, in one model call, without full logits.

fairseq's way keeps B x N x T x V log-probabilities in float32 for the backward pass. Here each
source is encoded once, a prefix that several rows share is decoded once (by transformers), padding
is never projected to the vocabulary, and the projection runs in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from simile_plugin.fairseq_training.candidates import RiskSet, unwrap
from simile_plugin.risk import attention_mask, prefix_tree, token_lprobs

# Decoders whose last step is known to be a linear projection; their subclasses too, as long as
# they inherit that step. Any other decoder is asked for its logits.
KNOWN_DECODERS = {
    "fairseq.models.fairseq_decoder",  # an output_layer that the fconv never calls
    "fairseq.models.fconv",
    "fairseq.models.lstm",
    "fairseq.models.transformer.transformer_decoder",
}
# Decoders whose rows may be laid out as trees: what they do with an attention mask is known.
TREE_DECODERS = {
    "fairseq.models.transformer.transformer_decoder",
    "fairseq.modules.transformer_layer",
}
# A tree is decoded where it has at most this share of its rows' tokens, and where its attention
# masks have at most so many entries.
TREE_SHARE, TREE_MASK = 0.8, 2**26
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


Output = tuple[Tensor, None]  # as fairseq's decoders return it: with what BART takes apart


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

    def __call__(self, previous: Tensor, encoder_out: Any = None, **kwargs: Any) -> Output:
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
        return found.new_zeros(self.tokens.numel(), 2).index_copy(0, index, found), None

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


class _TreeDecoder:
    """As :class:`_RowDecoder`, with each prefix that rows of a sentence share decoded once.

    A sentence is one sequence of nodes, each of which attends to its own prefixes. Under dropout
    the rows that share a prefix share its masks.
    """

    def __init__(
        self, model: Any, tokens: Tensor, lengths: list[int], sentence_rows: int, max_tokens: int
    ) -> None:
        self.model, self.tokens, self.sentence_rows = model, tokens, sentence_rows
        blocks = tokens.view(-1, sentence_rows, tokens.size(1))
        self.lengths = np.asarray(lengths).reshape(blocks.shape[:2])
        self.tree = prefix_tree(blocks, self.lengths)
        self.counts = self.tree.counts.tolist()
        self.parts = plan_parts(self.counts, max_tokens)
        padded = sum(len(part) * self.counts[part[0]] for part in self.parts)
        self.again = 0 < max_tokens < padded
        self.forward = model.decoder.forward
        self.heads = model.decoder.layers[0].self_attn.num_heads

    def pays(self, max_tokens: int) -> bool:
        """Whether it is less work than row by row, and within the bounds on memory."""
        few = sum(self.counts) <= TREE_SHARE * int(self.lengths.sum())
        largest = max(len(part) * self.counts[part[0]] ** 2 for part in self.parts)
        fits = not max_tokens or max(self.counts) <= max_tokens
        return few and fits and self.heads * largest <= TREE_MASK

    def __call__(self, previous: Tensor, encoder_out: Any = None, **kwargs: Any) -> Output:
        """Log-probabilities (R x T, 2): of each target, and their mean over the vocabulary."""
        values, places = [], []
        for part in self.parts:
            edges = self.tree.edges(part)
            arguments = (previous, encoder_out, part, edges, kwargs)
            if self.again:
                values.append(checkpoint(self._part, *arguments, use_reentrant=False))
            else:
                values.append(self._part(*arguments))
            places.append(edges[0])
        found = torch.cat(values)
        index = torch.from_numpy(np.concatenate(places)).to(found.device)
        return found.new_zeros(self.tokens.numel(), 2).index_copy(0, index, found), None

    def _part(
        self,
        previous: Tensor,
        encoder_out: Any,
        part: list[int],
        edges: tuple[Any, Any, list[int]],
        kwargs: Any,
    ) -> Tensor:
        decoder, device, tree = self.model.decoder, self.tokens.device, self.tree
        longest = self.counts[part[0]]
        chosen = torch.tensor(part).to(device)
        sources = self.model.encoder.reorder_encoder_out(copied(encoder_out), chosen)
        depth = torch.from_numpy(tree.depth[part, :longest]).to(device)
        rows = torch.from_numpy(tree.row[part, :longest]).to(device)
        width = previous.size(1)
        inputs = previous.flatten()[
            ((chosen.unsqueeze(1) * self.sentence_rows) + rows) * width + depth
        ]
        _, method, holder = output_projection(decoder) or (None, "", None)
        assert holder is not None and method
        allowed = tree.ancestors(part, longest)
        mask: list[Tensor] = []

        def future_mask(states: Tensor) -> Tensor:
            if not mask:
                mask.append(attention_mask(allowed, self.heads, states))
            return mask[0]

        with ExitStack() as stack:
            stack.enter_context(replaced(decoder, "buffered_future_mask", future_mask))
            if decoder.embed_positions is not None:
                line = inputs[:1, :1].expand(1, width)
                table = decoder.embed_positions(line)[0]
                found = nn.functional.embedding(depth, table)
                stack.enter_context(
                    replaced(decoder.embed_positions, "forward", lambda *_, **__: found)
                )
            features = self.forward(
                inputs,
                encoder_out=sources,
                **kwargs | {"features_only": True, "alignment_layer": -1},
            )[0]
        real = [i * longest + k for i, row in enumerate(part) for k in range(self.counts[row])]
        features = features.reshape(-1, features.size(-1))
        features = features.index_select(0, torch.tensor(real).to(device))
        places, nodes, starts = edges
        targets = self.tokens.flatten()[torch.from_numpy(places).to(device)]
        positions = torch.from_numpy(nodes).to(device)
        weight, bias = holder.weight, getattr(holder, "bias", None)
        lprobs, means = token_lprobs(features, weight, bias, targets, positions, starts)
        return torch.stack([lprobs, means.index_select(0, positions)], dim=-1)


def takes_trees(decoder: Any) -> bool:
    """Whether prefixes may be laid out as trees: fairseq's transformer decoder and its layers."""
    if output_projection(decoder) is None or getattr(decoder, "cross_self_attention", True):
        return False
    names = ("forward", "extract_features", "extract_features_scriptable", "buffered_future_mask")
    steps = [getattr(type(decoder), name, None) for name in names]
    steps += [getattr(type(layer), "forward", None) for layer in decoder.layers]
    if not {getattr(step, "__module__", "") for step in steps} <= TREE_DECODERS:
        return False
    return len({layer.self_attn.num_heads for layer in decoder.layers}) == 1


def row_decoder(
    model: Any, tokens: Tensor, lengths: list[int], sentence_rows: int, max_tokens: int
) -> _RowDecoder | _TreeDecoder:
    """What decodes the rows with the least work."""
    arguments = (model, tokens, lengths, sentence_rows, max_tokens)
    if takes_trees(model.decoder):
        tree = _TreeDecoder(*arguments)
        if tree.pays(max_tokens):
            return tree
    return _RowDecoder(*arguments)


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
    decoder = row_decoder(unwrap(model), tokens, lengths, rows, max_tokens)
    found = _call(model, sample, decoder, pad)
    found = found.view(batch, rows, width, 2)
    return found[..., 0], found[:, 0, :, 1]


def _call(
    model: nn.Module, sample: dict[str, Any], decoder: _RowDecoder | _TreeDecoder, pad: int
) -> Tensor:
    net_input = dict(sample["net_input"])
    start = net_input["prev_output_tokens"][:, :1].repeat_interleave(decoder.sentence_rows, 0)
    net_input["prev_output_tokens"] = teacher_forcing_input(decoder.tokens, start.squeeze(1), pad)
    with replaced(decoder.model.decoder, "forward", decoder):
        found: Tensor = model(**net_input)[0]
    return found

"""The second scoring of a risk set by fairseq's models: with gradient, in one model call.

fairseq's way keeps B x N x T x V log-probabilities in float32 for the backward pass. Here each
source is encoded once, a prefix that several rows share is decoded once (by transformers), padding
is never projected to the vocabulary, and the projection runs in slices.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from fairseq.modules import LayerDropModuleList
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from simile_plugin.fairseq_training.decoders import KnownDecoder, known
from simile_plugin.fairseq_training.steps import without_padding
from simile_plugin.risk import (
    Nodes,
    RiskSet,
    choose_tree,
    replaced,
    score_nodes,
    teacher_forcing_input,
    token_lprobs,
    unwrap,
)


def copied(encoder_out: Any) -> Any:
    """Return a copy whose containers ``reorder_encoder_out`` may change in place."""
    if not isinstance(encoder_out, dict):
        return encoder_out
    return {
        key: list(value) if isinstance(value, list) else value for key, value in encoder_out.items()
    }


class _NodeDecoder:
    """A fairseq decoder within one model call, as risk.score_nodes asks it.

    A tree is one sequence of nodes with one encoder output. There is one a row or, where the
    decoder's attention mask can tell rows apart, one a sentence: a node attends to its own
    prefixes, and under dropout the rows that share a prefix share its masks.

    Args:
        model: the fairseq model, unwrapped.
        forward: its decoder's own.
        encoder_out, kwargs: what the model calls the decoder with.
    """

    def __init__(
        self,
        model: Any,
        known: KnownDecoder,
        forward: Any,
        encoder_out: Any,
        kwargs: dict[str, Any],
    ) -> None:
        self.model, self.known, self.forward = model, known, forward
        self.encoder_out, self.kwargs = encoder_out, kwargs
        # Under --decoder-layerdrop each iteration draws: one for all parts.
        self.layers = list(getattr(model.decoder, "layers", []))

    def features(self, nodes: Nodes) -> Tensor:
        """Return what goes into the output layer, or log-probabilities where it is not known."""
        decoder, projection = self.model.decoder, self.known.projection
        if self.known.plain_layers:
            return transformer_features(decoder, self.layers, nodes, self.encoder_out)
        sources = self.model.encoder.reorder_encoder_out(copied(self.encoder_out), nodes.source)
        with ExitStack() as stack:
            # Padding comes last in a row, where no target looks, or not at all.
            stack.enter_context(without_padding(decoder))
            if isinstance(getattr(decoder, "layers", None), LayerDropModuleList):
                stack.enter_context(replaced(decoder, "layers", nn.ModuleList(self.layers)))
            if projection is not None:
                stack.enter_context(replaced(projection.owner, projection.method, lambda x: x))
            output = self.forward(nodes.tokens, encoder_out=sources, **self.kwargs)
        if projection is None:
            lprobs: Tensor = self.model.get_normalized_probs(output, log_probs=True)
            return lprobs
        features: Tensor = output[0]
        return features

    def project(
        self,
        features: Tensor,
        targets: Tensor,
        positions: Tensor | None,
        starts: list[int] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each target, and its mean at each position."""
        if self.known.projection is None:
            lprobs = features.to(torch.promote_types(features.dtype, torch.float32))
            return lprobs.gather(1, targets.unsqueeze(1)).squeeze(1), lprobs.mean(-1)
        holder = self.known.projection.holder
        bias = getattr(holder, "bias", None)
        return token_lprobs(features, holder.weight, bias, targets, positions, starts)


def score_rows(
    model: nn.Module, sample: dict[str, Any], risk_set: RiskSet, pad: int, max_tokens: int = 0
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
    tokens, plain = risk_set.tokens, unwrap(model)
    own, decoder_known = plain.decoder.forward, known(plain.decoder)
    tree = choose_tree(risk_set, pad, decoder_known.plain_layers, max_tokens)

    def by_nodes(previous: Tensor, encoder_out: Any = None, **kwargs: Any) -> tuple[Tensor, None]:
        decoder = _NodeDecoder(plain, decoder_known, own, encoder_out, kwargs)
        scores = score_nodes(decoder.features, decoder.project, tree, tokens, previous, max_tokens)
        return scores.flatten(0, -2), None  # as decoders return it: with what BART takes apart

    net_input = dict(sample["net_input"])
    start = net_input["prev_output_tokens"][:, :1].repeat_interleave(tokens.size(1), 0)
    net_input["prev_output_tokens"] = teacher_forcing_input(
        tokens.flatten(0, 1), start.squeeze(1), pad
    )
    with ExitStack() as stack:
        stack.enter_context(replaced(plain.decoder, "forward", by_nodes))
        # transformer_align would decode once more, for alignments alone
        stack.enter_context(replaced(plain, "full_context_alignment", False))
        found = model(**net_input)[0].view(*tokens.shape, 2)
    return found[..., 0], found[:, 0, :, 1]


# --- a plain Transformer decoder in fewer operations: a GPU waits for the host to ask for each ---


def transformer_features(
    decoder: Any, layers: list[Any], nodes: Nodes, encoder_out: dict[str, list[Tensor]]
) -> Tensor:
    """Decode nodes: what goes into the output layer, (S, L, D).

    Args:
        decoder: fairseq's, of which ``known`` says ``plain_layers``.
        layers: of the decoder, those that this update has drawn.
        encoder_out: fairseq's, of B sentences.
    """
    x: Tensor = decoder.embed_scale * decoder.embed_tokens(nodes.tokens)
    if decoder.project_in_dim is not None:
        x = decoder.project_in_dim(x)
    if decoder.embed_positions is not None:
        x += _positions(decoder, nodes)  # in the type of x, as fairseq
    if decoder.layernorm_embedding is not None:
        x = decoder.layernorm_embedding(x)
    x = decoder.dropout_module(x)
    sources = encoder_out["encoder_out"][0].transpose(0, 1).index_select(0, nodes.source)
    padding = (*encoder_out["encoder_padding_mask"], None)[0]
    hidden = None if padding is None else _source_mask(padding, x.dtype)[nodes.source]
    seen = None if nodes.allowed is None else nodes.attention_mask(x).unsqueeze(1)
    for layer in layers:
        inputs = (layer, x, sources, hidden, seen)
        if "forward" in vars(layer) and torch.is_grad_enabled():  # --checkpoint-activations
            x = checkpoint(_layer, *inputs, use_reentrant=False)
        else:
            x = _layer(*inputs)
    if decoder.layer_norm is not None:
        x = decoder.layer_norm(x)
    if decoder.project_out_dim is not None:
        x = decoder.project_out_dim(x)
    return x


def _positions(decoder: Any, nodes: Nodes) -> Tensor:
    """Embeddings of the nodes' positions: (S, L, D), or (L, D) where all trees have the same."""
    token = decoder.padding_idx + 1  # any but padding
    line = torch.full((1, nodes.width), token, device=nodes.tokens.device)
    table: Tensor = decoder.embed_positions(line)[0]
    if nodes.allowed is None:
        return table[: nodes.tokens.size(1)]
    return nn.functional.embedding(nodes.depth, table)


def _source_mask(padding: Tensor, dtype: torch.dtype) -> Tensor:
    """0 at the source's tokens, -inf at padding: (B, 1, 1, S).

    It lies in memory as fused attention wants it, else each layer would lay it out anew.
    """
    length = padding.size(1)
    room = torch.zeros(len(padding), -(-length // 8) * 8, dtype=dtype, device=padding.device)
    return room[:, :length].masked_fill_(padding.bool(), -torch.inf)[:, None, None]


def _layer(
    layer: Any, x: Tensor, sources: Tensor, hidden: Tensor | None, seen: Tensor | None
) -> Tensor:
    before, dropout = layer.normalize_before, layer.dropout_module
    y = layer.self_attn_layer_norm(x) if before else x
    x = x + dropout(_over_targets(layer.self_attn, y, seen))
    x = x if before else layer.self_attn_layer_norm(x)
    y = layer.encoder_attn_layer_norm(x) if before else x
    x = x + dropout(_over_sources(layer.encoder_attn, y, sources, hidden))
    x = x if before else layer.encoder_attn_layer_norm(x)
    y = layer.final_layer_norm(x) if before else x
    y = layer.activation_dropout_module(layer.activation_fn(layer.fc1(y)))
    x = x + dropout(layer.fc2(y))
    return x if before else layer.final_layer_norm(x)


def _over_targets(attention: Any, x: Tensor, seen: Tensor | None) -> Tensor:
    parts = attention.q_proj, attention.k_proj, attention.v_proj
    weight = torch.cat([part.weight for part in parts])
    joined = linear(x, weight, torch.cat([part.bias for part in parts]))
    queries, keys, values = joined.chunk(3, dim=-1)
    return _attention(attention, queries, keys, values, seen)


def _over_sources(attention: Any, x: Tensor, sources: Tensor, hidden: Tensor | None) -> Tensor:
    keys, values = attention.k_proj(sources), attention.v_proj(sources)
    return _attention(attention, attention.q_proj(x), keys, values, hidden, causal=False)


def _attention(
    attention: Any,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool = True,
) -> Tensor:
    """Attention of (S, L, D) queries over (S, K, D) keys: (S, L, D).

    Args:
        causal: without a mask, what comes later is not seen.
    """
    heads, dropout = attention.num_heads, attention.dropout_module
    by_head = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (queries, keys, values))
    queries, keys, values = by_head
    found = scaled_dot_product_attention(
        queries,
        keys,
        values,
        mask,
        dropout_p=dropout.p if dropout.training else 0.0,
        is_causal=causal and mask is None,
    )
    projected: Tensor = attention.out_proj(found.transpose(1, 2).flatten(2))
    return projected

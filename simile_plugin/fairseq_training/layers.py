"""A plain Transformer decoder over whole targets, with gradient, in fewer operations than its own.

A GPU waits for the host to ask for operations; fairseq's modules ask for twice as many.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from simile_plugin.risk import Nodes


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

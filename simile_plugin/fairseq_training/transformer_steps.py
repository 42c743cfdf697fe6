"""A plain Transformer's steps in a search, in fewer operations than fairseq's own.

Its keys and values lie in a NodeCache. Queries, keys and values come from one product, those of the
sources are there once a sentence, and attention is one operation: a GPU waits for the host to ask
for each.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from simile_plugin.fairseq_training.decoders import changed
from simile_plugin.search import ROOM, NodeCache, Recorder, kernels_for

SOURCE = 16  # lengths of recorded sources are multiples of it; so must those of masks be on a GPU
WIDEST = 8192  # of a layer norm in our kernel


def transformer_steps(
    model: Any, net_input: dict[str, Tensor], size: int, longest: int, recorder: Recorder
) -> NodeCache:
    """Return the steps of a model's decoder over a batch of sources.

    Args:
        model: an encoder-decoder in eval mode, of whose decoder ``known`` says ``plain_layers``.
        net_input: fairseq's.
        size: N.
        longest: number of steps at most.
        recorder: whose buffers they lie in.
    """
    recorder.watch([*model.decoder.parameters(), *model.decoder.buffers()])
    encoder_out = model.encoder.forward_torchscript(net_input)
    features = encoder_out["encoder_out"][0]
    source, sentences = features.shape[:2]
    unit = SOURCE if recorder.records else 1
    shape = (-(-source // unit) * unit, recorder.compaction.sentences(sentences))
    held = recorder.buffer(
        "transformer features", (*shape, features.size(-1)), features.dtype, features.device
    )
    held.zero_()
    held[:source, :sentences] = features
    decoder = TransformerNodes(recorder, model.decoder, held, longest)
    cache = NodeCache(recorder, decoder, size, shape[1], shape[0], ROOM, features.device)
    cache.mask.zero_()
    cache.mask[:sentences, ..., source:] = -torch.inf
    for padding in encoder_out["encoder_padding_mask"]:
        hidden = padding.bool()[:, None, None]
        cache.mask[:sentences, ..., :source].masked_fill_(hidden, -torch.inf)
    return cache


class TransformerNodes:
    """fairseq's Transformer with keys and values in a NodeCache, see search.NodeDecoder.

    Args:
        recorder: whose buffers it lies in.
        decoder: in eval mode, see `transformer_steps`.
        features: (source, S, width) fairseq's of the encoder, in a buffer.
        longest: number of steps at most.
    """

    key: Hashable = "transformer"

    def __init__(self, recorder: Recorder, decoder: Any, features: Tensor, longest: int) -> None:
        self.decoder, self.features, device = decoder, features, features.device
        # Not children(): a layer may stand in two places. Not iter(): that of layer drop draws.
        self.layers: list[Any] = list(nn.ModuleList.__iter__(decoder.layers))
        attention, width = self.layers[0].self_attn, decoder.embed_dim
        # The type that products have here: autocast would convert weights anew at each step.
        self.dtype: torch.dtype = self.layers[0].encoder_attn.k_proj(features[:1, :1]).dtype
        self.shape = (len(self.layers), attention.num_heads, width // attention.num_heads)

        def buffer(name: str, *shape: int, dtype: torch.dtype) -> Tensor:
            return recorder.buffer(f"transformer {name}", shape, dtype, device)

        self.weights = buffer("weights", len(self.layers), 3 * width, width, dtype=self.dtype)
        self.biases = buffer("biases", len(self.layers), 3 * width, dtype=self.dtype)
        self.positions = None
        table = positions_of(decoder, longest, device)
        if table is not None:
            rooms = -(-longest // ROOM) * ROOM
            self.positions = buffer("positions", rooms, table.size(-1), dtype=table.dtype)
            self.positions[:longest] = table

    def begin(self, cache: NodeCache) -> None:
        """Write the joined projections, and the keys and values of the sources."""
        for number, layer in enumerate(self.layers):
            weight, bias = joined_projection(layer.self_attn, self.dtype)
            self.weights[number].copy_(weight)
            self.biases[number].copy_(bias)
            cache.keep_source(number, *of_source(layer.encoder_attn, self.features))

    def decode(self, last: Tensor, position: Tensor, cache: NodeCache) -> Tensor:
        """Return the logits (S x N, V) of the hypotheses' last tokens, all at one position."""
        decoder = self.decoder
        # In fairseq's shapes, on which your own modules may rely: (rows, 1, width), but in the
        # layers (1, rows, width).
        x = self._embedded(last.unsqueeze(1), position, cache.room).transpose(0, 1)
        change: Tensor | None = None  # that is not yet added to x
        for number, layer in enumerate(self.layers):
            for part, norm in (
                (self._over_hypotheses, layer.self_attn_layer_norm),
                (self._over_sources, layer.encoder_attn_layer_norm),
                (self._feed_forward, layer.final_layer_norm),
            ):
                if layer.normalize_before:
                    x, normed = add_and_norm(x, change, norm)
                    change = part(normed, number, cache)
                else:
                    _, x = add_and_norm(x, part(x, number, cache), norm)
        if decoder.layer_norm is not None:
            _, x = add_and_norm(x, change, decoder.layer_norm)
        elif change is not None:
            x = x + change
        x = x.transpose(0, 1)
        if decoder.project_out_dim is not None:
            x = decoder.project_out_dim(x)
        logits: Tensor = decoder.output_layer(x)
        return logits[:, -1]

    def _embedded(self, tokens: Tensor, position: Tensor, room: int) -> Tensor:
        """Return (rows, 1, width) of tokens (rows, 1)."""
        decoder = self.decoder
        x: Tensor = decoder.embed_scale * decoder.embed_tokens(tokens)
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if self.positions is not None:
            x += self.positions[:room][position]  # in the type of x, as fairseq
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        return x

    def _over_hypotheses(self, x: Tensor, number: int, cache: NodeCache) -> Tensor:
        """Attend from (1, rows, width) to the tokens of their hypotheses so far."""
        attention = self.layers[number].self_attn
        joined = linear(x, self.weights[number], self.biases[number])
        joined = joined.view(cache.sentences, cache.size, 3, attention.num_heads, -1)
        queries, pairs = joined[:, :, 0], joined[:, :, 1:]
        keys, values = cache.keep(number, pairs.permute(2, 0, 3, 1, 4))
        found = attend(queries.transpose(1, 2), keys, values, cache.seen)
        out: Tensor = attention.out_proj(found.transpose(1, 2).reshape(x.shape))
        return out

    def _over_sources(self, x: Tensor, number: int, cache: NodeCache) -> Tensor:
        """Attend from (1, rows, width) to their sources."""
        attention = self.layers[number].encoder_attn
        keys, values = cache.sources[number]
        queries = attention.q_proj(x).view(len(keys), -1, attention.num_heads, keys.size(-1))
        found = attend(queries.transpose(1, 2), keys, values, cache.mask)
        out: Tensor = attention.out_proj(found.transpose(1, 2).reshape(x.shape))
        return out

    def _feed_forward(self, x: Tensor, number: int, cache: NodeCache) -> Tensor:
        layer = self.layers[number]
        out: Tensor = layer.fc2(layer.activation_fn(layer.fc1(x)))
        return out


def add_and_norm(x: Tensor, change: Tensor | None, norm: Any) -> tuple[Tensor, Tensor]:
    """Return x + change, and what the norm makes of it; on a GPU by one kernel."""
    if change is None:
        return x, norm(x)
    kernels = kernels_for(x)
    plain = type(norm) is nn.LayerNorm and norm.bias is not None and not changed(norm)
    if not kernels or not plain or x.size(-1) > WIDEST:
        x = x + change
        return x, norm(x)
    found: tuple[Tensor, Tensor] = kernels.added_and_normed(
        x.contiguous(), change.contiguous(), norm
    )
    return found


def positions_of(decoder: Any, longest: int, device: torch.device) -> Tensor | None:
    """Embeddings of the first positions, (longest, width), if the decoder has any."""
    if decoder.embed_positions is None:
        return None
    token = decoder.padding_idx + 1  # any but padding
    tokens = torch.full((1, longest), token, device=device)
    positions: Tensor = decoder.embed_positions(tokens)[0]
    return positions


def joined_projection(attention: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weight and bias of one product for queries, keys (as they are multiplied with) and values."""
    query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
    scale = attention.scaling
    weight = torch.cat([query.weight, key.weight * scale, value.weight])
    bias = torch.cat([query.bias, key.bias * scale, value.bias])
    return weight.to(dtype), bias.to(dtype)


def of_source(attention: Any, features: Tensor) -> tuple[Tensor, Tensor]:
    """Keys (as they are multiplied with) and values of fairseq's (source, sentences, width).

    Returns:
        (sentences, heads, source, width of a head) each.
    """
    shape = (*features.shape[:2], attention.num_heads, -1)
    keys = attention.k_proj(features) * attention.scaling
    values = attention.v_proj(features)
    keys, values = (one.view(shape).permute(1, 2, 0, 3).contiguous() for one in (keys, values))
    return keys, values


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of (.., a, d) queries over (.., b, d) keys that are scaled already: (.., a, d)."""
    if queries.device.type != "cpu":
        return scaled_dot_product_attention(queries, keys, values, mask, scale=1.0)
    # On a CPU the one operation goes row by row.
    weights = queries @ keys.transpose(-1, -2)
    if mask is not None:
        weights = weights + mask
    precise = torch.promote_types(weights.dtype, torch.float32)
    return weights.softmax(-1, dtype=precise).to(values.dtype) @ values

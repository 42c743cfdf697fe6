"""A Transformer's steps in a recorder's buffers, for a GPU."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from simile_plugin.fairseq_training.decoders import changed, known
from simile_plugin.fairseq_training.steps import (
    DecoderLayers,
    attend,
    joined_projection,
    of_source,
    positions_of,
)
from simile_plugin.search import ROOM, Halves, NodeCache, Recorder, kernels_for

SOURCE = 16  # lengths of sources are multiples of it; so must those of masks be on a GPU
WIDEST = 8192  # of a layer norm in our kernel


def static_steps(
    recorder: Recorder, model: Any, net_input: dict[str, Tensor], size: int, longest: int
) -> NodeCache | None:
    """Return the steps of a model's decoder over a batch of sources, None where they are not known.

    Args:
        recorder: whose buffers they lie in.
        model: an encoder-decoder in eval mode.
        net_input: fairseq's.
        size: N.
        longest: number of steps at most.
    """
    if not known(model.decoder).plain_layers:
        return None
    recorder.watch([*model.decoder.parameters(), *model.decoder.buffers()])
    encoder_out = model.encoder.forward_torchscript(net_input)
    features = encoder_out["encoder_out"][0]
    source, sentences = features.shape[:2]
    shape = (-(-source // SOURCE) * SOURCE, Halves().sentences(sentences))
    held = recorder.buffer(
        "transformer features", (*shape, features.size(-1)), features.dtype, features.device
    )
    held.zero_()
    held[:source, :sentences] = features
    decoder = TransformerNodes(recorder, model.decoder, held, longest)
    cache = NodeCache(recorder, decoder, size, shape[1], shape[0], ROOM, features.device, True)
    cache.mask.zero_()
    cache.mask[:sentences, ..., source:] = -torch.inf
    for padding in encoder_out["encoder_padding_mask"]:
        hidden = padding.bool()[:, None, None]
        cache.mask[:sentences, ..., :source].masked_fill_(hidden, -torch.inf)
    return cache


class TransformerNodes(DecoderLayers):
    """fairseq's Transformer with keys and values in a NodeCache, see search.NodeDecoder.

    Args:
        recorder: whose buffers it lies in.
        decoder: see DecoderLayers.
        features: (source, S, width) fairseq's of the encoder, in a buffer.
        longest: number of steps at most.
    """

    cache: NodeCache

    def __init__(self, recorder: Recorder, decoder: Any, features: Tensor, longest: int) -> None:
        super().__init__(decoder)
        self.features, device = features, features.device
        attention, width = self.layers[0].self_attn, decoder.embed_dim
        # The type that products have here: autocast would convert weights anew at each step.
        self.dtype: torch.dtype = self.layers[0].encoder_attn.k_proj(features[:1, :1]).dtype
        self.key: Hashable = "transformer"
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
        for number, layer in enumerate(self.layers):
            weight, bias = joined_projection(layer.self_attn, self.dtype)
            self.weights[number].copy_(weight)
            self.biases[number].copy_(bias)
            cache.keep_source(number, *of_source(layer.encoder_attn, self.features))

    def decode(self, last: Tensor, position: Tensor, cache: NodeCache) -> Tensor:
        self.cache = cache
        table = self.positions
        return self.decoded(last, None if table is None else table[: cache.room][position])

    def added(self, x: Tensor, change: Tensor | None, norm: Any) -> tuple[Tensor, Tensor]:
        own = kernels_for(x)
        plain = type(norm) is nn.LayerNorm and norm.bias is not None and not changed(norm)
        if change is None or not own or not plain or x.size(-1) > WIDEST:
            return super().added(x, change, norm)
        found: tuple[Tensor, Tensor] = own.added_and_normed(
            x.contiguous(), change.contiguous(), norm
        )
        return found

    def over_hypothesis(self, x: Tensor, attention: Any, number: int) -> Tensor:
        cache = self.cache
        joined = linear(x, self.weights[number], self.biases[number])
        joined = joined.view(cache.sentences, cache.size, 3, attention.num_heads, -1)
        queries, pairs = joined[:, :, 0], joined[:, :, 1:]
        keys, values = cache.keep(number, pairs.permute(2, 0, 3, 1, 4))
        found = attend(queries.transpose(1, 2), keys, values, cache.seen)
        return found.transpose(1, 2).reshape(x.shape)

    def over_source(self, x: Tensor, attention: Any, number: int) -> Tensor:
        keys, values = self.cache.sources[number]
        queries = attention.q_proj(x).view(len(keys), -1, attention.num_heads, keys.size(-1))
        found = attend(queries.transpose(1, 2), keys, values, self.cache.mask)
        return found.transpose(1, 2).reshape(x.shape)

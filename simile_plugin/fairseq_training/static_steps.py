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
from simile_plugin.search import ROOM, Recorder, bucket, kernels_for, numbers, taken

SOURCE = 16  # lengths of sources are multiples of it; so must those of masks be on a GPU
WIDEST = 8192  # of a layer norm in our kernel


def static_steps(
    recorder: Recorder, model: Any, net_input: dict[str, Tensor], size: int, longest: int
) -> StaticTransformerSteps | None:
    """Return the steps of a model's decoder over a batch of sources, None where they are not known.

    Args:
        recorder: whose buffers they lie in.
        model: an encoder-decoder in eval mode.
        net_input: fairseq's.
        size: N.
        longest: number of steps at most.
    """
    decoder = model.decoder
    if not known(decoder).plain_layers:
        return None
    recorder.watch([*decoder.parameters(), *decoder.buffers()])
    encoder_out = model.encoder.forward_torchscript(net_input)
    features = encoder_out["encoder_out"][0]
    table = positions_of(decoder, longest, features.device)
    source, sentences = features.shape[:2]
    steps = StaticTransformerSteps(
        *(recorder, decoder, size, bucket(sentences), -(-source // SOURCE) * SOURCE, ROOM),
        *(features, table),
    )
    steps.features.zero_()
    steps.features[:source, :sentences] = features
    steps.hidden.zero_()
    steps.hidden[:sentences, source:] = True
    for padding in encoder_out["encoder_padding_mask"]:
        steps.hidden[:sentences, :source] = padding
    return steps


class StaticTransformerSteps(DecoderLayers):
    """Steps of S sentences, whose N hypotheses look at the keys of all of their sentence's tokens.

    A token's key and value stay where they were written, at ``step * N + hypothesis``, and a mask
    says which of them each hypothesis descends from: reordering is that of a mask. So the
    hypotheses of a sentence are the queries of one product, and each key is read once for them.

    Args:
        recorder: whose buffers it lies in.
        decoder: see DecoderLayers.
        size: N.
        sentences: S.
        source: length of the sources.
        room: steps.
        features: fairseq's of the encoder, for their type and width.
        table: (steps, width) positions.
    """

    def __init__(
        self,
        recorder: Recorder,
        decoder: Any,
        size: int,
        sentences: int,
        source: int,
        room: int,
        features: Tensor,
        table: Tensor | None,
    ) -> None:
        super().__init__(decoder)
        self.recorder, self.size, self.table, self.of_features = recorder, size, table, features
        self.shape = (sentences, source, room)
        attention, device = self.layers[0].self_attn, features.device
        # The type that products have here: autocast would convert weights anew at each step.
        dtype: torch.dtype = self.layers[0].encoder_attn.k_proj(features[:1, :1]).dtype
        heads, width, layers = attention.num_heads, decoder.embed_dim, len(self.layers)
        self.key: Hashable = ("transformer", size, self.shape, dtype)

        def buffer(name: str, *shape: int, dtype: torch.dtype = dtype) -> Tensor:
            return recorder.buffer(f"transformer {name}", shape, dtype, device)

        self.weights = buffer("weights", layers, 3 * width, width)
        self.biases = buffer("biases", layers, 3 * width)
        self.features = buffer(
            "features", source, sentences, features.size(-1), dtype=features.dtype
        )
        self.hidden = buffer("hidden", sentences, source, dtype=torch.bool)
        # By layer, keys and values: of the sources and of the hypotheses' tokens; and what is added
        # to a query's products with them, 0 or -inf.
        of_a_head = (layers, 2, sentences, heads)
        self.sources = buffer("sources", *of_a_head, source, width // heads)
        self.cache = buffer("cache", *of_a_head, room * size, width // heads)
        self.mask = buffer("mask", sentences, 1, 1, source)
        self.descent = buffer("descent", sentences, size, room * size)
        self.positions = None
        if table is not None:
            self.positions = buffer("positions", room, table.size(-1), dtype=table.dtype)
            rows = min(room, len(table))
            self.positions[:rows] = table[:rows]

    def begin(self) -> None:
        for number, layer in enumerate(self.layers):
            weight, bias = joined_projection(layer.self_attn, self.weights.dtype)
            self.weights[number].copy_(weight)
            self.biases[number].copy_(bias)
            keys, values = of_source(layer.encoder_attn, self.features)
            self.sources[number, 0].copy_(keys)
            self.sources[number, 1].copy_(values)
        self.mask.zero_().masked_fill_(self.hidden[:, None, None], -torch.inf)
        self._forget()

    def _forget(self) -> None:
        self.cache.zero_()  # what is masked counts nothing, but it must be a number
        self.descent.fill_(-torch.inf)

    def logits(self, last: Tensor, step: Tensor) -> Tensor:
        self.slots = torch.add(numbers(self.size, step.device), step, alpha=self.size)
        places = self.slots.view(1, -1, 1).expand(len(self.descent), -1, 1)
        self.descent.scatter_(2, places, 0.0)
        return self.decoded(last, None if self.positions is None else self.positions[step])

    def reorder(self, parents: Tensor) -> None:
        places = parents.unsqueeze(-1).expand(self.descent.shape)
        self.descent.copy_(self.descent.gather(1, places))

    def moved(self, kept: Tensor | None, sentences: int, room: int) -> StaticTransformerSteps:
        sources, cache = (taken(one, 2, kept) for one in (self.sources, self.cache))
        mask, descent = (taken(one, 0, kept) for one in (self.mask, self.descent))
        new = StaticTransformerSteps(
            *(self.recorder, self.decoder, self.size, sentences, self.shape[1], room),
            *(self.of_features, self.table),
        )
        new._forget()
        new.sources.zero_()
        new.mask.zero_()
        for one, values in (
            *((new.sources, sources), (new.cache, cache)),
            *((new.mask, mask), (new.descent, descent)),
        ):
            one[tuple(map(slice, values.shape))] = values
        return new

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
        cache = self.cache[number]
        joined = linear(x, self.weights[number], self.biases[number])
        joined = joined.view(cache.size(1), self.size, 3, attention.num_heads, -1)
        queries, pairs = joined[:, :, 0], joined[:, :, 1:]
        cache.index_copy_(3, self.slots, pairs.permute(2, 0, 3, 1, 4))
        found = attend(queries.transpose(1, 2), cache[0], cache[1], self.descent.unsqueeze(1))
        return found.transpose(1, 2).reshape(x.shape)

    def over_source(self, x: Tensor, attention: Any, number: int) -> Tensor:
        keys, values = self.sources[number]
        queries = attention.q_proj(x).view(len(keys), -1, attention.num_heads, keys.size(-1))
        found = attend(queries.transpose(1, 2), keys, values, self.mask)
        return found.transpose(1, 2).reshape(x.shape)

"""The steps of a decoder in a search: logits of the next token for every hypothesis, and the order
of the hypotheses that the search goes on with.

S sentences have N hypotheses each, S x N rows; before the first step those of a sentence are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Self

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.nn.utils.weight_norm import WeightNorm

from simile_plugin.fairseq_training.decoders import known
from simile_plugin.risk import replaced
from simile_plugin.search import Steps

# Steps for which room is made at once.
ROOM = 8


@contextmanager
def decoder_steps(
    model: Any, net_input: dict[str, Tensor], size: int, longest: int
) -> Iterator[Steps]:
    """The steps of a model's decoder over a batch of sources, within the block.

    Args:
        model: an encoder-decoder in eval mode.
        net_input: fairseq's.
        size: N.
        longest: number of steps at most.
    """
    encoder_out = model.encoder.forward_torchscript(net_input)
    sentences, decoder = len(net_input["src_tokens"]), known(model.decoder)
    if decoder.plain_layers:
        yield TransformerSteps(model.decoder, encoder_out, size, longest)
    elif decoder.steps:
        with decoding_mode(model.decoder, size):
            yield FairseqSteps(model, encoder_out, sentences, size)
    else:
        yield PrefixSteps(model, encoder_out, sentences, size)


class MovedSteps:
    """Steps that drop finished sentences when they reorder hypotheses, in one copy.

    Attributes:
        taken: tokens so far.
        kept: the sentences that go on at the next `reorder`; None: all.
    """

    key: Hashable = "not recorded"

    def __init__(self) -> None:
        self.taken = 0
        self.kept: Tensor | None = None

    def begin(self) -> None:
        pass

    def moved(self, kept: Tensor | None, sentences: int, room: int) -> Self:
        self.kept = self.kept if kept is None else kept
        return self


class FairseqSteps(MovedSteps):
    """Steps by the decoder's own code and fairseq's incremental state.

    The encoder's output and the attention over it are the same for all hypotheses of a sentence and
    are never reordered.
    """

    def __init__(
        self, model: Any, encoder_out: dict[str, list[Tensor]], sentences: int, size: int
    ) -> None:
        super().__init__()
        self.model, self.size = model, size
        self.device = next(model.decoder.parameters()).device
        self.state: dict[str, Any] = {}
        order = torch.arange(sentences, device=self.device).repeat_interleave(size)
        self.encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)

    def logits(self, last: Tensor, step: Tensor, first: bool) -> Tensor:
        self.taken += 1
        # Known decoders read the number of tokens so far and the last one.
        previous = last.unsqueeze(1).expand(-1, self.taken)
        output = self.model.decoder(
            previous, encoder_out=self.encoder_out, incremental_state=self.state
        )
        return output[0][:: self.size if first else 1, -1]

    def reorder(self, parents: Tensor) -> None:
        kept, self.kept = self.kept, None
        if kept is None and self.size == 1:
            return
        order = _rows(parents, kept, self.size)
        held = {}
        if kept is None:
            names = [name for name in self.state if name.endswith(".encoder_out")]
            held = {name: self.state.pop(name) for name in names}
        else:
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, order)
        self.model.decoder.reorder_incremental_state_scripting(self.state, order)
        self.state.update(held)


class PrefixSteps(FairseqSteps):
    """Steps of a decoder of your own: it sees all tokens so far, and gives its own probabilities.

    What it keeps in its state goes with its hypothesis.
    """

    tokens: Tensor

    def logits(self, last: Tensor, step: Tensor, first: bool) -> Tensor:
        last = last.unsqueeze(1)
        self.tokens = last if first else torch.cat([self.tokens, last], dim=1)
        state = {"incremental_state": self.state} if self._is_incremental() else {}
        output = self.model.decoder(self.tokens, encoder_out=self.encoder_out, **state)
        lprobs: Tensor = self.model.get_normalized_probs(output, log_probs=True)
        return lprobs[:: self.size if first else 1, -1]

    def reorder(self, parents: Tensor) -> None:
        kept, self.kept = self.kept, None
        order = _rows(parents, kept, self.size)
        self.tokens = self.tokens[order]
        if kept is not None:
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, order)
        if self._is_incremental():
            self.model.decoder.reorder_incremental_state_scripting(self.state, order)

    def _is_incremental(self) -> bool:
        return isinstance(self.model.decoder, FairseqIncrementalDecoder)


class DecoderLayers:
    """A Transformer's layers for one token more, of whose decoder ``known`` says ``plain_layers``.

    They are of fewer and larger operations than fairseq's own, so that a GPU does not wait for the
    host to ask for them: queries, keys and values come from one product, those of the source are
    there once a sentence, attention is one operation.

    Args:
        decoder: in eval mode.
    """

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder
        # Not children(): a layer may stand in two places. Not iter(): that of layer drop draws.
        self.layers: list[Any] = list(nn.ModuleList.__iter__(decoder.layers))

    def over_hypothesis(self, x: Tensor, attention: Any, number: int) -> Tensor:
        """Attention of (1, rows, width) over the tokens of their hypotheses so far."""
        raise NotImplementedError

    def over_source(self, x: Tensor, attention: Any, number: int) -> Tensor:
        """Attention of (1, rows, width) over the sources."""
        raise NotImplementedError

    def decoded(self, tokens: Tensor, position: Tensor | None) -> Tensor:
        """Logits (rows, V) of the hypotheses' last tokens (rows,), all at one position."""
        decoder = self.decoder
        # In fairseq's shapes, on which your own modules may rely: (rows, 1, width), but in the
        # layers (1, rows, width).
        x = decoder.embed_scale * decoder.embed_tokens(tokens.unsqueeze(1))
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if position is not None:
            x += position  # in the type of x, as fairseq
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        x = x.transpose(0, 1)
        change: Tensor | None = None  # that is not yet added to x
        for number, layer in enumerate(self.layers):
            for part, norm in (
                (self._over_hypothesis, layer.self_attn_layer_norm),
                (self._over_source, layer.encoder_attn_layer_norm),
                (_feed_forward, layer.final_layer_norm),
            ):
                if layer.normalize_before:
                    x, normed = self.added(x, change, norm)
                    change = part(normed, layer, number)
                else:
                    _, x = self.added(x, part(x, layer, number), norm)
        if decoder.layer_norm is not None:
            _, x = self.added(x, change, decoder.layer_norm)
        elif change is not None:
            x = x + change
        x = x.transpose(0, 1)
        if decoder.project_out_dim is not None:
            x = decoder.project_out_dim(x)
        logits: Tensor = decoder.output_layer(x)
        return logits[:, -1]

    def added(self, x: Tensor, change: Tensor | None, norm: Any) -> tuple[Tensor, Tensor]:
        """x + change, and what the norm makes of it."""
        x = x if change is None else x + change
        return x, norm(x)

    def _over_hypothesis(self, x: Tensor, layer: Any, number: int) -> Tensor:
        attention = layer.self_attn
        out: Tensor = attention.out_proj(self.over_hypothesis(x, attention, number))
        return out

    def _over_source(self, x: Tensor, layer: Any, number: int) -> Tensor:
        attention = layer.encoder_attn
        out: Tensor = attention.out_proj(self.over_source(x, attention, number))
        return out


def _feed_forward(x: Tensor, layer: Any, _: int) -> Tensor:
    out: Tensor = layer.fc2(layer.activation_fn(layer.fc1(x)))
    return out


class TransformerSteps(DecoderLayers, MovedSteps):
    """Steps of fairseq's Transformer, each hypothesis with keys and values of its own.

    Args:
        decoder: in eval mode.
        encoder_out: fairseq's, of S sentences.
        size: N.
        longest: number of steps at most.
    """

    def __init__(
        self, decoder: Any, encoder_out: dict[str, list[Tensor]], size: int, longest: int
    ) -> None:
        DecoderLayers.__init__(self, decoder)
        MovedSteps.__init__(self)
        self.size = size
        features = encoder_out["encoder_out"][0]
        self.source = [of_source(layer.encoder_attn, features) for layer in self.layers]
        # In the type that products have here: autocast would convert them anew at each step.
        dtype = self.source[0][0].dtype
        self.projections = [joined_projection(layer.self_attn, dtype) for layer in self.layers]
        self.mask = None
        padding = (*encoder_out["encoder_padding_mask"], None)[0]
        if padding is not None:
            hidden = padding.bool()[:, None, None]
            zeros = self.source[0][0].new_zeros(hidden.shape)
            self.mask = zeros.masked_fill(hidden, -torch.inf)
        self.positions = positions_of(decoder, longest, features.device)
        # By layer, keys and values of the hypotheses: (2, rows, heads, steps and room for more,
        # width of a head).
        self.beams = 1
        heads = self.layers[0].self_attn.num_heads
        shape = (2, features.size(1), heads, ROOM, decoder.embed_dim // heads)
        self.cache = [weight.new_empty(shape) for weight, _ in self.projections]

    def logits(self, last: Tensor, step: Tensor, first: bool) -> Tensor:
        self.taken += 1
        position = None if self.positions is None else self.positions[self.taken - 1]
        return self.decoded(last[:: self.size if first else 1], position)

    def reorder(self, parents: Tensor) -> None:
        kept, self.kept = self.kept, None
        if self.beams == 1:  # whichever they are, they are the only one
            parents = torch.zeros_like(parents)
        order = _rows(parents, kept, self.beams)
        self.beams = self.size
        room = (self.taken // ROOM + 1) * ROOM
        for number, old in enumerate(self.cache):
            new = old.new_empty(2, len(order), old.size(2), room, old.size(4))
            torch.index_select(old[..., : self.taken, :], 1, order, out=new[..., : self.taken, :])
            self.cache[number] = new
        if kept is not None:
            self.source = [(keys[kept], values[kept]) for keys, values in self.source]
            self.mask = None if self.mask is None else self.mask[kept]

    def over_hypothesis(self, x: Tensor, attention: Any, number: int) -> Tensor:
        joined = linear(x, *self.projections[number]).view(x.size(1), 3, attention.num_heads, -1)
        cache = self.cache[number]
        cache[..., self.taken - 1, :] = joined[:, 1:].transpose(0, 1)
        keys, values = cache[..., : self.taken, :]
        found = attend(joined[:, 0].unsqueeze(2), keys, values)
        return found.reshape(x.shape)

    def over_source(self, x: Tensor, attention: Any, number: int) -> Tensor:
        keys, values = self.source[number]
        queries = attention.q_proj(x).view(len(keys), -1, attention.num_heads, keys.size(-1))
        found = attend(queries.transpose(1, 2), keys, values, self.mask)
        return found.transpose(1, 2).reshape(x.shape)


def _rows(parents: Tensor, kept: Tensor | None, size: int) -> Tensor:
    """Return the rows of the hypotheses to go on with, see MovedSteps."""
    sentences = torch.arange(len(parents), device=parents.device) if kept is None else kept
    return (sentences.unsqueeze(1) * size + parents).flatten()


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


class _Nothing:
    """In place of the id of padding: what is compared with it is none, and no device is asked."""

    @classmethod
    def __torch_function__(cls, *_: Any) -> Tensor:
        return torch.zeros((), dtype=torch.bool)


@contextmanager
def without_padding(decoder: Any) -> Iterator[None]:
    """Within the block a transformer's decoder does not look for padding in its input."""
    known_padding = known(decoder).transformer
    with replaced(decoder, "padding_idx", _Nothing()) if known_padding else nullcontext():
        yield


@contextmanager
def decoding_mode(decoder: Any, size: int) -> Iterator[None]:
    """Within the block the decoder's steps compute only what the next token needs.

    Attention maps are not averaged for output, attention over the source is shared by the ``size``
    hypotheses of a sentence, weight normalisation is computed once, not at each step, and no beam
    that counts ends in padding.
    """
    with ExitStack() as stack:
        stack.enter_context(without_padding(decoder))
        for module in decoder.modules():
            if getattr(module, "need_attn", False):
                module.need_attn = False
                stack.callback(setattr, module, "need_attn", True)
            stack.enter_context(_weights_computed_once(module))
        if hasattr(decoder, "set_beam_size"):
            before = getattr(decoder, "_beam_size", 1)
            decoder.set_beam_size(size)
            stack.callback(decoder.set_beam_size, before)
        yield


@contextmanager
def _weights_computed_once(module: Any) -> Iterator[None]:
    hooks = {k: h for k, h in module._forward_pre_hooks.items() if isinstance(h, WeightNorm)}
    linearized = hasattr(module, "_get_linearized_weight")  # the fconv's convolutions
    try:
        for key, hook in hooks.items():
            hook(module, None)
            del module._forward_pre_hooks[key]
        if linearized:
            module._linearized_weight = None
            module._linearized_weight = module._get_linearized_weight()
        yield
    finally:
        module._forward_pre_hooks.update(hooks)
        if linearized:
            module._linearized_weight = None

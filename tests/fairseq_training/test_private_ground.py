"""What we rely on of torch and fairseq beyond what they promise: one row a place.

A new version that changes one of these fails here, by name, before it gives wrong numbers. Each is
read off the source, since a name may stay while its meaning goes.
"""

import importlib
import inspect

import pytest
import torch
from fairseq.modules import LayerDropModuleList
from torch.nn.utils.weight_norm import WeightNorm

TRANSFORMER = "fairseq.models.transformer.transformer_decoder:TransformerDecoderBase"
ATTENTION = "fairseq.modules.multihead_attention:MultiheadAttention"
LINEARIZED = "fairseq.modules.linearized_convolution:LinearizedConvolution"
CHECKPOINTED = "fairseq.modules.checkpoint_activations:checkpoint_wrapper"
RELIED_ON = [
    # trees: one mask and one lookup of positions a pass, of these objects
    (TRANSFORMER, "extract_features_scriptable", "self.buffered_future_mask(x)"),
    (TRANSFORMER, "extract_features_scriptable", "self.embed_positions("),
    (TRANSFORMER, "extract_features_scriptable", "for idx, layer in enumerate(self.layers):"),
    (TRANSFORMER, "extract_features_scriptable", "need_attn=bool((idx == alignment_layer))"),
    # the projection is the last step, of these objects
    (TRANSFORMER, "forward", "x = self.output_layer(x)"),
    (TRANSFORMER, "output_layer", "return self.output_projection(features)"),
    ("fairseq.models.fconv:FConvDecoder", "forward", "x = self.fc3(x)"),
    ("fairseq.models.lstm:LSTMDecoder", "forward", "return self.output_layer(x), attn_scores"),
    ("fairseq.models.lstm:LSTMDecoder", "output_layer", "F.linear(x, self.embed_tokens.weight)"),
    ("fairseq.models.lstm:LSTMDecoder", "output_layer", "x = self.fc_out(x)"),
    # the beam: steps read the last token, attention to the source is shared by a sentence's rows
    (TRANSFORMER, "extract_features_scriptable", "prev_output_tokens[:, -1:]"),
    ("fairseq.models.lstm:LSTMDecoder", "extract_features", "prev_output_tokens[:, -1:]"),
    ("fairseq.models.fconv:FConvDecoder", "_embed_tokens", "tokens = tokens[:, -1:]"),
    (ATTENTION, "forward", "if self.beam_size > 1 and bsz == key.size(1):"),
    (ATTENTION, "set_beam_size", "self.beam_size = beam_size"),
    ("fairseq.models.fconv:FConvDecoder", "forward", "not self.training and self.need_attn"),
    (LINEARIZED, "_get_linearized_weight", "if self._linearized_weight is None:"),
    ("fairseq.models.fconv:FConvDecoder", "_split_encoder_out", '"encoder_out"'),
    # portions: --checkpoint-activations puts a partial where forward was
    (CHECKPOINTED, "", "m.forward = functools.partial("),
    # half precision: an LSTM keeps a list of its weights, which setattr keeps up to date
    ("torch.nn:RNNBase", "__setattr__", "self._flat_weights[idx] = value"),
]


@pytest.mark.parametrize(("owner", "method", "words"), RELIED_ON)
def test_source_still_says(owner: str, method: str, words: str) -> None:
    module, name = owner.split(":")
    found = getattr(importlib.import_module(module), name)
    source = inspect.getsource(getattr(found, method) if method else found)
    assert words in source


def test_iterating_over_layers_draws_numbers_and_children_does_not() -> None:
    layers = LayerDropModuleList(0.5, [torch.nn.Identity() for _ in range(3)])
    before = torch.get_rng_state()
    assert len(list(layers.children())) == 3 and torch.equal(before, torch.get_rng_state())
    list(layers)
    assert not torch.equal(before, torch.get_rng_state())


def test_weight_normalisation_is_a_hook_that_can_be_called_by_hand() -> None:
    layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
    (hook,) = layer._forward_pre_hooks.values()
    assert isinstance(hook, WeightNorm)
    gain, weight = layer.weight_g, layer.weight
    assert isinstance(gain, torch.Tensor) and isinstance(weight, torch.Tensor)
    with torch.no_grad():
        gain.mul_(2)
    before = weight.clone()
    hook(layer, None)
    assert torch.equal(layer.weight, 2 * before)


def test_modules_hold_parameters_and_buffers_where_half_precision_looks() -> None:
    layer = torch.nn.BatchNorm1d(2)
    assert layer._parameters.keys() == {"weight", "bias"}
    assert {"running_mean", "running_var"} <= layer._buffers.keys()
    assert torch.nn.Sequential(layer)._modules == {"0": layer}

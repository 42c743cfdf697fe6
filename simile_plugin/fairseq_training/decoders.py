"""Facts about a model's decoder, read off its code, that allow faster ways through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.modules import FairseqDropout, MultiheadAttention
from fairseq.modules.checkpoint_activations import _checkpointed_forward
from torch import nn

from simile_plugin.files import InputError
from simile_plugin.risk import unwrap

TRANSFORMER = {
    "fairseq.models.transformer.transformer_decoder",
    "fairseq.modules.transformer_layer",
}
KNOWN = TRANSFORMER | {
    "fairseq.models.fconv",
    "fairseq.models.lstm",
    # an extract_features and an output_layer that the fconv inherits and never calls
    "fairseq.models.fairseq_incremental_decoder",
    "fairseq.models.fairseq_decoder",
}
STEPS = ["forward", "extract_features"]
OUTPUT = ["forward", "output_layer"]
FEATURES = [*STEPS, "extract_features_scriptable", "buffered_future_mask"]


@dataclass(frozen=True)
class Projection:
    """The output layer of a decoder: ``owner.method(features)`` are logits; the module that
    holds weight and bias."""

    owner: Any
    method: str
    holder: Any


@dataclass(frozen=True)
class KnownDecoder:
    """The faster ways that a decoder's code allows; none where it is not fairseq's own.

    Attributes:
        steps: a step looks at the last token and its own state only: our beam search feeds it.
        projection: its last step is this linear projection; None: ask it for its logits.
        transformer: fairseq's Transformer: what it looks for padding for is known.
        plain_layers: a Transformer's without variants: transformer_steps takes its steps, and
            whole targets, also those of prefix trees, go through transformer_features.
    """

    steps: bool
    projection: Projection | None
    transformer: bool
    plain_layers: bool


def known(decoder: Any) -> KnownDecoder:
    """Tell by the modules in which a decoder's methods are defined; a subclass counts as what it
    inherits from until it overrides them."""
    projection = _projection(decoder) if _defined_in(KNOWN, decoder, OUTPUT) else None
    transformer = False
    if projection and not getattr(decoder, "cross_self_attention", True):
        # children(), because under --decoder-layerdrop each iteration draws other layers
        theirs = [_defined_in(TRANSFORMER, one, ["forward"]) for one in decoder.layers.children()]
        transformer = _defined_in(TRANSFORMER, decoder, FEATURES) and all(theirs)
    steps = _defined_in(KNOWN, decoder, STEPS)
    plain = steps and transformer and _plain_layers(decoder)
    return KnownDecoder(steps, projection, transformer, plain)


def _plain_layers(decoder: Any) -> bool:
    layers = list(decoder.layers.children())
    if decoder.quant_noise is not None or not all(map(_plain, layers)):
        return False
    # What transformer_steps goes round must do nothing of its own.
    attentions = [part for layer in layers for part in (layer.self_attn, layer.encoder_attn)]
    selves = [layer.self_attn for layer in layers]
    if len({one.num_heads for one in selves}) != 1:
        return False
    linear = [part for one in selves for part in (one.q_proj, one.k_proj, one.v_proj)]
    if not all(_is(nn.Linear, part) and part.bias is not None for part in linear):
        return False
    dropouts = [one.dropout_module for one in (decoder, *layers, *attentions)]
    dropouts += [layer.activation_dropout_module for layer in layers]
    if not all(_is(FairseqDropout, part) and not part.apply_during_inference for part in dropouts):
        return False
    return not any(map(changed, [decoder, *layers, *attentions, *linear, *dropouts]))


def _plain(layer: Any) -> bool:
    """Return whether a fairseq layer has none of the variants that its settings allow."""
    variants = ("c_attn", "attn_ln", "ffn_layernorm", "w_resid")
    return (
        _defined_in(TRANSFORMER, layer, ["residual_connection"])
        and all(getattr(layer, name, None) is None for name in variants)
        and all(
            _is(MultiheadAttention, attention)
            and not (attention.use_xformers or attention.add_zero_attn)
            and attention.bias_k is None
            and attention.embed_dim == layer.embed_dim  # else heads were pruned
            for attention in (layer.self_attn, layer.encoder_attn)
        )
    )


def _is(kind: type[nn.Module], part: object) -> bool:
    """Return whether a module is of this class, whose own code is as it was written."""
    methods = ["forward", "apply_sparse_mask"]
    return type(part) is kind and _defined_in({kind.__module__}, part, methods)


def changed(part: nn.Module) -> bool:
    """Return whether a module has hooks, or methods that are not those of its class."""
    if part._forward_hooks or part._forward_pre_hooks:
        return True
    for name, value in vars(part).items():
        method = getattr(type(part), name, None)
        if callable(method):
            # fairseq's checkpoints change nothing where there is no gradient
            checkpointed = getattr(value, "func", None) is _checkpointed_forward
            inner = value.args[0] if checkpointed else value
            if getattr(inner, "__func__", None) is not method:
                return True
    return False


def _defined_in(modules: set[str], owner: object, methods: list[str]) -> bool:
    found = [getattr(type(owner), name, None) for name in methods]
    return {method.__module__ for method in found if method is not None} <= modules


def _projection(decoder: Any) -> Projection | None:
    """None where the output layer is not just linear: RoBERTa's head, --quant-noise-scalar's."""
    for name in ("output_projection", "fc3", "fc_out"):  # transformer, fconv, lstm
        layer = getattr(decoder, name, None)
        if layer is not None:
            plain = isinstance(layer, nn.Linear) and type(layer).forward is nn.Linear.forward
            return Projection(layer, "forward", layer) if plain else None
    return Projection(decoder, "output_layer", decoder.embed_tokens)  # an lstm that shares it


def check_model(model: nn.Module, eval_bleu: bool = False) -> None:
    """Refuse language models and others that are no encoder-decoders, or have no gradient.

    Args:
        eval_bleu: fairseq's flag.

    Raises:
        InputError: naming the model's class, or the flag.
    """
    plain = unwrap(model)
    if not isinstance(plain, FairseqEncoderDecoderModel):
        raise InputError(
            f"--arch: got a {type(plain).__name__}; simile_risk needs an encoder-decoder model "
            "(transformer, fconv, lstm, ...) because it conditions on a source sentence"
        )
    if getattr(plain.decoder, "adaptive_softmax", None) is not None:
        raise InputError(
            "--adaptive-softmax-cutoff: got a model with an adaptive softmax, expected a full one; "
            "fairseq's adaptive log-probabilities have no gradient"
        )
    if eval_bleu and hasattr(plain, "set_beam_size"):
        raise InputError(
            f"--eval-bleu: got a {type(plain).__name__}, whose attention fairseq leaves as it was "
            "for the beam of that search, so that training goes wrong; leave it out"
        )

"""A Transformer's steps in few operations against fairseq's own, one by one and in a search."""

import pytest
import torch
from fairseq.modules import MultiheadAttention, TransformerDecoderLayer
from torch import nn

from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.steps import FairseqSteps, decoder_steps, decoding_mode
from simile_plugin.fairseq_training.transformer_steps import transformer_steps
from simile_plugin.search import ROOM, Unrecorded
from tests.fairseq_models import make_model, make_sample, make_task
from tests.fairseq_training.test_beam import (
    EOS,
    LENGTHS,
)

SIZE = 3
PLAIN = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "no final norm": {"decoder_normalize_before": True, "no_decoder_final_norm": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "no positions": {"no_token_positional_embeddings": True},
    "normalised embeddings": {"layernorm_embedding": True, "no_scale_embedding": True},
    "other widths": {"decoder_input_dim": 6, "decoder_output_dim": 10},
    "gelu": {"activation_fn": "gelu"},
    "checkpoints": {"checkpoint_activations": True},
    "narrow encoder": {"encoder_embed_dim": 24, "decoder_embed_dim": 64},
    "layer drop": {"decoder_layerdrop": 0.5},
}
VARIANTS = {
    "scale_attn": {"scale_attn": True},
    "scale_heads": {"scale_heads": True},
    "scale_fc": {"scale_fc": True},
    "scale_resids": {"scale_resids": True},
    "quantised": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 1},
}


# What our steps go round: these modules are not called.
GONE_ROUND = ["", "layers.0", "layers.1.self_attn", "layers.0.self_attn.q_proj"]
GONE_ROUND += ["layers.1.dropout_module", "layers.1.encoder_attn"]


class Lora(nn.Linear):
    """A projection that is more than its weight."""

    def forward(self, x):
        return super().forward(x) * 1.5


def make(name="post-norm", **flags):
    return make_model("transformer_tiny", make_task(), **(PLAIN | VARIANTS)[name], **flags).eval()


def compare(model, sample, tolerance):
    """Six steps by us and by fairseq, after which hypotheses go on from random others, and two
    sentences drop out."""
    encoder_out = model.encoder.forward_torchscript(sample["net_input"])
    ours = transformer_steps(model, sample["net_input"], SIZE, 8, Unrecorded())
    ours.begin()
    sentences = len(LENGTHS)
    theirs = FairseqSteps(model, encoder_out, sentences, SIZE)
    generator = torch.Generator().manual_seed(0)
    last = torch.full((sentences * SIZE,), EOS)
    for step in range(6):
        taken = (last, torch.tensor([step]), step == 0)
        found = ours.logits(*taken)
        with decoding_mode(model.decoder, SIZE):
            expected = theirs.logits(*taken)
        assert found.shape == expected.shape
        assert torch.allclose(found.float(), expected.float(), atol=tolerance, rtol=tolerance)
        kept = torch.tensor([0, 2, 4]) if step == 2 else None
        sentences = sentences if kept is None else len(kept)
        parents = torch.randint(SIZE, (sentences, SIZE), generator=generator)
        if kept is not None:
            ours = ours.moved(kept, sentences, ROOM)
        ours.reorder(parents)
        with decoding_mode(model.decoder, SIZE):
            theirs.moved(kept, sentences, 8).reorder(parents)
        last = torch.randint(4, 14, (sentences * SIZE,), generator=generator)
    return ours


@pytest.mark.parametrize("name", PLAIN)
def test_logits_are_fairseqs(name):
    model, sample = make(name), make_sample(make_task(), lengths=LENGTHS)
    assert known(model.decoder).plain_layers
    with torch.no_grad():
        compare(model, sample, 1e-5)


def test_under_autocast_keys_are_kept_in_its_type():
    model, sample = make(), make_sample(make_task(), lengths=LENGTHS)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        ours = compare(model, sample, 0.05)
    assert {ours.nodes.dtype, ours.sources.dtype} == {torch.bfloat16}


def test_attention_in_one_operation_is_the_same(monkeypatch):
    # what a GPU computes by one operation is what a CPU computes by three
    model, sample = make(), make_sample(make_task(), lengths=LENGTHS)

    def in_one(queries, keys, values, mask=None):
        return nn.functional.scaled_dot_product_attention(queries, keys, values, mask, scale=1.0)

    monkeypatch.setattr("simile_plugin.fairseq_training.transformer_steps.attend", in_one)
    with torch.no_grad():
        compare(model, sample, 1e-5)


def changed_layers():
    """Models each of which has something that our steps would go round."""
    for name in ("lora", "features", "heads", "bias", "keys", "residual"):
        model = make()
        layer = model.decoder.layers[1]
        attention = layer.self_attn
        assert known(model.decoder).plain_layers
        match name:
            case "lora":
                attention.q_proj = Lora(attention.embed_dim, attention.embed_dim)
            case "features":
                model.decoder.extract_features = lambda *args, **kwargs: None
            case "heads":
                attention._set_skip_embed_dim_check()
                attention._adaptive_prune_heads(attention._get_reserve_head_index(1))
            case "bias":
                attention.q_proj.bias = None
            case "keys":
                attention.bias_k = attention.bias_v = nn.Parameter(torch.ones(1, 1, 64))
            case "residual":
                layer.__class__ = Residual
        yield name, model


class Residual(TransformerDecoderLayer):
    """A layer with a residual of your own."""

    def residual_connection(self, x, residual):
        return x


def hooked(part):
    part.register_forward_hook(lambda *_: None)


def hooked_before(part):
    part.register_forward_pre_hook(lambda *_: None)


def patched(part):
    part.forward = lambda *args, **kwargs: None


@pytest.mark.parametrize("name", VARIANTS)
def test_other_layers_take_their_own_steps(name):
    model = make(name)
    assert known(model.decoder).steps and not known(model.decoder).plain_layers
    sample = make_sample(make_task(), lengths=LENGTHS)
    with torch.no_grad(), decoder_steps(model, sample["net_input"], SIZE) as steps:
        assert isinstance(steps, FairseqSteps)


def test_what_is_added_to_a_layer_is_not_gone_round():
    for name, model in changed_layers():
        assert not known(model.decoder).plain_layers, name


@pytest.mark.parametrize("change", [hooked, hooked_before, patched])
@pytest.mark.parametrize("part", GONE_ROUND)
def test_what_is_put_in_the_way_of_a_module_is_not_gone_round(part, change):
    decoder = make("checkpoints").decoder
    change(decoder.get_submodule(part))
    assert not known(decoder).plain_layers


@pytest.mark.parametrize("kind", [MultiheadAttention, nn.Linear])
def test_a_class_with_a_forward_of_your_own_is_not_gone_round(kind, monkeypatch):
    model = make()
    monkeypatch.setattr(kind, "forward", lambda *args, **kwargs: None)
    assert not known(model.decoder).plain_layers

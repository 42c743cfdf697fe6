"""A Transformer's steps in few operations against fairseq's own, one by one and in a search."""

import pytest
import torch
from fairseq.modules import MultiheadAttention, TransformerDecoderLayer
from torch import nn

from simile_plugin.fairseq_training.beam import beam_search
from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.steps import (
    FairseqSteps,
    TransformerSteps,
    decoder_steps,
    decoding_mode,
)
from tests.fairseq_models import make_model, make_sample, make_task
from tests.fairseq_training.test_beam import (
    EOS,
    LENGTHS,
    check_equal,
    config,
    make_peaked_model,
    stock_lists,
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
    ours = TransformerSteps(model.decoder, encoder_out, SIZE, 8)
    sentences = len(LENGTHS)
    theirs = FairseqSteps(model, encoder_out, sentences, SIZE)
    generator = torch.Generator().manual_seed(0)
    last = torch.full((sentences * SIZE,), EOS)
    for step in range(6):
        found = ours.logits(last, step)
        with decoding_mode(model.decoder, SIZE):
            expected = theirs.logits(last, step)
        assert found.shape == expected.shape
        assert torch.allclose(found.float(), expected.float(), atol=tolerance, rtol=tolerance)
        kept = torch.tensor([0, 2, 4]) if step == 2 else None
        sentences = sentences if kept is None else len(kept)
        parents = torch.randint(SIZE, (sentences, SIZE), generator=generator)
        ours.reorder(parents, kept)
        with decoding_mode(model.decoder, SIZE):
            theirs.reorder(parents, kept)
        last = torch.randint(4, 14, (sentences * SIZE,), generator=generator)
    return ours


@pytest.mark.parametrize("name", PLAIN)
def test_logits_are_fairseqs(name):
    model, sample = make(name), make_sample(make_task(), lengths=LENGTHS)
    assert known(model.decoder).plain_layers
    with torch.no_grad():
        compare(model, sample, 1e-5)


@pytest.mark.parametrize("name", PLAIN)
def test_lists_are_sequence_generators(name):
    task, options = make_task(), {"max_len_a": 1.5, "max_len_b": 6}
    sample = make_sample(task, 1, LENGTHS)
    model = make_peaked_model("transformer_tiny", task, 1, **PLAIN[name])
    expected = stock_lists(model, task, sample, 4, options)
    found = beam_search(model, sample, config(4, **options), task.target_dictionary, EOS)
    check_equal(found, expected, 4)


def test_under_autocast_keys_are_kept_in_its_type():
    model, sample = make(), make_sample(make_task(), lengths=LENGTHS)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        ours = compare(model, sample, 0.05)
    assert {cache.dtype for cache in ours.cache} == {torch.bfloat16}


def test_attention_in_one_operation_is_the_same(monkeypatch):
    # what a GPU computes by one operation is what a CPU computes by three
    model, sample = make(), make_sample(make_task(), lengths=LENGTHS)

    def in_one(queries, keys, values, mask=None):
        return nn.functional.scaled_dot_product_attention(queries, keys, values, mask, scale=1.0)

    monkeypatch.setattr("simile_plugin.fairseq_training.steps._attention", in_one)
    with torch.no_grad():
        compare(model, sample, 1e-5)


def with_lora(model):
    attention = model.decoder.layers[1].self_attn
    attention.q_proj = Lora(attention.embed_dim, attention.embed_dim)


def with_dropout(model):
    model.decoder.dropout_module.apply_during_inference = True


def with_adapter(model):
    model.decoder.layers[0].dropout_module = nn.Linear(64, 64)


def with_features_of_your_own(model):
    model.decoder.extract_features = lambda *args, **kwargs: None


def with_fewer_heads(model):
    for layer in model.decoder.layers:
        layer.self_attn._set_skip_embed_dim_check()
        heads = layer.self_attn._get_reserve_head_index(1)
        layer.self_attn._adaptive_prune_heads(heads)


def without_bias(model):
    model.decoder.layers[0].self_attn.q_proj.bias = None


def with_bias_beside_keys(model):
    attention = model.decoder.layers[0].self_attn
    attention.bias_k = attention.bias_v = nn.Parameter(torch.ones(1, 1, 64))


def with_zero_beside_keys(model):
    model.decoder.layers[0].self_attn.add_zero_attn = True


class Attention(MultiheadAttention):
    """Attention of your own."""


class Residual(TransformerDecoderLayer):
    """A layer with a residual of your own."""

    def residual_connection(self, x, residual):
        return x


def with_attention_of_your_own(model):
    model.decoder.layers[1].encoder_attn.__class__ = Attention


def with_residual_of_your_own(model):
    model.decoder.layers[1].__class__ = Residual


def hooked(part):
    part.register_forward_hook(lambda *_: None)


def hooked_before(part):
    part.register_forward_pre_hook(lambda *_: None)


def patched(part):
    part.forward = lambda *args, **kwargs: None


def test_a_plain_transformer_takes_our_steps():
    sample = make_sample(make_task(), lengths=LENGTHS)
    with torch.no_grad(), decoder_steps(make(), sample["net_input"], SIZE, 8) as steps:
        assert isinstance(steps, TransformerSteps)


@pytest.mark.parametrize("name", VARIANTS)
def test_other_layers_take_their_own_steps(name):
    model = make(name)
    assert known(model.decoder).steps and not known(model.decoder).plain_layers
    sample = make_sample(make_task(), lengths=LENGTHS)
    with torch.no_grad(), decoder_steps(model, sample["net_input"], SIZE, 8) as steps:
        assert isinstance(steps, FairseqSteps)


@pytest.mark.parametrize(
    "change",
    [
        with_lora,
        with_dropout,
        with_adapter,
        with_features_of_your_own,
        with_fewer_heads,
        without_bias,
        with_bias_beside_keys,
        with_zero_beside_keys,
        with_attention_of_your_own,
        with_residual_of_your_own,
    ],
)
def test_what_is_added_to_a_layer_is_not_gone_round(change):
    model = make()
    assert known(model.decoder).plain_layers
    change(model)
    assert not known(model.decoder).plain_layers


@pytest.mark.parametrize("change", [hooked, hooked_before, patched])
@pytest.mark.parametrize("part", GONE_ROUND)
@pytest.mark.parametrize("name", ["post-norm", "checkpoints"])
def test_what_is_put_in_the_way_of_a_module_is_not_gone_round(name, part, change):
    decoder = make(name).decoder
    change(decoder.get_submodule(part))
    assert not known(decoder).plain_layers


@pytest.mark.parametrize("kind", [MultiheadAttention, nn.Linear])
def test_a_class_with_a_forward_of_your_own_is_not_gone_round(kind, monkeypatch):
    model = make()
    monkeypatch.setattr(kind, "forward", lambda *args, **kwargs: None)
    assert not known(model.decoder).plain_layers


def test_pruned_heads_give_sequence_generators_lists():
    task, options = make_task(), {"max_len_b": 6}
    sample = make_sample(task, 1, LENGTHS)
    model = make_peaked_model("transformer_tiny", task, 1)
    with_fewer_heads(model)
    expected = stock_lists(model, task, sample, 4, options)
    found = beam_search(model, sample, config(4, **options), task.target_dictionary, EOS)
    check_equal(found, expected, 4)


def test_modules_that_are_called_get_fairseqs_shapes():
    # (1, rows, width) in the layers, (rows, 1, width) before and after: adapters may rely on it
    model = make("pre-norm", layernorm_embedding=True, **PLAIN["other widths"])
    sample, seen = make_sample(make_task(), lengths=LENGTHS), []
    others = ("dropout_module", "embed_positions", *(f"self_attn.{one}_proj" for one in "qkv"))
    for name, part in model.decoder.named_modules():
        if not list(part.children()) and not name.endswith(others):
            part.register_forward_hook(
                lambda _, inputs, output, name=name: seen.append(
                    (name, inputs[0].shape, output.shape)
                )
            )
    assert known(model.decoder).plain_layers
    with torch.no_grad():
        encoder_out = model.encoder.forward_torchscript(sample["net_input"])
        sentences, calls = len(LENGTHS), []
        for steps in (
            TransformerSteps(model.decoder, encoder_out, 1, 8),
            FairseqSteps(model, encoder_out, sentences, 1),
        ):
            assert steps.logits(torch.full((sentences,), EOS), 0).shape == (sentences, 14)
            calls.append(sorted(seen))
            seen.clear()
    assert calls[0] == calls[1] and len(calls[0]) == 2 * 10 + 5


def test_embeddings_may_be_narrower():
    # no flag of fairseq's makes such a decoder, its code allows it
    model, sample = make(), make_sample(make_task(), lengths=LENGTHS)
    model.decoder.embed_tokens = nn.Embedding(14, 6, padding_idx=1)
    model.decoder.project_in_dim = nn.Linear(6, 64, bias=False)
    with torch.no_grad():
        compare(model, sample, 1e-5)


@pytest.mark.parametrize("learned", [False, True])
def test_positions_may_be_of_a_wider_type(learned):
    model = make(decoder_learned_pos=learned).bfloat16()
    model.decoder.embed_positions.float()
    sample = make_sample(make_task(), lengths=LENGTHS)
    with torch.no_grad():
        compare(model, sample, 0.05)


@pytest.mark.parametrize("none", [[], [None]])
def test_sources_without_a_mask(none):
    model, sample = make(), make_sample(make_task(), lengths=((5, 4), (5, 3)))
    last = torch.full((2,), EOS)
    with torch.no_grad():
        encoder_out = model.encoder.forward_torchscript(sample["net_input"])
        expected = TransformerSteps(model.decoder, encoder_out, 1, 8).logits(last, 0)
        encoder_out["encoder_padding_mask"] = none
        found = TransformerSteps(model.decoder, encoder_out, 1, 8).logits(last, 0)
    assert torch.equal(found, expected)


def test_a_layer_may_stand_in_two_places():
    # fairseq's own state is one for both, so that its steps are not what it computes at once
    model, sample = make(), make_sample(make_task(), lengths=LENGTHS)
    model.decoder.layers[1] = model.decoder.layers[0]
    tokens = torch.randint(4, 14, (len(LENGTHS), 6), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        encoder_out = model.encoder.forward_torchscript(sample["net_input"])
        expected = model.decoder(tokens, encoder_out=encoder_out)[0]
        steps = TransformerSteps(model.decoder, encoder_out, 1, 8)
        for step in range(6):
            found = steps.logits(tokens[:, step], step)
            assert torch.allclose(found, expected[:, step], atol=1e-5)
            steps.reorder(torch.zeros(len(LENGTHS), 1, dtype=torch.int64), None)

"""One model call without full logits against the naive path: each row alone, stock softmax."""

from typing import Any

import pytest
import torch

from simile_plugin.fairseq_training import scoring
from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.scoring import (
    score_rows,
)
from simile_plugin.risk import (
    RiskSet,
    choose_tree,
    layout,
    log_probabilities,
    replaced,
    tree_scoring,
)
from tests.fairseq_models import make_model, make_sample, make_task

PAD, EOS = 1, 2
SHARED: dict[str, Any] = {"share_decoder_input_output_embed": True}
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("transformer_tiny", {}),
    ("transformer_tiny", SHARED),
    ("transformer_tiny", {"decoder_output_dim": 8}),
    ("fconv", {}),
    ("fconv", {"share_input_output_embed": True}),
    ("lstm", {}),
    ("lstm", SHARED),
    ("transformer_align", {"full_context_alignment": True}),
]
NAMES = ["-".join([arch, *flags]) for arch, flags in MODELS]
TREES: list[dict[str, Any]] = [  # of models whose rows share prefixes
    {},
    SHARED,
    {"decoder_learned_pos": True},
    {"decoder_output_dim": 8},
    {"no_token_positional_embeddings": True},
    {"decoder_normalize_before": True},
]


def make_risk_set(sample, size=4, seed=1):
    """References of a sample and candidates that begin alike; one is no member."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low, high, count=1):
        return torch.randint(low, high, (count,), generator=generator)

    target = sample["target"]
    tokens = torch.full((len(target), 1 + size, 9), PAD)
    tokens[:, 0, : target.size(1)] = target
    for rows in tokens:
        trunk = draw(4, 14, 8)
        for row in rows[1:]:
            length = int(draw(2, 9))
            row[: length - 1] = trunk[: length - 1]
            row[int(draw(0, length)) : length - 1] = int(draw(4, 14))
            row[length - 1] = EOS
    mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
    mask[:, 0] = mask[1, 2] = False
    return RiskSet(tokens, mask)


def naive(model, sample, risk_set):
    """Log-probabilities of every row, each source encoded and each row decoded alone."""
    found = torch.zeros(risk_set.tokens.shape, dtype=torch.float64)
    means = torch.zeros(risk_set.tokens[:, 0].shape, dtype=torch.float64)
    for b, rows in enumerate(risk_set.tokens):
        for n, row in enumerate(rows):
            if n and not risk_set.mask[b, n]:
                continue
            target = row[row.ne(PAD)].unsqueeze(0)
            previous = torch.cat([torch.tensor([[EOS]]), target[:, :-1]], dim=1)
            source = {k: v[b : b + 1] for k, v in sample["net_input"].items()}
            output = model(source["src_tokens"], source["src_lengths"], previous)
            lprobs = torch.log_softmax(output[0], dim=-1)
            found[b, n, : target.size(1)] = lprobs.gather(-1, target.unsqueeze(-1)).view(-1)
            if n == 0:
                means[b, : target.size(1)] = lprobs.mean(-1)
    return found, means


def gradients(model, values):
    model.zero_grad()
    weights = torch.linspace(0.5, 2, sum(v.numel() for v in values), dtype=torch.float64)
    (torch.cat([value.flatten() for value in values]) * weights).sum().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def check_equal(model, found, expected, **tolerance):
    """Values and gradients of both are equal."""
    fast, slow = gradients(model, found), gradients(model, expected)
    for value, right in zip(found, expected, strict=True):
        assert torch.allclose(value.double(), right, **{"atol": 1e-12} | tolerance)
    assert fast.keys() == slow.keys()
    for name in fast:
        # fairseq's attention to the source takes its softmax in float32 whatever the model's type,
        # and a node's gradient, a sum over rows, is rounded there once
        assert torch.allclose(fast[name], slow[name], **{"rtol": 1e-6, "atol": 1e-6} | tolerance)


def check_naive(model, sample, risk_set, max_tokens=0, **tolerance):
    found = score_rows(model, sample, risk_set, PAD, max_tokens)
    check_equal(model, found, naive(model, sample, risk_set), **tolerance)


@pytest.mark.parametrize("max_tokens", [0, 20])
@pytest.mark.parametrize(("arch", "flags"), MODELS, ids=NAMES)
def test_equals_the_naive_path(arch, flags, max_tokens, monkeypatch):
    monkeypatch.setattr(log_probabilities, "SLICE_LOGITS", 14 * 4)  # four positions a slice
    monkeypatch.setattr(tree_scoring, "PART_TOKENS", 4)
    monkeypatch.setattr(tree_scoring, "pays", lambda *_: False)
    task = make_task()
    # no left padding of sources here: an lstm or fconv row alone has none to see
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2)))
    model = make_model(arch, task, **flags).double().train()
    # the stock transformer's attention to the source is rounded to float32
    atol = 1e-6 if arch.startswith("transformer") else 1e-12
    check_naive(model, sample, make_risk_set(sample), max_tokens, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("max_tokens", [0, 12])
@pytest.mark.parametrize("slice_logits", [14 * 3, 2**22])
@pytest.mark.parametrize("flags", TREES, ids=lambda flags: "-".join(flags) or "plain")
def test_trees_equal_the_naive_path(flags, slice_logits, max_tokens, monkeypatch):
    monkeypatch.setattr(tree_scoring, "pays", lambda *_: True)
    monkeypatch.setattr(log_probabilities, "SLICE_LOGITS", slice_logits)
    monkeypatch.setattr(log_probabilities, "KEPT_LOGITS", slice_logits)
    task = make_task()
    sample = make_sample(task)
    model = make_model("transformer_tiny", task, **flags).double().train()
    check_naive(model, sample, make_risk_set(sample), max_tokens)


@pytest.mark.parametrize("arch", ["transformer_tiny", "fconv"])
@pytest.mark.parametrize("trees", [True, False])
def test_a_batch_without_references_and_candidates_is_scored(arch, trees, monkeypatch):
    monkeypatch.setattr(tree_scoring, "pays", lambda *_: trees)
    task = make_task()
    sample = make_sample(task)
    model = make_model(arch, task).train()
    target = torch.full_like(sample["target"], PAD)
    hyps = torch.full((len(target), 4, 6), PAD)
    nothing = torch.zeros(hyps.shape[:2], dtype=torch.bool)
    risk_set = layout(target, hyps, nothing, False, False, PAD, EOS)
    lprobs, means = score_rows(model, sample, risk_set, PAD, 0)
    assert (lprobs[:, :, 1:] == 0).all() and (means == 0).all()
    lprobs.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_only_where_it_pays():
    task = make_task()
    sample = make_sample(task)
    risk_set = make_risk_set(sample)

    def rows(risk_set, share_prefixes, max_tokens):
        return choose_tree(risk_set, PAD, share_prefixes, max_tokens).node.shape[1]

    assert rows(risk_set, True, 0) == 5
    assert rows(risk_set, False, 0) == 1  # a decoder that takes no mask
    # a sentence's tree cannot be cut: where it is too large, its rows are decoded in parts
    assert rows(risk_set, True, 10) == 1
    distinct = torch.arange(4, 14).repeat(15, 1).add(torch.arange(15).unsqueeze(1)).view(3, 5, 10)
    distinct_set = RiskSet(distinct, torch.ones(3, 5, dtype=torch.bool))
    assert rows(distinct_set, True, 0) == 1


def test_other_decoders_are_decoded_row_by_row():
    task = make_task()
    assert known(make_model("transformer_tiny", task).decoder).plain_layers
    for arch in ("fconv", "lstm"):
        assert not known(make_model(arch, task).decoder).plain_layers
    model = make_model("transformer_tiny", task)

    class Own(type(model.decoder)):
        def buffered_future_mask(self, tensor):
            return super().buffered_future_mask(tensor)

    model.decoder.__class__ = Own
    assert not known(model.decoder).plain_layers


class Tripled(torch.nn.Linear):
    """As IntLinear of --quant-noise-scalar: more than its weight."""

    def forward(self, features):
        return 3 * super().forward(features)


@pytest.mark.parametrize("of", ["layers", "linear", "decoder"])
def test_an_output_layer_that_is_more_than_linear_is_asked_for_logits(of):
    task = make_task()
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2)))
    model = make_model("transformer_tiny", task, **SHARED).double().train()
    decoder = model.decoder
    linear = decoder.output_projection

    class Sharper(type(decoder)):
        def output_layer(self, features):
            return 3 * super().output_layer(features)

    if of == "decoder":
        decoder.__class__ = Sharper
    elif of == "layers":  # as RobertaLMHead
        head = torch.nn.Sequential(torch.nn.LayerNorm(linear.in_features), linear)
        decoder.output_projection = head.double()
    else:
        decoder.output_projection = Tripled(linear.in_features, linear.out_features).double()
    assert known(decoder).projection is None and known(decoder).steps
    check_naive(model, sample, make_risk_set(sample), atol=1e-5)  # fairseq's is float32


def test_parts_see_the_same_dropout_twice(monkeypatch):
    # decoding again in the backward pass must draw the masks of the forward pass
    task = make_task()
    sample = make_sample(task)
    model = make_model("transformer_tiny", task, dropout=0.3).double().train()
    risk_set = make_risk_set(sample)

    def update():
        torch.manual_seed(3)
        values = score_rows(model, sample, risk_set, PAD, max_tokens=20)
        return values[0].detach(), gradients(model, values)

    value, again = update()
    monkeypatch.setattr(
        tree_scoring, "checkpoint", lambda part, *inputs, use_reentrant: part(*inputs)
    )
    same_value, kept = update()
    assert torch.equal(value, same_value)
    for name in kept:
        assert torch.allclose(again[name], kept[name], atol=1e-12), name


@pytest.mark.parametrize("arch", ["transformer_tiny", "fconv", "lstm"])
def test_sample_and_model_stay_as_they_are(arch):
    task = make_task()
    model, sample = make_model(arch, task), make_sample(task)
    before = {key: value.clone() for key, value in sample["net_input"].items()}
    attributes = [set(vars(module)) for module in model.modules()]
    score_rows(model, sample, make_risk_set(sample), PAD)
    assert before.keys() == sample["net_input"].keys()
    assert all(torch.equal(before[key], sample["net_input"][key]) for key in before)
    assert [set(vars(module)) for module in model.modules()] == attributes


def test_projection_comes_back_after_an_exception(monkeypatch):
    task = make_task()
    model, sample = make_model("transformer_tiny", task), make_sample(task)

    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(scoring, "token_lprobs", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        score_rows(model, sample, make_risk_set(sample), PAD)
    assert "forward" not in vars(model.decoder)
    assert "forward" not in vars(known(model.decoder).projection.owner)


@pytest.mark.parametrize("max_tokens", [0, 20])
@pytest.mark.parametrize("shared", [True, False])
def test_layers_are_drawn_once_for_all_rows(shared, max_tokens, monkeypatch):
    # --decoder-layerdrop draws layers whenever somebody iterates over them
    monkeypatch.setattr("simile_plugin.risk.tree_scoring.PART_TOKENS", 4)
    monkeypatch.setattr(tree_scoring, "pays", lambda *_: shared)
    task = make_task()
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2)))
    model = make_model("transformer_tiny", task, decoder_layerdrop=0.5, decoder_layers=4)
    model, risk_set = model.double().train(), make_risk_set(sample)
    layers, seen = model.decoder.layers, set()
    assert known(model.decoder).plain_layers
    for seed in range(4):
        torch.manual_seed(seed)
        drawn = list(layers)
        seen.add(len(drawn))
        torch.manual_seed(seed)
        found = score_rows(model, sample, risk_set, PAD, max_tokens)
        assert model.decoder.layers is layers and len(list(layers.children())) == 4
        with replaced(model.decoder, "layers", torch.nn.ModuleList(drawn)):
            expected = naive(model, sample, risk_set)
            check_equal(model, found, expected)
    assert len(seen) > 1


def test_asking_what_a_decoder_allows_draws_nothing():
    model = make_model("transformer_tiny", make_task(), decoder_layerdrop=0.5).train()
    before = torch.get_rng_state()
    assert known(model.decoder).plain_layers
    assert torch.equal(torch.get_rng_state(), before)

"""One model call without full logits against the naive path: each row alone, stock softmax."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.fairseq_training import scoring
from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.scoring import (
    copied,
    score_rows,
)
from simile_plugin.risk import (
    RiskSet,
    log_probabilities,
    replaced,
    teacher_forcing_input,
    tree_scoring,
)
from simile_plugin.risk.log_probabilities import token_lprobs
from simile_plugin.risk.tree_scoring import plan_parts
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


def make_risk_set(sample, size=3, seed=5):
    """References of a sample and random candidates of random lengths; one is no member."""
    generator = torch.Generator().manual_seed(seed)
    target = sample["target"]
    tokens = torch.full((len(target), 1 + size, 9), PAD)
    tokens[:, 0, : target.size(1)] = target
    for row in [tokens[b, n] for b in range(len(target)) for n in range(1, 1 + size)]:
        length = int(torch.randint(1, 9, (1,), generator=generator))
        row[: length - 1] = torch.randint(4, 14, (length - 1,), generator=generator)
        row[length - 1] = EOS
    mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
    mask[:, 0] = mask[1, 2] = False
    assert tokens.ne(PAD).any(-1).all()
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


@pytest.mark.parametrize("max_tokens", [0, 20])
@pytest.mark.parametrize(("arch", "flags"), MODELS, ids=NAMES)
def test_equals_the_naive_path(arch, flags, max_tokens, monkeypatch):
    monkeypatch.setattr(log_probabilities, "SLICE_LOGITS", 14 * 4)  # four positions a slice
    monkeypatch.setattr("simile_plugin.risk.tree_scoring.PART_TOKENS", 4)
    task = make_task()
    # no left padding of sources here: an lstm or fconv row alone has none to see
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2)))
    model = make_model(arch, task, **flags).double().train()
    risk_set = make_risk_set(sample)
    found = score_rows(model, sample, risk_set, PAD, max_tokens)
    fast = gradients(model, found)
    expected = naive(model, sample, risk_set)
    slow = gradients(model, expected)
    for value, right in zip(found, expected, strict=True):
        assert value.dtype == torch.float64
        assert torch.allclose(value, right, atol=1e-12)
    assert fast.keys() == slow.keys()
    for name in fast:
        assert torch.allclose(fast[name], slow[name], atol=1e-12), name


def test_unknown_decoders_are_asked_for_logits():
    task = make_task()
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2)))
    model = make_model("transformer_tiny", task)

    class Sharper(type(model.decoder)):
        def output_layer(self, features):
            return 3 * super().output_layer(features)

    model.decoder.__class__ = Sharper
    assert known(model.decoder).projection is None and known(model.decoder).steps
    risk_set = make_risk_set(sample)
    found, expected = score_rows(model, sample, risk_set, PAD), naive(model, sample, risk_set)
    for value, right in zip(found, expected, strict=True):
        assert torch.allclose(value.double(), right, atol=1e-4)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("of", ["a head of more layers", "a Linear of its own kind"])
def test_an_output_layer_that_is_more_than_linear_is_asked_for_logits(of, shared):
    """As RobertaLMHead of roberta_enc_dec, and IntLinear of --quant-noise-scalar."""
    task = make_task()
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2)))
    flags = {"share_decoder_input_output_embed": shared}
    model = make_model("transformer_tiny", task, **flags).double().train()
    linear = model.decoder.output_projection

    class Tripled(torch.nn.Linear):
        def forward(self, features):
            return 3 * super().forward(features)

    if of == "a head of more layers":
        head = torch.nn.Sequential(torch.nn.LayerNorm(linear.in_features), linear)
    else:
        head = Tripled(linear.in_features, linear.out_features)
    model.decoder.output_projection = head.double()
    assert known(model.decoder).projection is None and known(model.decoder).steps
    risk_set = make_risk_set(sample)
    found, expected = score_rows(model, sample, risk_set, PAD), naive(model, sample, risk_set)
    fast, slow = gradients(model, found), gradients(model, expected)
    for value, right in zip(found, expected, strict=True):
        assert torch.allclose(value.double(), right, atol=1e-5)  # fairseq's is float32
    assert fast.keys() == slow.keys() and any("output_projection" in name for name in fast)
    for name in fast:
        assert torch.allclose(fast[name], slow[name], atol=1e-5), name


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


@pytest.mark.parametrize("kept", [0, 1000])
@pytest.mark.parametrize("bias", [False, True])
def test_token_lprobs_gradcheck(bias, kept, monkeypatch):
    monkeypatch.setattr(log_probabilities, "SLICE_LOGITS", 15)
    monkeypatch.setattr(log_probabilities, "KEPT_LOGITS", kept)
    torch.manual_seed(1)
    features = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    shift = torch.randn(5, dtype=torch.float64, requires_grad=True) if bias else None
    targets = torch.tensor([0, 4, 2, 2])
    assert torch.autograd.gradcheck(
        lambda f, w: token_lprobs(f, w, shift, targets), (features, weight)
    )
    lprobs, means = token_lprobs(features, weight, shift, targets)
    right = torch.log_softmax(torch.nn.functional.linear(features, weight, shift), dim=-1)
    assert torch.allclose(lprobs, right[torch.arange(4), targets])
    assert torch.allclose(means, right.mean(-1))


def test_half_precision_sums_in_float32():
    torch.manual_seed(1)
    features, weight = torch.randn(6, 8), torch.randn(1000, 8)
    targets = torch.arange(6)
    right = torch.log_softmax(features.bfloat16().float() @ weight.bfloat16().float().T, dim=-1)
    rough = features.bfloat16().requires_grad_(), weight.bfloat16().requires_grad_()
    lprobs, means = token_lprobs(*rough, None, targets)
    assert lprobs.dtype == means.dtype == torch.float32
    assert torch.allclose(lprobs, right[targets, targets], atol=0.05)
    assert torch.allclose(means, right.mean(-1), atol=0.02)
    (lprobs.sum() + means.sum()).backward()
    assert rough[0].grad.dtype == rough[1].grad.dtype == torch.bfloat16


def test_autocast_projects_in_low_precision():
    features = torch.randn(3, 8, requires_grad=True)
    weight = torch.randn(50, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lprobs, _ = token_lprobs(features, weight, None, torch.tensor([1, 2, 3]))
    lprobs.sum().backward()
    assert lprobs.dtype == torch.float32
    assert features.grad.dtype == weight.grad.dtype == torch.float32
    right = torch.log_softmax(features @ weight.T, dim=-1)[torch.arange(3), torch.arange(1, 4)]
    assert torch.allclose(lprobs, right, atol=0.2) and not torch.equal(lprobs, right)


def test_nothing_of_size_k_x_v_is_kept_if_it_is_large(monkeypatch):
    monkeypatch.setattr(log_probabilities, "SLICE_LOGITS", 100)
    monkeypatch.setattr(log_probabilities, "KEPT_LOGITS", 40 * 50 - 1)
    features = torch.randn(40, 4, requires_grad=True)
    weight = torch.randn(50, 4, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.numel()), t)[1], id):
        token_lprobs(features, weight, None, torch.zeros(40, dtype=torch.int64))
    assert max(kept) <= 50 * 4


def test_plan_by_hand(monkeypatch):
    monkeypatch.setattr("simile_plugin.risk.tree_scoring.PART_TOKENS", 3)
    # one part: 4 x 5 + 3 = 23 tokens; cut after 4: 2 x 5 + 2 x 3 + 2 x 3 = 22; cut after 3:
    # 3 x 5 + 1 + 2 x 3 = 22; every other cut costs more; of equals the shorter first part is taken
    assert plan_parts([3, 5, 0, 4, 1], 0) == [[1, 3], [0, 4]]
    # longest first: 5 and 4 padded to 5 are 10 tokens; a third row of 3 would make 15
    assert plan_parts([3, 5, 0, 4, 1], 10) == [[1, 3], [0, 4]]
    # equal lengths are one part, unless that is too large
    assert plan_parts([2, 2, 2, 2], 0) == [[0, 1, 2, 3]]
    assert plan_parts([2, 2, 2, 2], 5) == [[0, 1], [2, 3]]
    # a row longer than the bound is scored alone
    assert plan_parts([9, 2, 2], 4) == [[0], [1, 2]]
    assert plan_parts([0, 0], 4) == plan_parts([], 0) == []


@settings(max_examples=50)
@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 60))
def test_plan_covers_every_row_once_within_the_bound(lengths, max_tokens):
    parts = plan_parts(lengths, max_tokens)
    assert sorted(row for part in parts for row in part) == [
        row for row, length in enumerate(lengths) if length
    ]
    for part in parts:
        assert [lengths[row] for row in part] == sorted((lengths[r] for r in part), reverse=True)
        assert not max_tokens or len(part) == 1 or len(part) * lengths[part[0]] <= max_tokens


def test_teacher_forcing_input_is_the_collaters():
    sample = make_sample(make_task())
    found = teacher_forcing_input(sample["target"], EOS, PAD)
    assert torch.equal(found, sample["net_input"]["prev_output_tokens"])


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


def test_encoder_output_is_copied_before_it_is_reordered():
    states = [torch.ones(1)]
    given = {"encoder_states": states, "mask": None}
    copy = copied(given)
    copy["encoder_states"][0] = None
    copy["mask"] = 3
    assert given["mask"] is None and states[0] is not None


def test_replaced_brings_back_what_was_there():
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Linear(1, 1))
    first, other = model[0], torch.nn.Identity()
    with replaced(first, "forward", torch.neg):
        assert float(first(torch.tensor(2.0))) == -2
    assert "forward" not in vars(first)
    first.forward = torch.abs  # of the object, as wrappers of fairseq and others set it
    with pytest.raises(RuntimeError, match="boom"), replaced(first, "forward", torch.neg):
        raise RuntimeError("boom")
    assert first.forward is torch.abs
    with replaced(model, "1", other):
        assert model[1] is other
    assert [type(layer).__name__ for layer in model] == ["Linear", "ReLU", "Linear"]


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
    assert known(model.decoder).heads
    for seed in range(4):
        torch.manual_seed(seed)
        drawn = list(layers)
        seen.add(len(drawn))
        torch.manual_seed(seed)
        found = score_rows(model, sample, risk_set, PAD, max_tokens)
        fast = gradients(model, found)
        assert model.decoder.layers is layers and len(list(layers.children())) == 4
        with replaced(model.decoder, "layers", torch.nn.ModuleList(drawn)):
            expected = naive(model, sample, risk_set)
        slow = gradients(model, expected)
        for value, right in zip(found, expected, strict=True):
            assert torch.allclose(value, right, atol=1e-12)
        assert fast.keys() == slow.keys()
        for name in fast:
            assert torch.allclose(fast[name], slow[name], rtol=1e-6, atol=1e-6), name
    assert len(seen) > 1


def test_asking_what_a_decoder_allows_draws_nothing():
    model = make_model("transformer_tiny", make_task(), decoder_layerdrop=0.5).train()
    before = torch.get_rng_state()
    assert known(model.decoder).heads == 2
    assert torch.equal(torch.get_rng_state(), before)

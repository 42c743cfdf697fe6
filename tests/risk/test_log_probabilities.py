"""Log-probabilities without full logits: values, gradients, precision and memory."""

import pytest
import torch

from simile_plugin.risk import log_probabilities
from simile_plugin.risk.log_probabilities import token_lprobs


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


def test_nothing_of_size_k_x_v_is_kept_if_it_is_large(monkeypatch):
    monkeypatch.setattr(log_probabilities, "SLICE_LOGITS", 100)
    monkeypatch.setattr(log_probabilities, "KEPT_LOGITS", 40 * 50 - 1)
    features = torch.randn(40, 4, requires_grad=True)
    weight = torch.randn(50, 4, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.numel()), t)[1], id):
        token_lprobs(features, weight, None, torch.zeros(40, dtype=torch.int64))
    assert max(kept) <= 50 * 4


@pytest.mark.parametrize("shared", [False, True], ids=["a target each", "shared prefixes"])
@pytest.mark.parametrize("masked", [float("-inf"), -1e9])
def test_a_masked_first_token_leaves_value_and_gradient(masked, shared, monkeypatch):
    # log-sum-exp is taken from the largest logit: from one of -inf it would be NaN, from one of
    # -1e9 it would lose all its digits
    for kept in (0, 1000):
        monkeypatch.setattr(log_probabilities, "KEPT_LOGITS", kept)
        torch.manual_seed(1)
        features, weight = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3)
        bias = torch.tensor([masked, 0.0, 1.0, -1.0, 0.5])
        targets = torch.tensor([1, 4, 2, 2])
        trees = (torch.arange(4), [0, 1, 2, 3, 4]) if shared else (None, None)
        lprobs, _ = token_lprobs(features, weight, bias, targets, *trees)
        (found,) = torch.autograd.grad(lprobs.sum(), features)
        exact = features.detach().double().requires_grad_()
        logits = exact @ weight.double()[1:].T + bias.double()[1:]  # without the first token
        right = torch.log_softmax(logits, -1)[torch.arange(4), targets - 1]
        (right_grad,) = torch.autograd.grad(right.sum(), exact)
        assert torch.allclose(lprobs.double(), right, atol=1e-5)
        assert torch.allclose(found.double(), right_grad, atol=1e-5)

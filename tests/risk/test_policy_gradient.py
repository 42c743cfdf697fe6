"""REINFORCE with leave-one-out and GRPO, by hand: values, gradients, and what is refused."""

import math

import pytest
import torch
from torch import Tensor, nn

from simile_plugin.files import InputError
from simile_plugin.risk import Objective, RiskSettings, check_settings
from simile_plugin.risk.policy_gradient import (
    group_relative,
    grpo,
    leave_one_out,
    reinforce,
    weights_of_start,
)

# One list: the reference, no member, and three samples of 1, 2 and 2 tokens; and one of one sample.
REWARD = torch.tensor([[9.0, 0.2, 0.5, 0.8], [9.0, 0.4, 7.0, 7.0]])
MEMBERS = torch.tensor([[False, True, True, True], [False, True, False, False]])
LPROBS = torch.tensor([
    [[-9.0, -9.0], [-1.0, 0.0], [-2.0, -0.5], [-1.5, -1.0]],
    [[-9.0, -9.0], [-3.0, -1.0], [math.nan, -1.0], [-1.0, -1.0]],
])  # fmt: skip
MASK = torch.tensor([[[True, True], [True, False], [True, True], [True, True]]] * 2)


def test_advantages_by_hand() -> None:
    first, alone = leave_one_out(REWARD, MEMBERS).tolist()
    assert first == pytest.approx([0.0, 0.2 - 0.65, 0.5 - 0.5, 0.8 - 0.35])
    assert alone == [0.0] * 4
    first, alone = group_relative(REWARD, MEMBERS).tolist()
    deviation = math.sqrt((0.3**2 + 0 + 0.3**2) / 2) + 1e-4  # divided by N - 1
    assert first == pytest.approx([0.0, -0.3 / deviation, 0.0, 0.3 / deviation], abs=1e-6)
    assert alone == [0.0] * 4
    # A constant reward is no control of these either: its own baseline takes it away.
    constant = torch.full((2, 4), 0.7)
    for advantages in (leave_one_out, group_relative):
        assert advantages(constant, MEMBERS).abs().max() < 1e-3


def test_reinforce_by_hand() -> None:
    lprobs = LPROBS.nan_to_num().requires_grad_()
    loss = reinforce(lprobs, MASK, leave_one_out(REWARD, MEMBERS), MEMBERS)
    assert loss.tolist() == pytest.approx([-(-0.45 * -1.0 + 0.45 * -2.5) / 3, 0.0])
    loss.sum().backward()
    assert lprobs.grad is not None
    wanted = [[0.0, 0.0], [0.15, 0.0], [0.0, 0.0], [-0.15, -0.15]]
    assert torch.allclose(lprobs.grad[0], torch.tensor(wanted), atol=1e-6)


def test_grpo_by_hand() -> None:
    lprobs = LPROBS.clone().requires_grad_()
    start = (LPROBS + 0.1).detach()
    advantages = group_relative(REWARD, MEMBERS)
    a = float(advantages[0, 3])
    loss = grpo(lprobs, MASK, advantages, MEMBERS, start, kl_weight=0.5)
    kl = math.exp(0.1) - 0.1 - 1  # of each token
    # five tokens: one of -a, two of 0, two of a
    assert float(loss[0]) == pytest.approx((a - 2 * a) / 5 + 0.5 * kl)
    loss[0].backward()
    assert lprobs.grad is not None
    pull = 0.5 * (1 - math.exp(0.1))
    wanted = [[0, 0], [a + pull, 0], [pull, pull], [pull - a, pull - a]]
    assert torch.allclose(lprobs.grad[0], torch.tensor(wanted) / 5, atol=1e-6)
    assert not lprobs.grad[1].any()  # what is no number has no part in it
    without = grpo(LPROBS, MASK, advantages, MEMBERS)
    assert float(without[0]) == pytest.approx(-a / 5)


@pytest.mark.parametrize("kind", ["rloo", "grpo"])
def test_the_loss_of_an_update(kind: str) -> None:
    objective = Objective(0.4, 0.0, 10.0, kind=kind)
    lengths = torch.tensor([[0.0, 0.1, 0.0, -0.1], [0.0] * 4])  # what length costs
    loss, scored = objective.loss(
        token_lprobs=LPROBS,
        mean_lprobs=LPROBS[:, 0],
        token_mask=MASK,
        members=MEMBERS,
        reward=REWARD,
        length_cost=lengths,
        divisors=torch.tensor([2.0, 2.0]),
        vocabulary=9,
    )
    paid = REWARD - lengths
    if kind == "rloo":
        policy = reinforce(LPROBS.nan_to_num(), MASK, leave_one_out(paid, MEMBERS), MEMBERS)
    else:
        policy = grpo(LPROBS, MASK, group_relative(paid, MEMBERS), MEMBERS)
    wanted = 0.4 * 18 / 2 + 0.6 * 10 * policy
    assert loss.item() == pytest.approx(wanted.sum().item(), rel=1e-5)
    assert scored.risk.tolist() == pytest.approx([1 - 0.5, 1 - 0.4])  # the samples' mean cost


def test_the_weights_of_the_start_are_there_for_a_while_only() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    before: dict[str, Tensor] = {n: p.detach().clone() for n, p in model.named_parameters()}
    start = {name: torch.zeros_like(value) for name, value in before.items()}
    ones = torch.ones(1, 2)
    with pytest.raises(RuntimeError), weights_of_start(model, start):
        found = model(ones)
        assert not found.any() and not found.requires_grad and not model.training
        raise RuntimeError
    assert model.training
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, "--risk-search sampling --risk-keep-duplicates"),
        ({"risk_search": "sampling"}, "--risk-keep-duplicates beside it"),
        ({"risk_include_reference": True}, "no --risk-include-reference"),
    ],
)
def test_lists_that_are_no_samples_are_refused(flags: dict[str, object], said: str) -> None:
    if "risk_include_reference" in flags:
        flags = flags | {"risk_search": "sampling", "risk_keep_duplicates": True}
    settings = RiskSettings(risk_objective="rloo")
    for name, value in flags.items():
        setattr(settings, name, value)
    with pytest.raises(InputError, match=f"--risk-objective rloo: expected .*{said}"):
        check_settings(settings)

"""The multiplier on length: hand arithmetic, and a policy whose reward pays for length."""

import pytest
import torch

from simile_plugin.risk.length_control import (
    SMOOTHING,
    LengthControl,
    length_slope,
    relative_length,
)


def test_relative_length_by_hand() -> None:
    # (6 - 4) / 4, (4 - 4) / 4, (3 - 4) / 4; an empty reference counts as 1 word
    found = relative_length(torch.tensor([[6, 4, 3], [2, 1, 0]]), torch.tensor([4, 0]))
    assert found.tolist() == [[0.5, 0.0, -0.25], [1.0, 0.0, -1.0]]


def test_slope_by_hand() -> None:
    q = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])
    cost = torch.tensor([[0.2, 0.4, 0.8], [1.0, 1.0, 1.0]])
    lengths = torch.tensor([[0.2, 0.0, -0.4], [3.0, 3.0, 3.0]])
    # means 0.4 and 0; 0.5 (-0.2) 0.2 + 0.25 * 0 + 0.25 * 0.4 (-0.4), 0.5 * 0.04 + 0.25 * 0.16
    covariance, variance = length_slope(q, cost, lengths)
    assert covariance.tolist() == pytest.approx([-0.02 - 0.04, 0.0])
    assert variance.tolist() == pytest.approx([0.02 + 0.04, 0.0])


def test_the_multiplier_by_hand() -> None:
    control = LengthControl()
    assert control.multiplier == 0
    control.update(-0.06, 0.06)  # long is cheap: length has to cost as much
    assert control.multiplier == pytest.approx(1.0)
    control.update(0.3, 0.1)
    kept = 1 - SMOOTHING
    assert control.multiplier == pytest.approx((0.06 * kept - 0.3) / (0.06 * kept + 0.1))


def test_strength_is_a_share() -> None:
    for strength in (0.0, 0.5):
        control = LengthControl(strength)
        control.update(-0.06, 0.06)
        assert control.multiplier == strength


def test_costs_that_pay_for_length_alone_lose_all_they_pay() -> None:
    lengths = torch.rand(64, 8)
    q = torch.softmax(torch.randn(64, 8), -1)
    control = LengthControl()
    control.update(*(float(part.sum()) for part in length_slope(q, 0.7 - 0.3 * lengths, lengths)))
    assert control.multiplier == pytest.approx(0.3, abs=1e-5)


def test_lists_of_one_length_pay_nothing() -> None:
    control = LengthControl()
    control.update(0.0, 0.0)
    assert control.multiplier == 0


def test_a_restored_control_goes_on_as_if_never_stopped() -> None:
    whole, first, second = LengthControl(), LengthControl(), LengthControl(0.5)
    for control in (whole, first):
        control.update(-0.2, 0.3)
    second.restore(first.state())
    assert second.strength == 0.5
    second.strength = 1.0
    for control in (whole, second):
        control.update(0.1, 0.2)
    assert second == whole


@pytest.mark.parametrize(("pay", "held"), [(0.3, True), (-0.3, True), (0.3, False)])
def test_a_policy_keeps_its_lengths_and_still_improves(pay: float, held: bool) -> None:
    """The policy knows the length and the quality of candidates; cost: -quality - pay * length."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.zeros(2, requires_grad=True)
    control = LengthControl(1.0 if held else 0.0)
    ratios, qualities = [], []
    for _ in range(300):
        features = torch.randn(32, 8, 2, generator=generator)
        lengths, quality = 0.1 * features[..., 0], 0.1 * features[..., 1]
        q = torch.softmax(features @ weights, -1)
        cost = -quality - pay * lengths
        risk = (q * (cost + control.multiplier * lengths)).sum()
        (gradient,) = torch.autograd.grad(risk, weights)
        with torch.no_grad():
            weights -= 0.1 * gradient
        covariance, variance = length_slope(q.detach(), cost, lengths)
        control.update(float(covariance.sum()), float(variance.sum()))
        ratios.append(float((q * lengths).sum() / 32))
        qualities.append(float((q * quality).sum() / 32))
    assert sum(qualities[-50:]) / 50 > 0.1  # from 0
    drift = sum(ratios[-50:]) / 50
    assert abs(drift) < 0.01 if held else drift > 0.03

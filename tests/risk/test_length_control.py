"""The multiplier on length: hand arithmetic, and a policy whose reward pays for length."""

import pytest
import torch

from simile_plugin.risk.length_control import (
    FIRST_UPDATES,
    GAIN,
    LENGTH_SUMS,
    SHARE,
    SMOOTHING,
    LengthControl,
    length_slope,
    relative_length,
)


def test_relative_length_by_hand() -> None:
    # (6 - 4) / 4, (4 - 4) / 4, (3 - 4) / 4; a missing reference has the mean of
    # its candidates, (3 + 1) / 2
    found = relative_length(torch.tensor([[6, 4, 3], [0, 3, 1]]), torch.tensor([4, 0]))
    assert found.tolist() == [[0.5, 0.0, -0.25], [-1.0, 0.5, -0.5]]


def test_slope_by_hand() -> None:
    q = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])
    cost = torch.tensor([[0.2, 0.4, 0.8], [1.0, 1.0, 1.0]])
    lengths = torch.tensor([[0.2, 0.0, -0.4], [3.0, 3.0, 3.0]])
    # means 0.4 and 0; 0.5 (-0.2) 0.2 + 0.25 * 0 + 0.25 * 0.4 (-0.4), 0.5 * 0.04 + 0.25 * 0.16
    covariance, variance = length_slope(q, cost, lengths)
    assert covariance.tolist() == pytest.approx([-0.02 - 0.04, 0.0])
    assert variance.tolist() == pytest.approx([0.02 + 0.04, 0.0])


def test_equal_lengths_have_no_slope_whatever_q_is_rounded_to() -> None:
    torch.manual_seed(1)
    q, cost = torch.randn(200, 8).softmax(-1), torch.rand(200, 8)
    assert (q.sum(-1) != 1).any()
    lengths = (torch.arange(200) / 7.0).unsqueeze(1).expand(-1, 8)
    for found in length_slope(q, cost, lengths):
        assert (found == 0).all()


def sums_of(*values: float) -> dict[str, float]:
    return dict(zip(LENGTH_SUMS, values, strict=True))


def sums(slope: float, ratio: float = 1.0) -> dict[str, float]:
    return sums_of(-0.5 * slope, 0.5, 300 * ratio, 300)


def test_the_multiplier_by_hand() -> None:
    control = LengthControl()
    assert control.multiplier == 0
    control.update(sums(0.2, 0.9))
    control.update(sums_of(0.3, 0.1, 110, 100))  # first and ratio: their mean, 1.0
    kept = 1 - SMOOTHING
    slope = (0.1 * kept - 0.3) / (0.5 * kept + 0.1)
    assert control.first == control.ratio == pytest.approx(1.0)
    assert control.multiplier == pytest.approx(SHARE * slope)


@pytest.mark.parametrize("slope", [0.2, -0.2])
@pytest.mark.parametrize(
    ("ratio", "share"),
    [
        (1.0, SHARE),
        (1.1, SHARE + GAIN * SMOOTHING * 0.1),
        (0.9, SHARE - GAIN * SMOOTHING * 0.1),
        (0.5, 0.0),
        (2.0, 1.0),
    ],
)
def test_the_share_follows_the_lengths(slope: float, ratio: float, share: float) -> None:
    """A reward that pays for length is held more when texts grow; one for shortness, less."""
    control = LengthControl()
    for _ in range(FIRST_UPDATES):
        control.update(sums(slope))
    assert control.multiplier == pytest.approx(SHARE * slope)
    control.update(sums(slope, ratio if slope > 0 else 2 - ratio))
    assert control.multiplier == pytest.approx(share * slope)


def test_what_has_no_words_or_one_length_pays_nothing() -> None:
    control = LengthControl()
    control.update(sums_of(0.0, 0.0, 0, 0))
    assert control == LengthControl()
    control.update(sums_of(0.0, 0.0, 5, 5))
    assert control.multiplier == 0


def test_a_restored_control_goes_on_as_if_never_stopped() -> None:
    whole, first, second = LengthControl(), LengthControl(), LengthControl()
    for control in (whole, first):
        control.update(sums(0.2, 1.02))
    second.restore(first.state() | {"strength": 0.5})
    for control in (whole, second):
        control.update(sums(0.1, 0.97))
    assert second == whole


@pytest.mark.parametrize("pay", [0.3, -0.3])
def test_a_policy_keeps_its_lengths_and_still_improves(pay: float) -> None:
    """The policy knows the length and the quality of candidates; cost: -quality - pay * length."""

    def train(strength: float) -> tuple[float, float]:
        generator = torch.Generator().manual_seed(1)
        weights = torch.zeros(2, requires_grad=True)
        control = LengthControl(strength)
        found = []
        for _ in range(600):
            features = torch.randn(32, 8, 2, generator=generator)
            lengths, quality = 0.1 * features[..., 0], 0.1 * features[..., 1]
            q = torch.softmax(features @ weights, -1)
            cost = -quality - pay * lengths
            risk = (q * (cost + control.multiplier * lengths)).sum()
            (gradient,) = torch.autograd.grad(risk, weights)
            with torch.no_grad():
                weights -= 0.02 * gradient
            covariance, variance = length_slope(q.detach(), cost, lengths)
            expected = float((q * (1 + lengths)).sum())
            seen = sums_of(float(covariance.sum()), float(variance.sum()), expected, 32.0)
            control.update(seen)
            found.append((float((q * lengths).sum() / 32), float((q * quality).sum() / 32)))
        length, quality = (sum(part[-50:]) / 50 for part in zip(*found, strict=True))
        return length, quality

    (free, _), (held, quality) = train(0.0), train(1.0)
    assert quality > 0.05  # from 0
    assert free * pay > 0.01 and abs(held) < 0.7 * abs(free)

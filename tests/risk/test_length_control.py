"""The multiplier on length: hand arithmetic, and a model in which lengths drift."""

import pytest
import torch

from simile_plugin.risk.length_control import (
    ASCENT,
    FIRST_UPDATES,
    PENALTY,
    SMOOTHING,
    LengthControl,
    length_cost,
)


def begun(ratio: float, strength: float = 1.0) -> LengthControl:
    control = LengthControl(strength)
    for _ in range(FIRST_UPDATES):
        control.update(100 * ratio, 100)
    return control


def test_length_cost_by_hand() -> None:
    # 0.2 * (6 - 4) / 4, 0.2 * (4 - 4) / 4, 0.2 * (3 - 4) / 4; an empty reference counts as 1 word
    cost = length_cost(torch.tensor([[6, 4, 3], [2, 1, 0]]), torch.tensor([4, 0]), 0.2)
    assert cost.tolist() == [pytest.approx([0.1, 0.0, -0.05]), pytest.approx([0.2, 0.0, -0.2])]


@pytest.mark.parametrize(
    ("first", "low", "high"),
    [
        (0.95, 0.95, 0.96),
        (0.995, 0.995, 1.0),
        (1.0, 1.0, 1.0),
        (1.004, 1.0, 1.004),
        (1.2, 1.19, 1.2),
    ],
)
def test_bounds_reach_from_the_first_ratio_towards_one(first, low, high) -> None:
    assert begun(first).bounds == pytest.approx((low, high))


def test_the_first_updates_cost_nothing_and_are_averaged() -> None:
    control = LengthControl()
    for ratio in (0.9, 1.1) * (FIRST_UPDATES // 2):
        control.update(10 * ratio, 10)
        assert control.multiplier == 0
    assert control.first == pytest.approx(1.0)


def test_the_multiplier_by_hand() -> None:
    control = begun(0.98)
    control.update(110, 100)
    ratio = 0.98 + SMOOTHING * (1.10 - 0.98)  # 0.992; the bound is 0.98 + 0.01
    above = ASCENT * (ratio - 0.99)
    assert control.ratio == pytest.approx(ratio)
    assert control.multiplier == pytest.approx(above + PENALTY * (ratio - 0.99))
    control.update(50, 100)
    ratio += SMOOTHING * (0.5 - ratio)  # 0.9428, below 0.98: the other bound pulls
    expected = max(0, above + ASCENT * (ratio - 0.99)) - ASCENT * (0.98 - ratio)
    assert control.multiplier == pytest.approx(expected - PENALTY * (0.98 - ratio))


def test_nothing_is_added_while_the_ratio_stays() -> None:
    control = begun(0.97)
    for ratio in (0.97, 0.975, 0.979, 0.972):
        control.update(ratio, 1)
    assert control.multiplier == 0


def test_without_strength_or_words_nothing_is_seen() -> None:
    control = begun(1.5, strength=0.0)
    assert (control.updates, control.multiplier) == (0, 0)
    control = begun(1.0)
    control.update(0.0, 0.0)
    assert control.updates == FIRST_UPDATES


def test_a_restored_control_goes_on_as_if_never_stopped() -> None:
    whole, first = begun(1.02), begun(1.02)
    second = LengthControl()
    second.restore(first.state())
    for ratio in (1.1, 1.05, 0.9):
        whole.update(ratio, 1)
        second.update(ratio, 1)
    assert second == whole


@pytest.mark.parametrize("push", [-0.2, -0.05, 0.05, 0.2])
def test_a_drift_is_held_without_swinging(push: float) -> None:
    """The ratio grows by 0.15 % an update for a push of 1; the multiplier pushes back."""
    control, ratio, seen = LengthControl(), 1.0, []
    for _ in range(1000):
        control.update(ratio, 1)
        ratio += 0.0015 * (push - control.multiplier)
        seen.append(ratio)
    assert max(abs(r - 1) for r in seen) < 0.025
    assert abs(seen[-1] - 1) < 0.002
    assert control.multiplier == pytest.approx(push, abs=0.02)

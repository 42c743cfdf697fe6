"""Correlations by hand, and resamples against slow loops over written-out data."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.significance import (
    KINDS,
    Estimate,
    bootstrap_correlations,
    correlation,
    estimate,
    pearson,
    resample_counts,
    spearman,
)
from simile_plugin.significance.correlations import resampled_pearson


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def slow_kendall(x: list[float], y: list[float]) -> float:
    agree = untied_x = untied_y = 0
    for (a, b), (c, d) in itertools.combinations(zip(x, y, strict=True), 2):
        agree += int(np.sign(a - c) * np.sign(b - d))
        untied_x += a != c
        untied_y += b != d
    return agree / math.sqrt(untied_x * untied_y)


def test_pearson_by_hand() -> None:
    # x - 2 = (-1, 0, 1), y - 4 = (-2, 1, 1): (2 + 0 + 1) / sqrt(2 * 6)
    assert pearson(array(1, 2, 3), array(2, 5, 5)) == pytest.approx(3 / math.sqrt(12))
    assert pearson(array(1, 2, 3), array(3, 2, 1)) == pytest.approx(-1)


def test_spearman_by_hand() -> None:
    # Ranks 1 2 3 and 1 2.5 2.5: deviations (-1, 0, 1) and (-1, .5, .5): 1.5 / sqrt(2 * 1.5)
    assert spearman(array(1, 2, 30), array(2, 5, 5)) == pytest.approx(1.5 / math.sqrt(3))
    assert spearman(array(1, 2, 3), array(1, 10, 100)) == pytest.approx(1)


def test_kendall_by_hand() -> None:
    # Pairs of x = 1 2 3 and y = 1 3 3: two agree, one is tied in y: 2 / sqrt(3 * 2)
    found = correlation("kendall", array(1, 2, 3), array(1, 3, 3))
    assert found == pytest.approx(2 / math.sqrt(6))


@pytest.mark.parametrize("kind", KINDS)
def test_constant_sides_are_undefined(kind: str) -> None:
    for x, y in (
        (array(1, 1, 1), array(1, 2, 3)),
        (array(1, 2, 3), array(0, 0, 0)),
        (array(1, 1 + 1e-8, 1), array(1, 2, 3)),
    ):
        assert np.isnan(correlation(kind, x, y))
        assert np.isnan(bootstrap_correlations({"m": x}, y, 5, 1, [kind])["m"]).all()
    # Of two rows only the constant one is undefined.
    rows = correlation(
        kind, np.stack([array(4, 4, 4), array(1, 2, 4)]), np.stack([array(1, 2, 3)] * 2)
    )
    assert np.isnan(rows[0]) and rows[1] > 0.9


def test_resamples_are_what_writing_them_out_gives() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 6, 30) / 5, 100 + rng.normal(size=30)
    (counts,) = resample_counts(30, 20, seed=8)
    found = bootstrap_correlations({"m": x, "same": y}, y, 20, seed=8)
    assert found["same"] == pytest.approx(100)
    fast = found["m"]
    assert fast.shape == (len(KINDS), 21)
    for row, count in enumerate(np.concatenate([np.ones((1, 30)), counts]).astype(int)):
        long_x, long_y = np.repeat(x, count), np.repeat(y, count)
        assert fast[0, row] == pytest.approx(100 * spearman(long_x, long_y))
        assert fast[1, row] == pytest.approx(100 * pearson(long_x, long_y))
        assert fast[2, row] == pytest.approx(100 * slow_kendall(list(long_x), list(long_y)))


FEW = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=2, max_size=9)


@given(FEW, st.integers(0, 99), st.sampled_from([1.0, 1e-3, 1e200]))
def test_fast_pearson_is_scipys(pairs: list[tuple[int, int]], seed: int, scale: float) -> None:
    x, y = scale * np.array(pairs, dtype=np.float64).T
    y /= scale
    (counts,) = resample_counts(len(x), 12, seed)
    long = np.stack([np.repeat(np.arange(len(x)), count) for count in counts.astype(int)])
    slow = correlation("pearson", x[long], y[long])
    assert resampled_pearson(x, y, counts) == pytest.approx(slow, abs=1e-9, nan_ok=True)


def test_interval_covers_the_true_correlation() -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(size=400)
    metric = 0.6 * human + 0.8 * rng.normal(size=400)  # true Pearson 0.6
    found = estimate(bootstrap_correlations({"m": metric}, human, 400, seed=1)["m"][1])
    assert found.low < 60 < found.high
    assert found.low < found.value < found.high
    # The standard error of Pearson is (1 - rho^2) / sqrt(n) = 3.2, and 3.92 of them wide.
    assert 9 < found.high - found.low < 17


def test_undefined_resamples_are_left_out() -> None:
    nan = math.nan
    assert estimate(array(5, nan, 1, 2, nan)) == Estimate(5, 1, 2)
    undefined = estimate(array(5, nan, nan))
    assert undefined.value == 5 and math.isnan(undefined.low)

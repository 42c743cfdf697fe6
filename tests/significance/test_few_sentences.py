"""p of few sentences is that of the exact permutation test; beyond, of the bootstrap."""

import itertools

import numpy as np
import pytest

from simile_plugin.significance import (
    SentenceStatistics,
    bootstrap,
    bootstrap_p_value,
    exact_p_value,
    mean_statistics,
    paired_p_value,
)


def test_three_sentences_that_all_agree_have_an_eighth():
    low, high = np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 3.5, 4.2]])
    statistics = mean_statistics(low), mean_statistics(high)
    draws = bootstrap(statistics, resamples=1000)
    difference = float(high.mean() - low.mean())
    # all resamples are on one side; of 2^3 patterns of signs one is as far
    assert bootstrap_p_value(draws[0], draws[1], difference, 3) == 1 / 8
    assert paired_p_value(*statistics, (draws[0], draws[1])) == 1 / 8


def test_of_three_sentences_by_hand():
    # differences 3, 1, -1: sums of signs 3 (+++- no: +3+1-1), at least 3 are
    # 3+1+1 = 5, 3+1-1 = 3, 3-1+1 = 3 of eight
    first, second = (
        mean_statistics(np.array([[0.0, 0, 1]])),
        mean_statistics(np.array([[3.0, 1, 0]])),
    )
    assert exact_p_value(first, second) == exact_p_value(second, first) == 3 / 8
    assert exact_p_value(first, first) == 1
    one = mean_statistics(np.array([[1.0]]))
    assert exact_p_value(one, mean_statistics(np.array([[2.0]]))) == 1 / 2


def ratio(sums):
    return sums[..., 0] / sums[..., 1]


def test_a_score_of_sums_is_that_of_a_slow_loop():
    rng = np.random.default_rng(1)
    first, second = rng.integers(1, 9, (2, 1, 6, 2))  # of seven sentences twice two counts
    low, high = (SentenceStatistics(own, ratio) for own in (first, second))
    size, as_far = high.corpus() - low.corpus(), 0
    for pattern in itertools.product([False, True], repeat=6):
        swap = np.array(pattern)[None, :, None]
        a, b = np.where(swap, second, first), np.where(swap, first, second)
        moved = ratio(b.sum((0, 1))) - ratio(a.sum((0, 1)))
        as_far += np.sign(size) * moved >= abs(size) - 1e-9
    assert exact_p_value(low, high) == as_far / 64


def test_seeds_are_exchanged_one_by_one_and_their_scores_averaged():
    rng = np.random.default_rng(22)
    first, second = rng.integers(1, 9, (2, 5, 2)), rng.integers(1, 9, (3, 5, 2))
    low, high = SentenceStatistics(first, ratio), SentenceStatistics(second, ratio)
    size, as_far = high.corpus() - low.corpus(), 0
    for pattern in itertools.product([False, True], repeat=5):
        swap, moved = np.array(pattern)[:, None], 0.0
        for s in range(6):  # both begin again: 0 1 0 1 0 1, 0 1 2 0 1 2
            a, b = first[s % 2], second[s % 3]
            mixed = np.where(swap, b, a).sum(0), np.where(swap, a, b).sum(0)
            moved += (ratio(mixed[1]) - ratio(mixed[0])) / 6
        as_far += np.sign(size) * moved >= abs(size) - 1e-9
    assert exact_p_value(low, high) == as_far / 32
    means = [SentenceStatistics(own.mean(0, keepdims=True), ratio) for own in (first, second)]
    assert exact_p_value(*means) != as_far / 32  # of averaged counts it is another test


def test_without_a_difference_a_twentieth_a_side_at_most():
    rng, small, trials = np.random.default_rng(2), 0, 400
    for _ in range(trials):
        first, second = rng.normal(size=(2, 1, 6))
        small += exact_p_value(mean_statistics(first), mean_statistics(second)) < 0.05
    # 3 of 64 patterns a side are the most below 0.05: 2 x 3 / 64 = 9.4%; the bootstrap gave 19%
    assert small / trials < 0.14


def test_more_sentences_take_the_bootstrap_and_are_refused_by_the_exact_test():
    rng = np.random.default_rng(3)
    first, second = (mean_statistics(own) for own in rng.normal(size=(2, 1, 17)))
    draws = bootstrap([first, second], resamples=200)
    difference = second.corpus() - first.corpus()
    expected = bootstrap_p_value(draws[0], draws[1], difference, 17)
    assert paired_p_value(first, second, (draws[0], draws[1])) == expected
    with pytest.raises(ValueError, match="got 17 sentences; expected up to 16"):
        exact_p_value(first, second)

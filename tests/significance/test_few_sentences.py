"""p of few sentences is never below that of the exact permutation test."""

import numpy as np

from simile_plugin.significance import bootstrap, bootstrap_p_value, mean_statistics


def test_three_sentences_that_all_agree_have_an_eighth():
    low, high = np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 3.5, 4.2]])
    draws = bootstrap([mean_statistics(low), mean_statistics(high)], resamples=1000)
    difference = float(high.mean() - low.mean())
    # all resamples are on one side; of 2^3 patterns of signs one is as far
    assert bootstrap_p_value(draws[0], draws[1], difference, 3) == 1 / 8

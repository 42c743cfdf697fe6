"""Sums that are logged: hand arithmetic."""

import pytest

from simile_plugin.risk.sums import repetition


def test_repetition_by_hand() -> None:
    # ab ba ab: one of three again; cc cc: one of two; one word has none
    assert repetition([[*"abab"], [*"ccc"], ["d"], []]) == pytest.approx(1 / 3 + 1 / 2)
    # a sentence that loops counts once, however long
    assert repetition([["a"] * 1000, [*"abcd"]]) < 1

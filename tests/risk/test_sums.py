"""Sums that are logged: hand arithmetic."""

from simile_plugin.risk.sums import repeated_bigrams


def test_repeated_bigrams_by_hand() -> None:
    # ab ba ab: one of three again; cc cc: one of two; one word has none
    found = repeated_bigrams([[*"abab"], [*"ccc"], ["d"], []])
    assert found == {"bigrams": 3 + 2, "repeated_bigrams": 1 + 1}

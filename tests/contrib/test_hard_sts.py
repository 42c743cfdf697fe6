"""Word error rates by hand, subsets of pairs whose place is known."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.contrib.hard_sts import (
    ALL,
    NEGATED,
    OVERLAP,
    evaluate_hard,
    format_hard,
    hard_sets,
    symmetric_word_error_rate,
)
from simile_plugin.encoder.models import Encoder
from simile_plugin.evaluation.sts import StsSet


def test_symmetric_word_error_rate_by_hand() -> None:
    # One substitution and one insertion: 2 / 3 one way, 2 / 4 the other, mean 7 / 12
    left, right = "the old ferry".split(), "the new ferry sank".split()
    assert symmetric_word_error_rate(left, right) == pytest.approx(7 / 12)
    assert symmetric_word_error_rate(left, left) == 0
    assert symmetric_word_error_rate([], []) == 0
    assert symmetric_word_error_rate([], left) == math.inf


def slow_distance(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        change = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(change, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(a), len(b))


WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=7)


@settings(max_examples=80)
@given(WORDS, WORDS)
def test_against_the_recursive_definition(a: list[str], b: list[str]) -> None:
    d = slow_distance(tuple(a), tuple(b))
    expected = (d / len(a) + d / len(b)) / 2
    assert symmetric_word_error_rate(a, b) == pytest.approx(expected)
    assert symmetric_word_error_rate(b, a) == pytest.approx(expected)


def pairs_by_overlap() -> StsSet:
    """20 pairs: pair i has i of 20 words exchanged, so its SWER is i / 20."""
    words = [f"w{n}" for n in range(20)]
    left = [" ".join([f"p{i}", *words[1:]]) for i in range(20)]
    right = [
        " ".join([f"p{i}", *words[1 : 20 - i], *(f"x{n}" for n in range(i))]) for i in range(20)
    ]
    gold = np.array([0, 1, 2, 5, *[3.0] * 12, 1, 4, 5, 4.5])
    return StsSet("one", left, right, gold)


def test_subsets_of_both_ends() -> None:
    found, rates = hard_sets([pairs_by_overlap()])
    sets = {part.name: part for part in found}
    assert len(sets[ALL].gold) == 20
    assert rates[ALL].tolist() == pytest.approx([i / 20 for i in range(20)])
    assert NEGATED not in sets  # there is none
    # 20 % are four pairs: 0 to 3 with gold 0, 1, 2, 5; and 16 to 19 with gold 1, 4, 5, 4.5
    assert sets["Hard STS: lowest 20% SWER, gold 0 to 1"].gold.tolist() == [0, 1]
    assert sets["Hard STS: highest 20% SWER, gold 4 to 5"].gold.tolist() == [4, 5, 4.5]
    assert sets["hard: lowest 20% SWER, gold 0 to 2"].gold.tolist() == [0, 1, 2]
    assert sets["hard: lowest 10% SWER, gold 0 to 1"].gold.tolist() == [0, 1]
    assert sets["hard: highest 20% SWER, gold 3 to 5"].gold.tolist() == [4, 5, 4.5]
    assert sets["hard: highest 10% SWER, gold 4 to 5"].gold.tolist() == [5, 4.5]
    assert not any(name.startswith("easy") for name in sets)  # one pair each


def test_negations_and_duplicates() -> None:
    rows = [
        ("He did not come.", "He came.", 1.0),
        ("He came.", "He did not come.", 4.0),  # the first pair again, the other way round
        ("They DON'T sleep", "they rest", 2.0),
        ("a notable knot", "nothing of note", 3.0),
        ("it isn’t here", "it is gone", 5.0),
        ("it is not here", "it isn't there", 4.5),  # both sides
        ("we cannot go", "we stay", 2.5),  # one word
    ]
    left, right, gold = (list(side) for side in zip(*rows, strict=True))
    found, _ = hard_sets([StsSet("a", left[:3], right[:3], np.array(gold[:3]))] * 2)
    assert {part.name: len(part.gold) for part in found}[ALL] == 2
    found, _ = hard_sets([StsSet("a", left, right, np.array(gold))])
    sets = {part.name: part for part in found}
    assert sets[ALL].gold.tolist() == [1, 2, 3, 5, 4.5, 2.5]
    assert sets[NEGATED].gold.tolist() == [1, 2, 5]


def test_the_table(encoder: Encoder) -> None:
    found = evaluate_hard({"e": encoder}, [pairs_by_overlap()], 0.25)
    row = found.pearson["hard: lowest 20% SWER, gold 0 to 2"]
    # Gold 0, 1, 2 rises exactly as the word error rate does.
    assert row[OVERLAP] == pytest.approx(-100)
    assert {"SIM", "SIMILE", "BLEU", "chrF", OVERLAP} <= row.keys()
    assert found.pairs[ALL] == 20
    table = format_hard(found)
    assert "hard: highest 10% SWER, gold 4 to 5" in table
    assert table.count("\nall distinct pairs ") == 2

"""Hard STS and bins: word error rates, subsets and bins by hand; the tables as typed."""

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.encoder import Encoder
from simile_plugin.evaluation import StsSet
from tests.evaluation.test_sts import PAIRS, write_set
from tests.papers.scripts import script

hard_sts = script("wieting-2016-hard-sts", "hard_sts")


def test_symmetric_word_error_rate_by_hand() -> None:
    rate = hard_sts.word_error_rate
    # one insertion: 1 of 3 words and 1 of 4
    assert rate("a b c".split(), "a x b c".split()) == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert rate(["a", "b"], ["b", "a"]) == 1  # two substitutions of two words
    assert rate([], []) == 0 and rate([], ["a"]) == math.inf


def by_overlap() -> StsSet:
    """Twenty pairs of 20 words, the i-th with i other words in it: SWER i / 20."""
    left = [" ".join(f"w{i}x{k}" for k in range(20)) for i in range(20)]
    right = [" ".join(f"{'v' if k < i else 'w'}{i}x{k}" for k in range(20)) for i in range(20)]
    gold = np.array([0, 1, 2, 5, *[3] * 12, 1, 4, 5, 4.5])
    return StsSet("made", left, right, gold)


def test_subsets_of_both_ends() -> None:
    pairs = by_overlap()
    masks = hard_sts.hard_subsets(pairs, np.arange(20) / 20)
    found = {name: pairs.gold[mask].tolist() for name, mask in masks.items()}
    # 20 % are four pairs: 0 to 3 with gold 0, 1, 2, 5; and 16 to 19 with gold 1, 4, 5, 4.5
    assert found.pop("all distinct pairs") == pairs.gold.tolist()
    assert list(found.values()) == [
        [],
        [0, 1],
        [4, 5, 4.5],
        [0, 1, 2],
        [0, 1],
        [4, 5, 4.5],
        *[[5, 4.5], [1], [5]],
    ]
    scores = {"1 - SWER": 1 - np.arange(20) / 20}
    table = hard_sts.table("subset", masks, scores, pairs.gold)
    # Gold 0, 1, 2 falls exactly as the overlap does.
    assert "| hard: lowest 20 % SWER, gold 0-2 | 3 | -100.0 [-100.0, -100.0] |" in table
    assert "| easy: lowest 20 % SWER, gold 3-5 | 1 | - |" in table


def test_negations_on_one_side_and_distinct_pairs() -> None:
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
    sets = [StsSet("a", left, right, np.array(gold))]
    pairs = hard_sts.joined(sets, distinct=True)
    assert pairs.gold.tolist() == [1, 2, 3, 5, 4.5, 2.5]
    assert hard_sts.joined(sets, distinct=False).gold.tolist() == gold
    masks = hard_sts.hard_subsets(pairs, np.zeros(6))
    assert pairs.gold[masks["negation"]].tolist() == [1, 2, 5]


def names(values: Sequence[int]) -> list[list[str]]:
    masks = hard_sts.bins(np.array(values), hard_sts.LENGTHS)
    return [[name for name, mask in masks.items() if mask[i]] for i in range(len(values))]


def test_bins_of_length() -> None:
    assert names([4, 5, 10, 15, 16, 33]) == [
        ["0-4", "all"],
        ["5", "all"],
        ["10", "10 and more", "all"],
        ["11-15", "10 and more", "all"],
        ["16-20", "10 and more", "all"],
        ["21 and more", "10 and more", "all"],
    ]
    # Every number is in one of the first ten bins.
    ends = hard_sts.LENGTHS[:10]
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(ends))


def test_tables_as_typed(
    encoder: Encoder, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(tmp_path, "made", PAIRS, "5\n0.5\n4\n1\n")
    flags = ["--sts", str(tmp_path), "--vocabulary", str(encoder_folder)]
    assert hard_sts.main([f"e={encoder_folder}", *flags]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\| all distinct pairs \| 4 \| -?\d+\.\d \[.*\] \| -?\d+\.\d \[", out)
    # The longer sides have 6, 4, 4 and 6 words, and the encoder knows all of them.
    assert re.search(r"\| 0-4 \| 2 \| .*\n\| 5 \| 0 \| - \|\n\| 6 \| 2 \|", out)
    assert re.search(r"unknown words of a pair .*\n.*\n\| 0 \| 4 \| .*\n\| 1 \| 0 \| - \|", out)
    assert hard_sts.main([str(encoder_folder), *flags]) == 2
    assert capsys.readouterr().err == (
        f"hard_sts.py: error: ENCODER: got '{encoder_folder}', expected NAME=FOLDER, each name "
        "once\n"
    )

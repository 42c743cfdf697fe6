"""Samples are no beam's lists: what has the highest score of them is not the model's choice."""

import pytest

from simile_plugin.nbest import NbestList, are_sampled, name_of_first

BEAM = [(-1.0, -2.0, -3.0), (-0.5, -0.5, -4.0), (-0.1, -0.2, -0.3)]
COSTS = [tuple(-score for score in scores) for scores in BEAM]
DRAWN = [(-1.0, -3.0, -2.0), (-3.0, -1.0, -2.0), (-2.0, -1.0, -3.0)]


def lists_of(scores, hyps=("a", "b", "c")):
    return [NbestList(n, None, hyps, own) for n, own in enumerate(scores)]


@pytest.mark.parametrize(
    ("lists", "name"),
    [
        (lists_of(BEAM), "model's choice"),
        (lists_of(COSTS), "model's choice"),  # of which cost_warning speaks
        (lists_of([*BEAM] * 5 + DRAWN[:1]), "model's choice"),  # 1 step of 29 rises
        (lists_of(DRAWN), "highest score"),  # 3 of 6 rise
        (lists_of([()] * 3), "first of the list"),
        ([*lists_of(BEAM), NbestList(3, None, ("a",))], "first of the list"),
        ([*lists_of(BEAM), NbestList(3, None, ())], "model's choice"),  # of it nothing is chosen
        # sampled and sorted by fairseq: a sample that came twice has its score twice
        (lists_of([(-1.0, -1.0, -3.0)] * 3, ("a", "a", "b")), "highest score"),
        # one text in two segmentations, which a beam holds
        (lists_of([(-1.0, -1.5, -3.0)] * 3, ("a", "a", "b")), "model's choice"),
    ],
)
def test_what_the_first_is(lists, name):
    assert name_of_first(lists) == name
    assert are_sampled(lists) == (name == "highest score")

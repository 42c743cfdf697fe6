"""Scores of which low is good are told; references given go before those of the lists."""

import pytest

from simile_plugin.files import InputError
from simile_plugin.nbest import NbestList, cost_warning, read_nbest_lists


def lists_of(*scores):
    return [NbestList(n, None, ("a", "b", "c")[: len(own)], own) for n, own in enumerate(scores)]


def test_costs_rise_within_lists():
    costs = lists_of((1.0, 2.0, 3.0), (0.5, 0.5, 4.0))
    assert cost_warning(costs).startswith("the scores of 2 of 2 lists rise")


@pytest.mark.parametrize(
    "scores",
    [
        [(-1.0, -2.0, -3.0), (-0.5, -0.5, -4.0)],  # a beam's
        [(-1.0, -3.0, -2.0), (-3.0, -1.0, -2.0)],  # samples'
        [(-3.0, -1.0), (-1.0, -3.0)],  # of pairs in any order half rise
        [(0.0, 0.0), (1.0, 1.0)],  # nothing to tell by
        [(), ()],
    ],
)
def test_other_scores_do_not(scores):
    assert cost_warning(lists_of(*scores)) == ""


LISTS = "T-0\ta <<unk>> swims\nD-0\t-0.1\ta swan swims\nD-0\t-0.2\ta duck swims\n"


def test_a_reference_with_an_unknown_word_is_refused_and_one_given_goes_first(tmp_path):
    path = tmp_path / "gen.txt"
    path.write_text(LISTS, "utf-8")
    with pytest.raises(InputError, match=r"sentence 0: got 'a <<unk>> swims'.*give --ref FILE"):
        read_nbest_lists(str(path), "--nbest-lists")
    (one,) = read_nbest_lists(str(path), "--nbest-lists", refs=["a swan swims"])
    assert one.ref == "a swan swims"

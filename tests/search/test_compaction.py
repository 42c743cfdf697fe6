"""When finished sentences leave a batch: numbers by hand."""

import pytest

from simile_plugin.search import AtOnce, Halves


def test_at_once_each_finished_sentence_leaves() -> None:
    policy = AtOnce()
    assert [policy.sentences(count) for count in (1, 7, 30)] == [1, 7, 30]
    assert policy.fewer(29, 30) == 29 and policy.fewer(1, 30) == 1
    assert policy.fewer(30, 30) is None


@pytest.mark.parametrize(
    ("count", "shape"),
    [(1, 8), (8, 8), (9, 10), (16, 16), (17, 18), (31, 32), (33, 36), (100, 104), (257, 288)],
)
def test_halves_fill_a_batch_up_by_at_most_an_eighth(count: int, shape: int) -> None:
    # from 8 to 16 in steps of 2, to 32 of 2, to 64 of 4, to 128 of 8, to 512 of 32
    found = Halves().sentences(count)
    assert found == shape and (count < 8 or found <= count * 1.125 + 1)


@pytest.mark.parametrize(
    ("going", "sentences", "fewer"),
    [
        (17, 32, None),  # more than half go on
        (16, 32, 16),
        (9, 32, 16),  # more than a quarter
        (8, 32, 8),
        (1, 32, 8),  # 4 sentences would take no less time than 8
        (5, 8, None),
        (3, 8, None),
        (4, 15, None),  # a half of 7
    ],
)
def test_halves_keep_a_batch_until_half_is_finished(
    going: int, sentences: int, fewer: int | None
) -> None:
    assert Halves().fewer(going, sentences) == fewer

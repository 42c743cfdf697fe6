"""Whether a model knows its training pairs by heart, in words."""

from simile_plugin.risk import draw_sample, what_to_expect


def test_what_to_expect_by_the_ratio() -> None:
    assert what_to_expect(0.57, 0.60, 300) == (
        "candidates for 300 training sentences cost 0.570, those of validation 0.600 (ratio 0.95): "
        "the model does not know these pairs by heart, expect the full gain"
    )
    line = what_to_expect(0.54, 0.60, 300)
    assert "(ratio 0.90): the model knows a part of these pairs, or they are easier than" in line
    assert "expect a part of the gain. Pairs that it has not read give more (--train" in line
    line = what_to_expect(0.42, 0.55, 300)  # Tatoeba's MLE pairs
    assert "(ratio 0.76): the model knows these pairs by heart, expect no gain; train on" in line


def test_a_sample_is_the_same_at_every_call() -> None:
    assert draw_sample(range(7)) == [0, 1, 2, 3, 4, 5, 6]
    drawn = draw_sample([*range(1000, 6000)])
    assert len(drawn) == len({*drawn}) == 300 and drawn == draw_sample([*range(1000, 6000)])
    # A uniform draw of 300: its mean is 3500, give or take 3 * 5000 / sqrt(12 * 300).
    assert abs(sum(drawn) / 300 - 3500) < 250
    assert len(draw_sample(range(10**15))) == 300  # no copy of them is made

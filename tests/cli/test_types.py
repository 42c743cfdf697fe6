"""Values of flags: what is taken, and the one line for what is not."""

import argparse
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.cli._types import ALPHA, RESAMPLES, SEED, file_name, real_number, whole_number


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (whole_number(2), "1", "got 1, expected a whole number of at least 2"),
        (whole_number(2), "2.5", "got 2.5, expected a whole number of at least 2"),
        (whole_number(0), "nan", "got nan, expected a whole number of at least 0"),
        (RESAMPLES, "0", "got 0, expected a whole number from 40 to 100000"),
        (RESAMPLES, "100000000", "got 100000000, expected a whole number from 40 to 100000"),
        (SEED, "-1", "got -1, expected a whole number from 0 to 4294967295"),
        (SEED, "1" * 23, f"got {'1' * 23}, expected a whole number from 0 to 4294967295"),
        (SEED, "9" * 5000, "got " + "9" * 40 + "..., expected"),  # longer than int() reads
        (SEED, "", "got '', expected a whole number"),
        (ALPHA, "-1", "got -1, expected a number of at least 0"),
        (ALPHA, "nan", "got nan, expected a number of at least 0"),
        (ALPHA, "inf", "got inf, expected a number of at least 0"),
        (ALPHA, "1e999", "got 1e999, expected a number of at least 0"),
        (real_number(), "-inf", "got -inf, expected a finite number"),
        (file_name, "", "got '', expected the name of a file or folder"),
    ],
)
def test_refused(parse: object, text: str, message: str) -> None:
    assert callable(parse)
    with pytest.raises(argparse.ArgumentTypeError) as error:
        parse(text)
    assert str(error.value).startswith(message)


def test_taken() -> None:
    assert [RESAMPLES("40"), RESAMPLES("100000"), SEED("4294967295")] == [40, 100000, 2**32 - 1]
    assert [ALPHA("0"), ALPHA("1e-3"), real_number()("-2")] == [0, 0.001, -2]
    assert file_name("a b") == "a b"


@given(st.floats(), st.floats(-2, 2))
def test_real_numbers_from_a_least_one_on(value: float, least: float) -> None:
    if math.isfinite(value) and value >= least:
        assert real_number(least)(repr(value)) == value
    else:
        with pytest.raises(argparse.ArgumentTypeError):
            real_number(least)(repr(value))

"""Flags from the fields of a dataclass: what is taken, and the one line for what is not."""

import argparse
import math
from dataclasses import dataclass
from typing import Any

import pytest

from simile_plugin.cli import main
from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.files import FILE, SEED, InputError, Range, check_fields, option


@dataclass
class Flags:
    """One of each kind."""

    lists: str = option("the lists", names=["lists"], metavar="LISTS", range=FILE)
    ref: str = option("references", names=["-r", "--ref"], range=FILE)
    hyp: list[str] = option("one or more", [], nargs="+", range=FILE)
    reward: list[str] = option("again for more", [])
    pair: tuple[str, str] | None = option("two", None, metavar=("A", "B"))
    number: int | None = option("50 % of it (default: all)", None, range=Range.at_least(1))
    seed: int = option("seed", 7, range=SEED, group="numbers")
    rate: float = option("rate", 0.5, range=Range.within(0, 1), group="numbers")
    test: str = option("test", "one", choices=("one", "two"))
    json: bool = option("print JSON", False)


def parse(*words: str) -> Flags:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser, Flags, {"json": "--as-json"})
    return read_flags(parser.parse_args(["L", "-r", "R", *words]), Flags)


def test_values_and_defaults() -> None:
    assert parse() == Flags(lists="L", ref="R")
    words = "--hyp a b --hyp c --reward x --reward y --pair 1 2 --number 3 --rate 1e-3 --as-json"
    assert parse(*words.split(), "--test", "two") == Flags(
        lists="L",
        ref="R",
        hyp=["a", "b", "c"],
        reward=["x", "y"],
        pair=("1", "2"),
        number=3,
        rate=0.001,
        test="two",
        json=True,
    )


def test_help_adds_the_default_where_it_is_not_said() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, Flags)
    text = " ".join(parser.format_help().split())
    assert "seed (default 7)" in text
    assert "50 % of it (default: all) " in text
    assert "print JSON" in text and "(default False)" not in text
    assert text.index("print JSON") < text.index("numbers: --seed N")


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("--number", "0", "got 0, expected a whole number of at least 1"),
        ("--seed", "9" * 5000, "got " + "9" * 40 + "..., expected a whole number from 0 to 429496"),
        ("--rate", "inf", "got inf, expected a finite number from 0 to 1"),
        ("--test", "three", "got three, expected one or two"),
        ("--hyp", "", "got '', expected the name of a file or folder"),
    ],
)
def test_refused(flag: str, text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentError) as error:
        parse(flag, text)
    assert str(error.value).removeprefix(f"argument {flag}: ").startswith(message)


def test_fields_are_checked_without_a_command_line() -> None:
    check_fields(Flags(lists="L", ref="R"))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"rate": math.nan}, "--rate: got nan, expected a finite number from 0 to 1"),
        ({"hyp": ["a", ""]}, "--hyp: got '', expected the name of a file or folder"),
    ]
    for values, message in wrong:
        with pytest.raises(InputError, match=message):
            check_fields(Flags(lists="L", ref="R", **values))


@pytest.mark.parametrize(
    "words",
    [
        "finetune bin mle.pt --output run --encoder a --encoder b",
        "finetune-hf model --train s t --output run --encoder a --encoder b",
        "finetune-hf model --output run --train a b --train c d",
        "finetune-hf model --output run --train s t --valid a b --valid c d",
        "score -r ref -i hyp --encoder a --encoder b",
    ],
)
def test_a_file_given_twice_is_refused(words, capsys):
    assert main(words.split()) == 2
    told = capsys.readouterr().err
    assert "got " in told and "expected one: of two the first would be ignored" in told

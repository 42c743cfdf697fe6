"""What a page's line stands for, by hand."""

import pytest

from tests.examples.blocks import kind_of, missing_lines

PRINTED = """\
System   Seeds  BLEU
--------------------
MRT          1  50.97 ±11.54
MRT - MLE   -0.91 (p 0.006)
12 of 300 sentences, 4 s left
"""


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ("System Seeds BLEU\n-----------\nMRT 1 5.9 ±1.5 ‡", []),
        ("MRT - MLE   +3.00 (p <0.001) ‡", []),
        ("MRT 2 5.9 ±1.5\n...\n1 of 3,000 sentences, 30 min left", []),
        ("System ... BLEU", []),
        ("SIMILE 1 5.9 ±1.5", ["SIMILE 1 5.9 ±1.5"]),
        ("MRT - MLE +3.00 (p 0.1)\nSystem Seeds BLEU", ["System Seeds BLEU"]),  # in order
        ("MRT 1 5.9", ["MRT 1 5.9"]),  # a column less
    ],
)
def test_lines_that_were_printed(shown: str, missing: list[str]) -> None:
    assert missing_lines(shown, PRINTED) == missing


def test_kinds() -> None:
    assert kind_of("A=1 PYTHONPATH=. simile score", "README.md") == "commands"
    assert kind_of("def score(hyps):", "README.md") == "python"
    assert kind_of("score(hyps, refs, srcs)", "docs/how-to/own-reward.md") == "other"
    assert kind_of("score(hyps, refs, srcs)", "README.md") == "output"

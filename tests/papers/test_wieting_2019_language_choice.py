"""Which language teaches best: overlap and p by hand, the table as typed."""

import random
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.test_sts import PAIRS, write_set
from tests.papers.scripts import script

choice = script("wieting-2019-language-choice", "language_choice")


def test_overlap_by_hand() -> None:
    assert choice.piece_overlap({"a", "b", "c", "d"}, {"b", "x", "d", "y", "z"}) == 2 / 4


def test_pieces_are_those_of_each_text_alone() -> None:
    text = ["aba aba", "abab"]
    pieces = choice.used_pieces(text, 20)
    assert "".join(sorted(set("".join(pieces)))) == "ab▁"


def test_exact_p_by_hand() -> None:
    # Of the 24 orders of four only the same and the reversed one have |rho| = 1.
    x = np.array([0.1, 0.2, 0.3, 0.4])
    assert choice.exact_p(x, x) == pytest.approx(2 / 24)
    # rho of 2 1 3 4 is 1 - 6 * 2 / 60 = 0.8: 1 2 3 4, three neighbours exchanged, and the reverses.
    assert choice.exact_p(x, np.array([2.0, 1, 3, 4])) == pytest.approx(8 / 24)


def test_the_table_as_typed(
    encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(tmp_path, "made", PAIRS, "5\n0.5\n4\n1\n")
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefgh", k=4)) for _ in range(60)]
    foreign = [word.translate(str.maketrans("abcdefgh", "ijklmnop")) for word in words]
    specs = []
    for name, shared in (("far", 0), ("near", 30), ("same", 60)):
        mixed = words[:shared] + foreign[shared:]
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"{a}\t{b}\n" for a, b in zip(words, mixed, strict=True)))
        specs.append(f"{name}={path}={encoder_folder},{encoder_folder}")
    assert choice.main([*specs, "--sts", str(tmp_path), "--pieces", "60"]) == 0
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|" in line]
    overlaps = {row[1].strip(): float(row[2]) for row in rows[2:]}
    assert overlaps["far"] < 0.1 < overlaps["near"] < overlaps["same"] == 1
    assert choice.main([specs[0], specs[1], specs[0], "--sts", str(tmp_path)]) == 2
    assert choice.main(["x=y", "--sts", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "language_choice.py: error: LANGUAGE: got 3, expected 3 or more, each once\n"
        "language_choice.py: error: LANGUAGE: got 'x=y', expected "
        "LANGUAGE=PAIRS=ENCODER[,ENCODER...]\n"
    )

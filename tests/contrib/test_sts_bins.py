"""STS in bins of length and of unknown words, by hand and as typed."""

import json
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.cli import main
from simile_plugin.contrib.sts_bins import length_bins, unknown_bins
from simile_plugin.encoder.models import Encoder
from simile_plugin.evaluation.sts import evaluate_sts, read_sts
from tests.evaluation.test_sts import PAIRS, write_set


def names(masks: dict[str, np.ndarray], pair: int) -> list[str]:
    return [name for name, mask in masks.items() if mask[pair]]


def test_bins_of_length() -> None:
    masks = length_bins([3, 5, 2, 10, 15, 16, 1], [4, 1, 10, 3, 2, 20, 33])
    # the longer sides are 4, 5, 10, 10, 15, 20 and 33
    assert names(masks, 0) == ["<= 4", "all"]
    assert names(masks, 1) == ["5", "all"]
    assert names(masks, 2) == names(masks, 3) == ["10", ">= 10", "all"]
    assert names(masks, 4) == ["11-15", ">= 10", "all"]
    assert names(masks, 5) == ["16-20", ">= 10", "all"]
    assert names(masks, 6) == [">= 21", ">= 10", "all"]
    assert list(masks) == [
        *("<= 4", "5", "6", "7", "8", "9", "10", "11-15", "16-20", ">= 21", ">= 10", "all"),
    ]


def test_bins_of_unknown_tokens() -> None:
    masks = unknown_bins(np.array([0, 1, 1, 2, 9, 0]), np.array([7, 10, 9, 8, 9, 0]))
    assert names(masks, 0) == names(masks, 5) == ["0", "all"]
    assert names(masks, 1) == ["1", ">= 1", "all", "0% < share <= 10%"]  # 1 of 10
    assert names(masks, 2) == ["1", ">= 1", "all", "10% < share <= 25%"]  # 1 of 9
    assert names(masks, 3) == ["2", ">= 1", "all", "10% < share <= 25%"]  # 2 of 8
    assert names(masks, 4) == [">= 1", "all", "25% < share <= 100%"]


def test_bins_as_typed(
    encoder: Encoder, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(tmp_path, "own", PAIRS, "5\n0.5\n4\n1\n")
    flags = ["contrib", "hard-sts", str(encoder_folder), "--resamples", "40"]
    flags += ["--sts", str(tmp_path)]
    assert main([*flags, "--by", "length", "unknown"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    start = table.index("words of the longer sentence pairs SIM".split())
    # The longer sides have 6, 4, 4 and 6 words.
    assert table[start + 2][:3] == ["<=", "4", "2"]
    assert table[start + 4][:2] == ["6", "2"]
    assert table[start + 13][:2] == ["all", "4"]
    assert table[start + 15] == "unknown tokens of a pair pairs SIM".split()
    assert main([*flags, "--by", "unknown", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (known, *_) = found["bins"]["unknown"]
    assert (known["name"], known["pairs"]) == ("0", {"SIM": 4})
    scores = evaluate_sts(encoder, tmp_path, read_sts(tmp_path))
    assert known["pearson"]["SIM"]["value"] == pytest.approx(scores.all_pearson)
    assert found["bins"]["unknown"][1]["pearson"]["SIM"]["value"] is None

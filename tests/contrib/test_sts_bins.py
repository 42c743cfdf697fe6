"""STS in bins of length and of unknown words, beside slow loops."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.contrib.sts_bins import (
    evaluate_bins,
    format_bins,
    length_bins,
    unknown_bins,
)
from simile_plugin.encoder import Preprocessing, cosine
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.tokens import WordTokenizer
from simile_plugin.evaluation.sts import StsSet, evaluate_sts, read_sts
from simile_plugin.significance import pearson
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


WORDS = ["the", "boat", "ship", "crosses", "old", "map", "museum", "baker", "pond"]


@pytest.fixture
def words() -> Encoder:
    torch.manual_seed(5)
    weight = torch.randn(1 + len(WORDS), 6)
    return Encoder(weight, WordTokenizer(WORDS, Preprocessing()))


def test_pearson_of_each_bin_slowly(words: Encoder) -> None:
    rng = np.random.default_rng(2)
    draw = [" ".join(rng.choice([*WORDS, "zeppelin"], rng.integers(1, 8))) for _ in range(80)]
    sets = [
        StsSet("one", draw[:25], draw[25:50], rng.random(25) * 5),
        StsSet("two", draw[50:65], draw[65:], rng.random(15) * 5),
    ]
    found = evaluate_bins({"w": words}, sets, ("length", "unknown"), 50, 1)
    pairs = [
        (left, right, gold)
        for part in sets
        for left, right, gold in zip(part.left, part.right, part.gold, strict=True)
    ]
    for name, bins in found.items():
        for one in bins[: -3 if name == "unknown" else None]:
            own = []
            for left, right, gold in pairs:
                if name == "length":
                    value = max(len(left.split()), len(right.split()))
                else:
                    value = f"{left} {right}".split().count("zeppelin")
                low, high = 0.0, math.inf
                if one.name.startswith("<="):
                    high = int(one.name[3:])
                elif one.name.startswith(">="):
                    low = int(one.name[3:])
                elif "-" in one.name:
                    low, high = map(int, one.name.split("-"))
                elif one.name != "all":
                    low = high = int(one.name)
                if low <= value <= high:
                    sim = cosine(*(words.embed_text([side]) for side in (left, right)))
                    own.append((float(sim), gold))
            assert one.pairs == {"SIM": len(own)}
            estimate = one.pearson["SIM"]
            if len(own) < 3:
                continue
            expected = 100 * pearson(*(np.array(side) for side in zip(*own, strict=True)))
            assert estimate.value == pytest.approx(expected, abs=1e-3)
            assert estimate.low <= estimate.high
    assert found["length"][-1].pairs == {"SIM": 40} == found["unknown"][4].pairs
    assert format_bins(found).count("\n\n") == 1


def test_bins_as_typed(
    encoder: Encoder, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(tmp_path, "own", PAIRS, "5\n0.5\n4\n1\n")
    flags = [
        "contrib",
        "hard-sts",
        str(encoder_folder),
        "--resamples",
        "40",
        "--sts",
        str(tmp_path),
    ]
    assert main([*flags, "--by", "length", "unknown"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    start = table.index("words of the longer sentence pairs SIM".split())
    # The longer sides have 6, 4, 4 and 6 words.
    assert table[start + 2][:3] == ["<=", "4", "2"]
    assert table[start + 3] == ["5", "0", "-"]
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
    two = [f"a={encoder_folder}", f"b={encoder_folder}"]
    assert main(["contrib", "hard-sts", *two, *flags[3:], "--by", "length", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bins"]["length"][-1]["pairs"] == {"SIM of a": 4, "SIM of b": 4}

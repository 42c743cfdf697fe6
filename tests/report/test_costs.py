"""Costs over n-best lists: by hand, against a slow loop, and as a picture."""

import itertools
import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.encoder.models import Encoder
from simile_plugin.report.inputs.scores import ScoreSettings
from simile_plugin.report.questions.costs import (
    CostsResult,
    _pair_differences,
    analyse_costs,
    answer_costs,
)
from simile_plugin.report.render.text import render_text
from simile_plugin.reward.lists import score_lists
from tests.conftest import SENTENCES

# Lists of 3 and of 2. BLEU costs: 0.5 0.5 0.8 | 0 1; the second candidate of the first is likelier.
RECORDS = [
    {
        **{"id": 0, "ref": "r", "hyps": ["a", "b", "c"], "scores": [-2.0, -1.0, -3.0]},
        **{"cost_bleu": [0.5, 0.5, 0.8], "cost_simile": [0.1, 0.3, 0.2]},
    },
    {
        **{"id": 1, "ref": "r", "hyps": ["d", "e"], "scores": [-1.0, -4.0]},
        **{"cost_bleu": [0.0, 1.0], "cost_simile": [0.4, 0.4]},
    },
]


def write(tmp_path: Path, records: list[dict[str, object]]) -> str:
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.fixture
def result(tmp_path: Path) -> CostsResult:
    return analyse_costs(write(tmp_path, RECORDS), ScoreSettings())


def test_by_hand(result: CostsResult) -> None:
    assert (result.sentences, result.candidates, result.list_sizes) == (2, 5, (2, 3))
    assert result.pairs == 3 + 1
    bleu, simile = result.costs["cost_bleu"], result.costs["cost_simile"]
    assert bleu.mean == pytest.approx((0.5 + 0.5 + 0.8 + 0 + 1) / 5)
    # |differences|: 0, 0.3, 0.3 and 1
    assert (bleu.zero_share, bleu.above_zero_share) == (0.25, 0.75)
    assert bleu.mean_difference == pytest.approx(1.6 / 4)
    assert bleu.median_difference == pytest.approx(0.3)
    # centred: -0.4 -0.1 -0.1 0.6; squares 0.16 0.01 0.01 0.36; cubes -0.064 -0.001 -0.001 0.216
    assert bleu.difference_skew == pytest.approx((0.15 / 4) / (0.54 / 4) ** 1.5)
    # likeliest: b and d; lowest: 0.5 and 0
    assert bleu.first_cost == pytest.approx((0.5 + 0) / 2)
    assert bleu.oracle_cost == pytest.approx((0.5 + 0) / 2)
    # SIMILE: 0.2, 0.1, 0.1 and 0; only a and b are equal under BLEU alone
    assert simile.mean_difference == pytest.approx(0.1)
    assert simile.zero_share == 0.25
    assert result.only_bleu_equal == 0.25
    assert simile.first_cost == pytest.approx((0.3 + 0.4) / 2)
    assert simile.oracle_cost == pytest.approx((0.1 + 0.4) / 2)
    assert result.notes == ("1 of 2 lists have fewer than 3 candidates",)


def test_histograms_hold_everything(result: CostsResult) -> None:
    for cost in result.costs.values():
        assert sum(cost.counts) == 5 and sum(cost.difference_counts) == 4
        assert (cost.edges[0], cost.edges[-1]) == (0.0, 1.0)
        assert cost.difference_edges[-1] == pytest.approx(1.0)  # the widest of both


def test_eight_candidates_have_28_pairs_and_a_slow_loop_agrees(
    tmp_path: Path, encoder: Encoder
) -> None:
    lines = []
    for i, ref in enumerate(SENTENCES[:3]):
        lines.append(f"T-{i}\t{ref}")
        lines += [f"D-{i}\t{-n}\t{hyp}" for n, hyp in enumerate(SENTENCES, start=1)]
    path = tmp_path / "generated.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = analyse_costs(str(path), ScoreSettings(encoder))
    assert found.pairs == 3 * 28
    scores = score_lists([SENTENCES] * 3, SENTENCES[:3], encoder)
    for cost, reward in (("cost_bleu", scores.bleu), ("cost_simile", scores.simile)):
        assert reward is not None
        costs = [[1 - float(value) for value in row] for row in reward]
        differences = [abs(a - b) for row in costs for a, b in itertools.combinations(row, 2)]
        own = found.costs[cost]
        assert own.mean_difference == pytest.approx(math.fsum(differences) / 84, abs=1e-6)
        zero = sum(difference <= 1e-6 for difference in differences) / 84
        assert own.zero_share == pytest.approx(zero)
        assert own.first_cost == pytest.approx(sum(row[0] for row in costs) / 3, abs=1e-6)
    assert set(found.signatures) == {"BLEU", "SIMILE"}


def test_one_long_list_does_not_cost_the_others_its_pairs() -> None:
    sizes = np.array([2] * 200 + [300])
    mask = np.arange(300) < sizes[:, None]
    costs = np.where(mask, np.arange(300) / 300, 0.0)
    tracemalloc.start()
    found = _pair_differences(costs, mask)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 200 + 300 * 299 // 2 and found.sum() == pytest.approx(
        200 / 300 + sum(d * (300 - d) for d in range(300)) / 300
    )
    assert peak < 20e6  # 200 x 44,850 pairs of 8 bytes are 72 MB


def test_an_encoder_computes_the_costs_of_a_dump_anew(tmp_path: Path, encoder: Encoder) -> None:
    path = write(tmp_path, RECORDS)
    found = analyse_costs(path, ScoreSettings(encoder))
    assert found.costs["cost_bleu"].mean == 1.0  # no word of any candidate is the reference's
    assert found.costs["cost_bleu"].difference_skew is None
    assert found.costs["cost_bleu"].zero_share == 1.0


def test_without_an_encoder_generated_lists_have_the_bleu_cost(tmp_path: Path) -> None:
    path = tmp_path / "generated.txt"
    path.write_text("T-0\tone two\nD-0\t-1\tone two\nD-0\t-2\ttwo", encoding="utf-8")
    found = analyse_costs(str(path), ScoreSettings())
    assert list(found.costs) == ["cost_bleu"] and found.only_bleu_equal is None
    assert found.notes == ("no SIMILE cost: give --encoder",)
    assert "no SIMILE cost" in render_text(answer_costs(found))


def test_text_json_and_picture(result: CostsResult) -> None:
    answer = answer_costs(result)
    text = render_text(answer)
    assert text.startswith("Costs of 5 candidates in 2 lists of 2 to 3, ")
    assert "|difference| of 4 pairs" in text and "25.0% of the pairs are equal under BLEU" in text
    content = json.loads(json.dumps(answer.data, allow_nan=False))
    assert content["costs"]["cost_bleu"]["zero_share"] == 0.25
    assert answer.chart is not None
    svg = answer.chart.inline()
    assert svg.startswith("<svg") and "zero: 25.0%" in svg and "SIMILE cost" in svg

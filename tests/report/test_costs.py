"""Costs over n-best lists: by hand, against a slow loop, and as a picture."""

import itertools
import json
import math
from pathlib import Path

import pytest

from simile_plugin.encoder.models import Encoder
from simile_plugin.nbest import read_nbest_lists
from simile_plugin.report.answer import Data
from simile_plugin.report.inputs.scores import ScoreSettings
from simile_plugin.report.questions.costs import answer_costs, describe_costs
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


def costs_of(path: Path, text: str, encoder: Encoder | None = None) -> Data:
    path.write_text(text, encoding="utf-8")
    return describe_costs(read_nbest_lists(str(path), "--nbest-lists"), ScoreSettings(encoder))


def dump(tmp_path: Path, encoder: Encoder | None = None) -> Data:
    text = "".join(json.dumps(record) + "\n" for record in RECORDS)
    return costs_of(tmp_path / "lists.jsonl", text, encoder)


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return dump(tmp_path)


def test_by_hand(data: Data) -> None:
    assert (data["sentences"], data["candidates"], data["list_sizes"]) == (2, 5, (2, 3))
    assert data["pairs"] == 3 + 1
    bleu, simile = data["costs"]["cost_bleu"], data["costs"]["cost_simile"]
    assert bleu["mean"] == pytest.approx((0.5 + 0.5 + 0.8 + 0 + 1) / 5)
    # |differences|: 0, 0.3, 0.3 and 1
    assert (bleu["zero_share"], bleu["above_zero_share"]) == (0.25, 0.75)
    assert bleu["mean_difference"] == pytest.approx(1.6 / 4)
    assert bleu["median_difference"] == pytest.approx(0.3)
    # SIMILE: 0.2, 0.1, 0.1 and 0; only a and b are equal under BLEU alone
    assert simile["mean_difference"] == pytest.approx(0.1)
    assert simile["zero_share"] == 0.25
    assert data["only_bleu_equal"] == 0.25
    assert data["notes"] == ["1 of 2 lists have fewer than 3 candidates"]
    for cost in data["costs"].values():  # histograms hold everything
        assert sum(cost["counts"]) == 5 and sum(cost["difference_counts"]) == 4
        assert (cost["edges"][0], cost["edges"][-1]) == (0.0, 1.0)
        assert cost["difference_edges"][-1] == pytest.approx(1.0)  # the widest of both


def test_eight_candidates_have_28_pairs_and_a_slow_loop_agrees(
    tmp_path: Path, encoder: Encoder
) -> None:
    lines = []
    for i, ref in enumerate(SENTENCES[:3]):
        lines.append(f"T-{i}\t{ref}")
        lines += [f"D-{i}\t{-n}\t{hyp}" for n, hyp in enumerate(SENTENCES, start=1)]
    data = costs_of(tmp_path / "generated.txt", "\n".join(lines), encoder)
    assert data["pairs"] == 3 * 28
    scores = score_lists([SENTENCES] * 3, SENTENCES[:3], encoder)
    for cost, reward in (("cost_bleu", scores.bleu), ("cost_simile", scores.simile)):
        assert reward is not None
        costs = [[1 - float(value) for value in row] for row in reward]
        differences = [abs(a - b) for row in costs for a, b in itertools.combinations(row, 2)]
        own = data["costs"][cost]
        assert own["mean_difference"] == pytest.approx(math.fsum(differences) / 84, abs=1e-6)
        zero = sum(difference <= 1e-6 for difference in differences) / 84
        assert own["zero_share"] == pytest.approx(zero)
    assert set(data["signatures"]) == {"BLEU", "SIMILE"}


def test_an_encoder_computes_the_costs_of_a_dump_anew(tmp_path: Path, encoder: Encoder) -> None:
    bleu = dump(tmp_path, encoder)["costs"]["cost_bleu"]
    assert bleu["mean"] == 1.0  # no word of any candidate is the reference's
    assert bleu["zero_share"] == 1.0


def test_without_an_encoder_generated_lists_have_the_bleu_cost(tmp_path: Path) -> None:
    data = costs_of(tmp_path / "generated.txt", "T-0\tone two\nD-0\t-1\tone two\nD-0\t-2\ttwo")
    assert list(data["costs"]) == ["cost_bleu"] and data["only_bleu_equal"] is None
    assert "no SIMILE cost: give --encoder" in render_text(answer_costs(data))

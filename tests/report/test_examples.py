"""Examples: the ranking against a slow loop, both ends, layout."""

import pytest

from simile_plugin.encoder.models import Encoder
from simile_plugin.report.answer import Data
from simile_plugin.report.inputs.scores import ScoreSettings
from simile_plugin.report.questions.examples import (
    answer_examples,
    choose_examples,
    marked,
)
from simile_plugin.report.render.text import render_text
from simile_plugin.reward.lists import score_lists

from .test_results import REFS, noisy, system

FIRST, SECOND = noisy(0.3, 1), noisy(0.2, 2)
PAIR = system("BLEU", FIRST), system("SIMILE", SECOND, noisy(0.2, 3))
SOURCES = [f"source {i}" for i in range(len(REFS))]


@pytest.fixture(scope="module")
def result(encoder: Encoder) -> Data:
    return choose_examples(PAIR, REFS, ScoreSettings(encoder), SOURCES, number=5)


def test_both_ends_of_a_slow_ranking(result: Data, encoder: Encoder) -> None:
    contrast = {}
    for i, (first, second, ref) in enumerate(zip(FIRST, SECOND, REFS, strict=True)):
        scores = score_lists([[first, second]], [ref], encoder)
        assert scores.sim is not None
        (a, b), (c, d) = scores.bleu[0].tolist(), scores.sim[0].tolist()
        if first != second:
            contrast[i + 1] = 100 * (abs(b - a) - abs(d - c))
    assert result["different"] == len(contrast) < len(REFS)
    largest = sorted(contrast.values(), reverse=True)[:5]
    smallest = sorted(value for value in contrast.values() if value < 0)[:5]
    assert [e["contrast"] for e in result["by_bleu"]] == pytest.approx(largest, abs=1e-3)
    assert [e["contrast"] for e in result["by_sim"]] == pytest.approx(smallest, abs=1e-3)
    for example in (*result["by_bleu"], *result["by_sim"]):
        assert example["contrast"] == pytest.approx(contrast[example["line"]], abs=1e-3)
        row = example["line"] - 1
        texts = [example[key] for key in ("source", "ref", "first", "second")]
        assert texts == [SOURCES[row], REFS[row], FIRST[row], SECOND[row]]
        for key in ("bleu", "sim"):
            assert example[f"delta_{key}"] == pytest.approx(example[key][1] - example[key][0])


def test_equal_systems_have_no_examples(encoder: Encoder) -> None:
    same = system("A", REFS), system("B", REFS)
    found = choose_examples(same, REFS, ScoreSettings(encoder))
    assert (found["different"], found["by_bleu"], found["by_sim"]) == (0, [], [])
    assert render_text(answer_examples(found)).count("none") == 2


def test_an_encoder_is_needed() -> None:
    with pytest.raises(ValueError, match=r"^--encoder: not given; examples compare BLEU with SIM"):
        choose_examples(PAIR, REFS, ScoreSettings())


def test_marked_words() -> None:
    assert marked("a red & old boat", "a blue boat now") == (
        [("a", ""), ("red & old", "first"), ("boat", "")],
        [("a", ""), ("blue", "second"), ("boat", ""), ("now", "second")],
    )
    assert marked("", "x") == ([], [("x", "second")])


def test_a_third_system_and_what_people_said(encoder: Encoder) -> None:
    mle = system("MLE", noisy(0.4, 4))
    different = [i for i, (a, b) in enumerate(zip(FIRST, SECOND, strict=True)) if a != b]
    one, other, half = different[:3]
    rated = {
        (one + 1, FIRST[one]): 1.0,
        (one + 1, SECOND[one]): 4.5,
        (one + 1, mle.outputs[0][one]): 2.0,
        (other + 1, FIRST[other]): 3.0,
        (other + 1, SECOND[other]): 0.5,
        (half + 1, SECOND[half]): 5.0,  # its rival was not rated: neither better nor worse
    }
    found = choose_examples(
        PAIR, REFS, ScoreSettings(encoder), number=2, others=[mle], ratings=rated
    )
    assert [e["line"] for e in found["better"]] == [one + 1]
    assert [e["line"] for e in found["worse"]] == [other + 1]
    assert found["better"][0]["ratings"] == {"BLEU": 1.0, "SIMILE": 4.5, "MLE": 2.0}
    passages = answer_examples(found).parts[0]
    kinds = passages.kinds  # type: ignore[union-attr]
    (passage,) = kinds["people prefer SIMILE"]
    labels = [label for label, _ in passage.lines]
    assert labels == ["reference", "MLE (2.0)", "BLEU (1.0)", "SIMILE (4.5)"]
    assert [label for label, _ in kinds["people prefer BLEU"][0].lines][1:] == [
        *("MLE", "BLEU (3.0)", "SIMILE (0.5)"),
    ]

"""Scores of pairs: sacreBLEU's, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from simile_plugin.encoder.models import Encoder
from simile_plugin.evaluation.sentence_metrics import Metrics, surface_scores
from simile_plugin.reward import Scorer
from tests.conftest import SENTENCES

texts = st.lists(
    st.tuples(st.text("ab .é", max_size=14), st.text("ab .é", max_size=14)), min_size=1, max_size=4
)


@given(texts)
def test_both_ways_against_sacrebleu_one_pair_at_a_time(pairs: list[tuple[str, str]]) -> None:
    left, right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = surface_scores(left, right, both=True)
    assert list(found) == ["BLEU", "BLEU sym.", "chrF", "chrF sym."]
    for row, (a, b) in enumerate(pairs):
        there, back = (CHRF().sentence_score(h, [r]).score for h, r in ((a, b), (b, a)))
        assert found["chrF"][row] == pytest.approx(there, abs=1e-9)
        assert found["chrF sym."][row] == pytest.approx((there + back) / 2, abs=1e-9)
        there, back = (Scorer().lists([[h]], [r]).bleu.item() for h, r in ((a, b), (b, a)))
        assert found["BLEU"][row] == pytest.approx(there, abs=1e-6)
        assert found["BLEU sym."][row] == pytest.approx((there + back) / 2, abs=1e-6)


def test_bleu_both_ways_by_hand() -> None:
    # "a b" for "a b c": precisions 2/2, 2/2, 1/1, 1/1 and exp(1 - 3/2) for brevity; the other way
    # 2/3, (1+1)/(2+1), 1/2, 1/1 and no penalty: (2/3 * 2/3 * 1/2)^(1/4) = (2/9)^(1/4).
    found = surface_scores(["a b"], ["a b c"], both=True)
    there, back = 2.718281828**-0.5, (2 / 9) ** 0.25
    assert found["BLEU"].item() == pytest.approx(there)
    assert found["BLEU sym."].item() == pytest.approx((there + back) / 2)


def test_sim_and_simile_are_symmetric(encoder: Encoder) -> None:
    left, right = SENTENCES[:4], [*SENTENCES[4:7], ""]
    found = Metrics({"e": encoder}).of_encoders(left, right)
    back = Metrics({"e": encoder}).of_encoders(right, left)
    assert list(found) == ["SIM", "SIMILE"]
    for name, values in found.items():
        assert values == pytest.approx(back[name], abs=1e-6)
    several = Metrics({"x": encoder, "y": encoder}, alpha=0).of_encoders(left, right)
    assert list(several) == ["SIM of x", "SIMILE of x", "SIM of y", "SIMILE of y"]

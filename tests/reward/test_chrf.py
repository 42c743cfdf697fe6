"""chrF from sums of statistics: sacreBLEU's, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from simile_plugin.reward.chrf import chrf_signature, chrf_statistics, corpus_chrf
from tests.conftest import SENTENCES

sentences = st.lists(
    st.tuples(st.text("abc é.", max_size=12), st.text("abc é.", max_size=12)),
    min_size=1,
    max_size=5,
)


@given(sentences)
def test_corpus_chrf_is_sacrebleus(pairs: list[tuple[str, str]]) -> None:
    hyps, refs = [hyp for hyp, _ in pairs], [ref for _, ref in pairs]
    own = corpus_chrf(chrf_statistics([hyps], refs)[0].sum(0, dtype=np.float64))
    assert own == pytest.approx(CHRF().corpus_score(hyps, [refs]).score, abs=1e-9)


def test_by_hand() -> None:
    # "ab c" -> abc: a b c, ab bc, abc; "abd" -> a b d, ab bd, abd. Matches: 2 of 3, 1 of 2, 0 of 1.
    stats = chrf_statistics([["ab c"]], ["abd"])[0, 0]
    assert stats.tolist() == [3, 3, 2, 2, 2, 1, 1, 1, 0, *[0] * 9]
    # P = R = (2/3 + 1/2 + 0) / 3 = 7/18, and F of equal P and R is the same
    assert corpus_chrf(stats.astype(float)) == pytest.approx(100 * 7 / 18)


def test_many_outputs_at_once() -> None:
    outputs = [SENTENCES, SENTENCES[::-1]]
    stats = chrf_statistics(outputs, SENTENCES).sum(1, dtype=np.float64)
    expected = [CHRF().corpus_score(list(output), [SENTENCES]).score for output in outputs]
    assert corpus_chrf(stats) == pytest.approx(expected)
    assert corpus_chrf(np.stack([stats, 2 * stats])).shape == (2, 2)


def test_signature() -> None:
    metric = CHRF()
    metric.corpus_score([SENTENCES[0]], [[SENTENCES[0]]])
    assert chrf_signature() == str(metric.get_signature())

"""chrF and chrF++ of whole lists: sacreBLEU's, and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from simile_plugin.reward import chrf
from simile_plugin.reward.chrf import (
    chrf_signature,
    chrf_statistics,
    corpus_chrf,
    list_chrf_statistics,
    sentence_chrf,
)
from tests.conftest import SENTENCES

# White space of many kinds, marks at either end of a word, halves of surrogate pairs.
ODD = st.sampled_from([*"abc. ,!('\"\n\t\x00\x85\u3000é中\U0001f600\ud800", "ab ", "(a)", "b."])
TEXTS = st.lists(ODD, max_size=14).map("".join) | st.text(max_size=9)
LISTS = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.tuples(st.lists(TEXTS, min_size=width, max_size=width), TEXTS), min_size=1, max_size=4
    )
)


@pytest.mark.parametrize("word_order", [0, 2])
@given(rows=LISTS)
@settings(max_examples=150)
def test_lists_score_as_sacrebleu_sentence_by_sentence(
    rows: list[tuple[list[str], str]], word_order: int
) -> None:
    hyps, refs = [row for row, _ in rows], [ref for _, ref in rows]
    metric = CHRF(word_order=word_order)
    stats = list_chrf_statistics(hyps, refs, word_order)
    scores = sentence_chrf(stats)
    assert stats.shape == (len(refs), len(hyps[0]), 18 + 3 * word_order)
    for b, ref in enumerate(refs):
        for n, hyp in enumerate(hyps[b]):
            expected = metric._extract_corpus_statistics([hyp], [[ref]])
            assert [stats[b, n].tolist()] == expected
            score = metric.sentence_score(hyp, [ref]).score / 100
            assert scores[b, n].item() == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("word_order", [0, 2])
def test_corpus_scores_are_sacrebleus(word_order: int) -> None:
    hyps = SENTENCES[::-1]
    sums = list_chrf_statistics([[hyp] for hyp in hyps], SENTENCES, word_order).sum(0)
    metric = CHRF(word_order=word_order)
    expected = metric.corpus_score(hyps, [SENTENCES]).score
    assert corpus_chrf(sums) == pytest.approx([expected], abs=1e-9)
    assert chrf_signature(word_order) == str(metric.get_signature())


def test_by_hand() -> None:
    # "ab c" -> abc: a b c, ab bc, abc; "abd" -> a b d, ab bd, abd. Matches: 2 of 3, 1 of 2, 0 of 1.
    stats = list_chrf_statistics([["ab c"]], ["abd"])[0, 0]
    assert stats.tolist() == [3, 3, 2, 2, 2, 1, 1, 1, 0, *[0] * 9]
    # P = R = (2/3 + 1/2 + 0) / 3 = 7/18, and F of equal P and R is the same
    assert corpus_chrf(stats) == pytest.approx(100 * 7 / 18)
    # Words: "aa" against "aa," = aa and the comma: 1 in common of 1 and 2; one pair of words there,
    # none here. A sentence has no order that its reference has not: no trigram of two characters.
    stats = list_chrf_statistics([["aa"], ["abc"]], ["aa,", "ab"], 2)
    assert stats[0, 0, 18:].tolist() == [1, 2, 1, 0, 1, 0]
    assert stats[1, 0, :9].tolist() == [3, 2, 2, 2, 1, 1, 0, 0, 0]


def test_nothing_to_count() -> None:
    assert list_chrf_statistics([], []).shape == (0, 0, 18)
    assert list_chrf_statistics([[], []], ["a", "b"], 2).shape == (2, 0, 24)
    assert not list_chrf_statistics([["", " \n"]], [""], 2).any()
    assert sentence_chrf(list_chrf_statistics([["", "a"]], ["a"], 2)).tolist() == [[0, 1]]


def test_many_outputs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [SENTENCES, SENTENCES[::-1]]
    whole = chrf_statistics(outputs, SENTENCES)
    monkeypatch.setattr(chrf, "LINES_AT_ONCE", 2)
    assert (chrf_statistics(outputs, SENTENCES) == whole).all()
    stats = whole.sum(1, dtype=np.float64)
    expected = [CHRF().corpus_score(list(output), [SENTENCES]).score for output in outputs]
    assert corpus_chrf(stats) == pytest.approx(expected)

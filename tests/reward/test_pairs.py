"""BLEU and chrF of all pairs are those of `Scorer.lists`, to the bit."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.reward import Scorer
from simile_plugin.reward.pairs import pair_scores
from tests.conftest import SENTENCES

TEXTS = st.lists(st.text("ab .,!7é日\n", max_size=12), min_size=1, max_size=5)


def agree(hyps: list[str], refs: list[str]) -> bool:
    scores = Scorer().lists([hyps] * len(refs), refs, chrf_words=2)
    assert scores.chrf is not None and scores.chrfpp is not None
    return (
        torch.equal(pair_scores("bleu", hyps, refs), scores.bleu.T)
        and torch.equal(pair_scores("chrf", hyps, refs), scores.chrf.T)
        and torch.equal(pair_scores("chrf++", hyps, refs), scores.chrfpp.T)
    )


@settings(max_examples=20)
@given(TEXTS, TEXTS)
def test_they_are_the_scores_of_lists(hyps: list[str], refs: list[str]) -> None:
    assert agree(hyps, refs)


def test_repeated_words_count_as_often_as_both_have_them() -> None:
    assert agree(["go go go home", "go home", "", *SENTENCES], ["go go home", "", *SENTENCES[:3]])

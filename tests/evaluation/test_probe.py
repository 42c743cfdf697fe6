"""What a reward does under harm, by hand; length, and a search whose answer is known."""

import numpy as np
import pytest

from simile_plugin.evaluation.probe import (
    Texts,
    change_texts,
    probe_reward,
    probe_steps,
    reward_scores,
    summarise,
    within_lists,
)
from simile_plugin.evaluation.text_search import SEARCH_STEPS, climb, find_text
from simile_plugin.files import InputError
from simile_plugin.reward import Reward, Scorer
from tests.conftest import SENTENCES

REFS = ["Two boys skip 15 stones", "the ferry is late today", "she saw Bern and old Malta again"]


def words(lists, refs, srcs):
    """A reward that is the length."""
    return np.array([[float(len(hyp.split())) for hyp in hyps] for hyps in lists])


def test_share_and_mean_by_hand():
    differences = np.array([-0.5, 0.0, 0.25, -0.15])
    found = summarise(differences, False, 0.2, 40, 1)
    assert found.mean == pytest.approx((-0.5 + 0.0 + 0.25 - 0.15) / 4)
    assert found.not_lower == 100 * 2 / 4 and found.count == 4
    assert found.spreads == pytest.approx(-0.1 / 0.2)
    assert -0.5 <= found.low <= found.mean <= found.high <= 0.25
    assert summarise(differences, False, None, 40, 1).spreads is None


def test_changes_of_a_reward_that_is_the_length():
    found = probe_reward(words, Texts(REFS, srcs=["a b"] * 3), 0, 40)
    half = found.changes["half"]  # 5, 5 and 7 words: 2, 2 and 3 are left
    assert half.mean == pytest.approx((-3 - 3 - 4) / 3) and half.not_lower == 0
    assert found.changes["empty"].mean == pytest.approx(-(5 + 5 + 7) / 3)
    assert found.changes["source"].mean == pytest.approx(-(3 + 3 + 5) / 3)
    assert found.changes["repeat"].not_lower == 100 and found.changes["repeat"].mean > 0
    assert found.changes["number"].count == 1 and found.changes["number"].mean == 0
    assert "other-reference" not in found.changes
    assert found.fixed is None and found.spread is None and found.length is None
    assert found.means == {
        "the references": pytest.approx(17 / 3),
        "the next line's reference": pytest.approx(17 / 3),
    }


def test_text_without_spaces_is_changed_by_letters():
    refs = ["他用硬币付了票钱。", "鹭在池塘边等。"]
    half = {one.kind: one for one in change_texts(Texts(refs), 1)}["half"]
    assert half.texts == ["他用硬币", "鹭在池"]


def test_hypotheses_are_changed_where_there_are_some():
    hyps = ["two boys skip stones", " ", "she saw Bern"]
    found = {one.kind: one for one in change_texts(Texts(REFS, hyps), 1)}
    assert found["half"].texts == ["two boys", "she"] and found["half"].rows == [0, 2]
    probed = probe_reward(words, Texts(REFS, hyps), 0, 40)
    assert probed.changes["empty"].count == 2  # a blank line cannot be harmed
    assert probed.means["the hypotheses"] == pytest.approx((4 + 3) / 2)
    with pytest.raises(InputError, match="no line can be harmed"):
        probe_reward(words, Texts(["", "a"], ["b", " "]), 0, 40)


def test_correlation_with_length_and_spread():
    hyps = ["a", "a b", "a b c"], ["a b", "a b c d"], ["a b", "c d"]
    lists = [(row, "r", "s") for row in hyps]
    spread, length, counted = within_lists(words, lists)
    assert length == pytest.approx(1) and counted == 2  # the last list has one length only
    assert spread == pytest.approx((np.sqrt(2 / 3) + 1 + 0) / 3)
    spread, length, _ = within_lists(lambda *of: -words(*of), lists)
    assert length == pytest.approx(-1)
    assert within_lists(lambda *of: 0 * words(*of), lists) == (0, None, 0)
    assert within_lists(words, []) == (None, None, 0)
    # Cosines of 1 but for float32's rounding are equal, and correlate with nothing.
    assert within_lists(lambda *of: 1 - 1e-7 * words(*of), lists)[1:] == (None, 0)


def test_the_search_finds_planted_words():
    def planted(lists, refs, srcs):
        """1 for each of two words that is there, less for every other one."""
        return np.array(
            [[len({"ferry", "Bern"} & {*h.split()}) - 0.1 * len(h.split()) for h in hyps]
             for hyps in lists]
        )  # fmt: skip

    done = []
    found = find_text(planted, REFS, [""] * 3, 100, done.append)
    # from 5 words: one replaced, three removed
    assert sorted(found.text.split()) == ["Bern", "ferry"] and found.steps == 4
    assert found.score == pytest.approx(2 - 0.1 * 2)
    assert len(done) + 1 == probe_steps(100) and probe_steps(0) == 1
    assert find_text(planted, REFS, [""] * 3, 100) == found
    # length: from the longest reference, a word more at each step
    assert len(find_text(words, REFS, [""] * 3, 5).text.split()) == 7 + SEARCH_STEPS


def test_a_climb_adds_the_words_that_pay_and_none_of_the_references_own():
    def planted(lists, refs, srcs):
        pays = {"malta": 3.0, "ferry": 2.0}
        return np.array([[sum(pays.get(w, 0.0) for w in hyp.lower().split()) for hyp in hyps]
                         for hyps in lists])  # fmt: skip

    # Four times the best word that the reference does not have: Malta, Malta, ferry.
    assert climb(planted, REFS, REFS, [""] * 3, 100).tolist() == [12.0, 2.0 + 12.0, 3.0 + 8.0]
    found = probe_reward(planted, Texts(REFS), 100, 40)
    assert found.changes["four-words"].mean == pytest.approx((12 + 12 + 8) / 3)
    assert found.changes["four-words"].not_lower == 100
    # a reference that has every word leaves the others what they can do
    every = [*REFS, " ".join(REFS)]
    climbed = climb(planted, every, every, [""] * 4, 100)
    assert climbed[:3].tolist() == [12.0, 14.0, 11.0] and np.isnan(climbed[3])
    assert "four-words" not in probe_reward(planted, Texts(["a b"]), 9, 40).changes


def test_rewards_are_those_of_the_lists(encoder):
    lists = [[SENTENCES[1], "two boys"], [SENTENCES[0], ""]]
    refs = SENTENCES[:2]
    scores = Scorer(encoder=encoder).lists(lists, refs, chrf_words=0)
    for spec in ("simile", "sim", "bleu", "chrf", "simile:0.5,chrf:0.5"):
        found = reward_scores(Scorer(Reward(spec), encoder))(lists, refs, ["", ""])
        assert found == pytest.approx(Reward(spec).from_scores(scores).numpy())


def test_a_function_must_give_finite_numbers(tmp_path, monkeypatch):
    (tmp_path / "probe_own.py").write_text(
        "def good(hyps, refs, srcs):\n    return [[float(h == s) for h in of] for of, s in "
        "zip(hyps, srcs)]\ndef bad(hyps, refs, srcs):\n"
        "    return [[float('nan') if not h else 1.0 for h in of] for of in hyps]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    texts = Texts(REFS, srcs=["x", "y", "z"])
    found = probe_reward(reward_scores(Scorer(Reward("probe_own:good"))), texts, 0, 40)
    assert found.changes["source"].mean == 1 and found.changes["source"].not_lower == 100
    with pytest.raises(InputError, match="probe_own:bad"):
        probe_reward(reward_scores(Scorer(Reward("probe_own:bad"))), texts, 0, 40)

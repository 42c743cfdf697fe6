"""The reward without a reference: agreement of a list's candidates."""

import pytest
import torch
from sacrebleu.metrics.chrf import CHRF

from simile_plugin.files import InputError
from simile_plugin.reward import Reward, consensus
from simile_plugin.reward.consensus import consensus_scores

LISTS = [
    ["the river rose over night", "the river rose", "a river rose at night", ""],
    ["he sold", "he sold", "she bought a boat", "they sold it"],
]


def test_consensus_is_the_mean_chrf_against_the_other_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = torch.tensor([[True, True, True, False], [False, True, True, True]])
    found = consensus_scores(LISTS, members)
    chrf = CHRF()
    for row, own, values in zip(LISTS, members.tolist(), found.tolist(), strict=True):
        for place, hyp in enumerate(row):
            others = [r for n, r in enumerate(row) if own[n] and n != place]
            wanted = sum(chrf.sentence_score(hyp, [r]).score / 100 for r in others) / len(others)
            assert values[place] == pytest.approx(wanted, abs=1e-6)
    monkeypatch.setattr(consensus, "PAIRS_AT_ONCE", 1)
    assert torch.equal(consensus_scores(LISTS, members), found)
    alone = torch.tensor([[True, False, False, False]])
    assert consensus_scores(LISTS[:1], alone)[0, 0] == 0
    assert consensus_scores([], members[:0]).numel() == 0


def test_training_never_compares_with_the_reference() -> None:
    reward = Reward("consensus", of_lists=True)
    assert not reward.needs_references and not reward.needs_encoder
    members = torch.ones(2, 4, dtype=torch.bool)
    device = torch.device("cpu")
    values, scores = reward.of_lists(LISTS, members, None, 0.25, "13a", list, device)
    candidates = members.clone()
    candidates[:, 0] = False
    assert torch.equal(values, consensus_scores(LISTS, candidates))
    other = [["", *row[1:]] for row in LISTS]
    again, _ = reward.of_lists(other, members, None, 0.25, "13a", list, device)
    assert torch.equal(again[:, 1:], values[:, 1:])
    assert scores.consensus is not None


def test_a_mix_with_a_reward_of_references() -> None:
    members = torch.ones(2, 4, dtype=torch.bool)
    mixed = Reward("consensus:0.25,chrf:0.75", of_lists=True)
    assert mixed.needs_references
    refs = ["the river rose", "he sold it"]
    values = mixed.values(LISTS, refs, [], members, None, 0.25, "13a")
    chrf = Reward("chrf").values(LISTS, refs, [], members, None, 0.25, "13a")
    expected = 0.25 * consensus_scores(LISTS, members) + 0.75 * chrf
    assert torch.allclose(values, expected)


def test_where_there_are_no_lists_it_is_refused() -> None:
    with pytest.raises(InputError, match="--utility consensus: consensus compares the candidates"):
        Reward("consensus", "--utility")

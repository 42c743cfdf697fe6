"""Rewards that say nothing: what they are by hand, and that a constant one is no control of MRT."""

import math
from pathlib import Path

import pytest
import torch

from simile_plugin.files import InputError
from simile_plugin.reward import Scorer
from simile_plugin.risk import ListReward, Objective, RiskSet, RiskSettings
from simile_plugin.risk.control_rewards import exchange, noise, rank_reward, read_control

HYPS = [
    ["a cat sat", "a cat sat", "the cat", "a dog", "cats"],
    ["so it is", "so is", "it", "", "a"],
]
MEMBERS = torch.tensor([[False, True, True, True, False], [True, True, True, True, True]])
B, N, T = 2, 5, 3


def test_the_models_own_rank_by_hand() -> None:
    scores = torch.tensor([[9.0, -1.0, -3.0, -2.0], [-1.0, -1.0, -1.0, -1.0]], requires_grad=True)
    members = torch.tensor([[False, True, True, True], [True, True, True, True]])
    found = rank_reward(scores, members)
    # ranks 2, -2, 0 of deviation sqrt(8 / 3); the first is no member
    step = 0.08 * 2 / math.sqrt(8 / 3)
    assert found[0, 1:].tolist() == pytest.approx([0.5 + step, 0.5 - step, 0.5])
    assert found[1].tolist() == [0.5] * 4  # ties
    assert not found.requires_grad


def test_noise_is_fixed_for_a_pair_and_has_the_spread_that_is_said() -> None:
    first, later = noise(HYPS, seed=1), noise(HYPS[1:], seed=1)
    assert torch.equal(first[1:], later)  # in whichever batch
    assert not torch.equal(first, noise(HYPS, seed=2))
    many = noise([["ref", *map(str, range(20_000))]], seed=1)
    assert many.mean() == pytest.approx(0.5, abs=0.002)
    assert many.std() == pytest.approx(0.08, abs=0.001)
    assert 0 <= many.min() and many.max() <= 1


def test_a_list_is_exchanged_within_its_members_whatever_the_batch() -> None:
    members = MEMBERS.tolist()
    order = exchange(members, HYPS, seed=1)
    assert sorted(order[0, 1:4].tolist()) == [1, 2, 3] and order[0, [0, 4]].tolist() == [0, 4]
    assert sorted(order[1].tolist()) == [*range(5)]
    assert torch.equal(order[1:], exchange(members[1:], HYPS[1:], seed=1))
    others = [exchange(members, HYPS, seed)[1].tolist() for seed in range(20)]
    assert len({*map(tuple, others)}) > 10


@pytest.mark.parametrize("reward", ["shuffled:bleu", "noise"])
def test_the_reward_of_a_training(reward: str, encoder_folder: Path) -> None:
    judge = ListReward(RiskSettings(reward, str(encoder_folder)), seed=1)
    judged = judge(HYPS, RiskSet(torch.zeros(B, N, T, dtype=torch.int64), MEMBERS), list)
    bleu = Scorer().lists(HYPS, [row[0] for row in HYPS]).bleu
    if reward == "noise":
        assert torch.equal(judged.reward, noise(HYPS, 1))
    else:
        assert torch.equal(judged.reward, bleu.gather(-1, exchange(MEMBERS.tolist(), HYPS, 1)))
        assert not torch.equal(judged.reward, bleu)
    assert torch.equal(judged.scores.bleu, bleu)  # what is logged beside it is the real one


def gradient(values: torch.Tensor, reward: str = "bleu") -> torch.Tensor:
    """dL/d log p of each token, at gamma 0."""
    lprobs = -torch.rand(B, N, T, generator=torch.Generator().manual_seed(0))
    lprobs.requires_grad_()
    loss, _ = Objective.of(RiskSettings(reward, mle_weight=0.0)).loss(
        token_lprobs=lprobs,
        mean_lprobs=lprobs.detach()[:, 0],
        token_mask=torch.ones(B, N, T, dtype=torch.bool),
        members=MEMBERS,
        reward=values,
        length_cost=torch.zeros(B, N),
        divisors=torch.full((B,), T),
        vocabulary=9,
    )
    loss.backward()
    assert lprobs.grad is not None
    return lprobs.grad


def test_a_constant_reward_has_no_gradient_in_mrt() -> None:
    assert gradient(torch.full((B, N), 0.7)).abs().max() < 1e-6


def test_reward_model_pays_for_what_is_likely_and_not_for_the_reward_beside_it() -> None:
    found = gradient(torch.rand(B, N), reward="model")
    assert torch.equal(found, gradient(torch.zeros(B, N), reward="model"))
    assert found.abs().max() > 0.01
    assert found.sum(-1).sum(-1).abs().max() < 1e-6  # mass moves within a list


@pytest.mark.parametrize("spec", ["shuffled:", "shuffled:noise", "shuffled:shuffled:bleu"])
def test_a_control_of_no_reward_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="--reward: got 'shuffled:.*' *; expected a reward behind"):
        read_control(spec)

"""Risk by hand, by a slow loop, and by its properties."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.risk import distribution as risk


def test_finite_rows_by_hand():
    # two sentences, a reference and two candidates each, two tokens
    lprobs = torch.tensor(
        [
            [[-1.0, -1.0], [-1.0, math.nan], [-2.0, -1.0]],
            [[-math.inf, -1.0], [-1.0, -1.0], [-1.0, -2.0]],
        ],
        requires_grad=True,
    )
    means = torch.tensor([[-3.0, -3.0], [-3.0, -3.0]])
    reward = torch.tensor([[math.nan, 0.5, 0.25], [0.0, math.inf, 0.75]])
    members = torch.tensor([[False, True, True], [False, True, True]])
    rows = risk.finite_rows(lprobs, means, reward, members)
    assert rows.members.tolist() == [[False, False, True], [False, False, True]]
    assert rows.references.tolist() == [True, False]
    assert rows.dropped.tolist() == [1, 1 + 1]  # a score; a reward and a reference
    assert rows.reward.tolist() == [[0.0, 0.5, 0.25], [0.0, 0.0, 0.75]]
    assert rows.mean_lprobs.tolist() == [[-3.0, -3.0], [0.0, 0.0]]
    rows.token_lprobs.sum().backward()
    assert lprobs.grad.tolist() == [[[1, 1], [0, 0], [1, 1]], [[0, 0], [1, 1], [1, 1]]]


def test_scores_by_hand():
    lprobs = torch.tensor([[-1.0, -2.0, -5.0], [-0.5, -9.0, -9.0]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    assert risk.candidate_scores(lprobs, mask, normalize=False).tolist() == [-8.0, -0.5]
    assert risk.candidate_scores(lprobs, mask, normalize=True).tolist() == pytest.approx(
        [(-1 - 2 - 5) / 3, -0.5]
    )


def test_row_of_padding_scores_zero_without_gradient():
    lprobs = torch.full((1, 2), -torch.inf, requires_grad=True)
    score = risk.candidate_scores(lprobs, torch.zeros(1, 2, dtype=torch.bool), normalize=True)
    score.sum().backward()
    assert score.item() == 0
    assert lprobs.grad.abs().sum() == 0


def test_distribution_and_cost_by_hand():
    # probabilities 0.5 and 0.25 renormalised over two candidates: 2/3 and 1/3
    scores = torch.tensor([[math.log(0.5), math.log(0.25)]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    q = risk.candidate_distribution(scores, mask)
    assert q[0].tolist() == pytest.approx([2 / 3, 1 / 3])
    # expected cost 2/3 * 0.1 + 1/3 * 0.7 = 0.3
    cost = torch.tensor([[0.1, 0.7]])
    assert risk.expected_cost(q, cost).item() == pytest.approx(0.3)
    # sharpness 2 squares the probabilities: 0.25 and 0.0625, so 4/5 and 1/5
    sharp = risk.candidate_distribution(scores, mask, sharpness=2.0)
    assert sharp[0].tolist() == pytest.approx([0.8, 0.2])
    assert risk.entropy(q).item() == pytest.approx(
        -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    )


def test_beyond_bleu_distribution_by_hand():
    # mean log p of log 0.5 and log 0.25: softmax(0.5, 0.25)
    means = torch.tensor([[math.log(0.5), math.log(0.25)]])
    q = risk.beyond_bleu_distribution(means, torch.ones(1, 2, dtype=torch.bool))
    first = math.exp(0.5) / (math.exp(0.5) + math.exp(0.25))
    assert q[0].tolist() == pytest.approx([first, 1 - first])


def slow_risk(lprobs, token_mask, mask, cost, sharpness, normalize):
    """The paper's sums, one candidate at a time."""
    risks = []
    for b in range(len(mask)):
        weights, costs = [], []
        for n in range(len(mask[b])):
            if not mask[b][n]:
                continue
            terms = [lprobs[b][n][t] for t in range(len(lprobs[b][n])) if token_mask[b][n][t]]
            score = sum(terms) / (len(terms) if normalize else 1)
            weights.append(math.exp(sharpness * score))
            costs.append(cost[b][n])
        total = sum(weights)
        risks.append(
            sum(w / total * c for w, c in zip(weights, costs, strict=True)) if total else 0
        )
    return risks


@settings(max_examples=60)
@given(
    st.integers(0, 2**31),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 5),
    st.floats(0.05, 3),
    st.booleans(),
)
def test_equals_the_slow_loop(seed, batch, size, length, sharpness, normalize):
    generator = torch.Generator().manual_seed(seed)
    lprobs = -torch.rand(batch, size, length, generator=generator, dtype=torch.float64) * 5
    token_mask = torch.rand(batch, size, length, generator=generator) < 0.7
    token_mask[..., 0] = True
    mask = torch.rand(batch, size, generator=generator) < 0.7
    cost = torch.rand(batch, size, generator=generator, dtype=torch.float64)
    scores = risk.candidate_scores(lprobs, token_mask, normalize)
    q = risk.candidate_distribution(scores, mask, sharpness)
    expected = slow_risk(
        lprobs.tolist(), token_mask.tolist(), mask.tolist(), cost.tolist(), sharpness, normalize
    )
    assert risk.expected_cost(q, cost).tolist() == pytest.approx(expected)

    order = torch.randperm(size, generator=generator)
    shuffled = risk.candidate_distribution(scores[:, order], mask[:, order], sharpness)
    assert torch.allclose(shuffled, q[:, order])


def gradient(scores, mask, cost):
    scores = scores.clone().requires_grad_()
    risk.expected_cost(risk.candidate_distribution(scores, mask), cost).sum().backward()
    return scores.grad


def test_equal_costs_give_no_gradient():
    scores = torch.randn(3, 5, dtype=torch.float64)
    mask = torch.ones(3, 5, dtype=torch.bool)
    cost = torch.full((3, 5), 0.37, dtype=torch.float64)
    assert gradient(scores, mask, cost).abs().max() < 1e-15


def test_gradient_by_hand():
    # d risk / d score_i = Q_i (cost_i - risk): Q = (2/3, 1/3), risk = 0.3
    scores = torch.tensor([[math.log(2.0), 0.0]], dtype=torch.float64)
    found = gradient(
        scores, torch.ones(1, 2, dtype=torch.bool), torch.tensor([[0.1, 0.7]]).double()
    )
    assert found[0].tolist() == pytest.approx([2 / 3 * (0.1 - 0.3), 1 / 3 * (0.7 - 0.3)])


def test_gradcheck():
    mask = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    cost = torch.rand(3, 3, dtype=torch.float64)
    scores = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s: risk.expected_cost(risk.candidate_distribution(s, mask, 0.7), cost), scores
    )


def test_list_without_members_is_zero_in_value_and_gradient():
    scores = torch.full((1, 3), -torch.inf)
    mask = torch.zeros(1, 3, dtype=torch.bool)
    assert gradient(scores, mask, torch.ones(1, 3)).tolist() == [[0.0, 0.0, 0.0]]
    assert risk.candidate_distribution(scores, mask).tolist() == [[0.0, 0.0, 0.0]]
    assert risk.entropy(torch.zeros(1, 3)).item() == 0


def test_list_of_one_has_all_mass_and_no_gradient():
    mask = torch.tensor([[True, False]])
    scores = torch.tensor([[-40.0, 3.0]])
    assert risk.candidate_distribution(scores, mask).tolist() == [[1.0, 0.0]]
    assert gradient(scores, mask, torch.tensor([[0.9, 0.1]])).tolist() == [[0.0, 0.0]]


def test_masked_std_by_hand():
    values = torch.tensor([[1.0, 3.0, 99.0], [5.0, 7.0, 9.0]])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    # members 1 and 3: mean 2, mean square deviation 1
    assert risk.masked_std(values, mask).tolist() == [1.0, 0.0]

"""Terms of the objective by hand."""

from typing import Any

import pytest
import torch

from simile_plugin.risk import Objective


@pytest.mark.parametrize(("normalize", "tokens"), [(False, 1), (True, 2)])
def test_credit_of_each_token_by_hand(normalize: bool, tokens: int) -> None:
    objective = Objective(0.0, 0.0, 1.0, sharpness=0.5, normalize=normalize)
    lprobs = torch.full((1, 3, 2), -1.0, requires_grad=True)
    mask = torch.tensor([[[True, True], [True, True], [True, False]]])
    q = torch.tensor([[0.0, 0.75, 0.25]])
    credit = torch.tensor([[[9.0, 9.0], [0.2, -0.4], [0.8, 9.0]]])
    term = objective.credited(lprobs, mask, q, credit)
    assert term.tolist() == [0.0]  # it moves the gradient, not the value
    (gradient,) = torch.autograd.grad(term.sum(), lprobs)
    # a Q(u) credit(u, t), over the tokens of u where a score is their mean
    first = [0.5 * 0.75 * 0.2 / tokens, 0.5 * 0.75 * -0.4 / tokens]
    assert gradient[0, 1].tolist() == pytest.approx(first)
    assert gradient[0, 2].tolist() == pytest.approx([0.5 * 0.25 * 0.8, 0.0])
    assert gradient[0, 0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("normalize", [False, True])
def test_one_credit_for_all_tokens_is_another_reward(normalize: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    objective = Objective(0.0, 0.0, 3.0, sharpness=0.5, normalize=normalize)
    lprobs = -torch.rand(2, 4, 5, generator=generator, dtype=torch.float64)
    lprobs.requires_grad_()
    mask = torch.arange(5) < torch.tensor([[5, 2, 3, 1], [4, 5, 1, 3]]).unsqueeze(-1)
    members = torch.tensor([[False, True, True, True]] * 2)
    reward, more = torch.rand(2, 2, 4, generator=generator, dtype=torch.float64)
    rest: dict[str, Any] = {
        "mean_lprobs": torch.zeros_like(lprobs[:, 0]),
        "token_mask": mask,
        "members": members,
        "length_cost": torch.zeros_like(reward),
        "divisors": torch.ones(2),
        "vocabulary": 9,
    }

    def gradient(reward: torch.Tensor, credit: torch.Tensor | None) -> torch.Tensor:
        loss, _ = objective.loss(token_lprobs=lprobs, reward=reward, credit=credit, **rest)
        return torch.autograd.grad(loss, lprobs)[0]

    # What is the same for a list moves nothing: credit counts from the list's expected one.
    q = objective.distribution(lprobs.detach(), mask, members)
    expected = (q * more).sum(-1, keepdim=True)
    by_token = gradient(reward, (more - expected).unsqueeze(-1).expand_as(lprobs))
    torch.testing.assert_close(by_token, gradient(reward + more, None))

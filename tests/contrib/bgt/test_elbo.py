"""The lower bound by hand, and beside slow loops."""

import math

import pytest
import torch

from simile_plugin.contrib.bgt.elbo import (
    Posterior,
    alternate,
    chosen,
    kl_to_prior,
    kl_weight,
    sentence_nll,
)


def test_kl_by_hand() -> None:
    # Two dimensions: (e^0 + 1 - 1 - 0) / 2 = 1/2, and (4 + 0 - 1 - ln 4) / 2.
    posterior = Posterior(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, math.log(4.0)]]))
    assert kl_to_prior(posterior).tolist() == pytest.approx([0.5 + (3 - math.log(4)) / 2])


def test_kl_is_the_integral() -> None:
    """The sum over a fine grid of q log(q / p), dimension by dimension."""
    generator = torch.Generator().manual_seed(1)
    mean, log_variance = torch.rand(2, 5, 3, generator=generator) * 2 - 1
    grid = torch.linspace(-25, 25, 20001, dtype=torch.float64)[:, None, None]

    def log_density(center: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return -((grid - center) ** 2) / (2 * variance) - (2 * math.pi * variance).log() / 2

    ours = log_density(mean.double(), log_variance.double().exp())
    prior = log_density(torch.zeros(()).double(), torch.ones(()).double())
    integral = (ours.exp() * (ours - prior)).sum(0).sum(1) * (50 / 20000)
    torch.testing.assert_close(
        kl_to_prior(Posterior(mean, log_variance)), integral.float(), atol=1e-5, rtol=1e-5
    )
    assert kl_to_prior(Posterior(mean)).tolist() == [0.0] * 5  # a point, without a prior


def test_samples_have_the_posteriors_mean_and_variance() -> None:
    torch.manual_seed(2)
    variance = torch.tensor([0.25, 4.0])
    posterior = Posterior(
        torch.tensor([[3.0, -1.0]]).repeat(40000, 1), variance.log().repeat(40000, 1)
    )
    drawn = posterior.sample()
    torch.testing.assert_close(drawn.mean(0), torch.tensor([3.0, -1.0]), atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.var(0), variance, atol=0.1, rtol=0)
    first, second = (posterior.sample(torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second) and not torch.equal(first, drawn)
    assert torch.equal(Posterior(drawn).sample(), drawn)


def test_the_gradient_goes_through_a_sample() -> None:
    mean, log_variance = (
        torch.zeros(1, 1, requires_grad=True),
        torch.zeros(1, 1, requires_grad=True),
    )
    noise = torch.randn(1, 1, generator=torch.Generator().manual_seed(3))
    Posterior(mean, log_variance).sample(torch.Generator().manual_seed(3)).sum().backward()
    assert mean.grad is not None and log_variance.grad is not None
    assert mean.grad.item() == 1.0
    assert log_variance.grad.item() == pytest.approx(noise.item() / 2)  # d exp(v/2) e at v = 0


def test_the_weight_grows_linearly() -> None:
    assert [kl_weight(update, 4) for update in (0, 1, 2, 4, 9)] == [0.0, 0.25, 0.5, 1.0, 1.0]
    assert kl_weight(0, 0) == 1.0


def test_pairs_take_turns() -> None:
    cpu = torch.device("cpu")
    assert alternate(5, 0, cpu).tolist() == [True, False, True, False, True]
    assert alternate(5, 7, cpu).tolist() == [False, True, False, True, False]
    first, second = (
        Posterior(torch.zeros(5, 2), torch.zeros(5, 2)),
        Posterior(torch.ones(5, 2), torch.ones(5, 2)),
    )
    found = chosen(first, second, alternate(5, 0, cpu))
    assert found.mean[:, 0].tolist() == [0, 1, 0, 1, 0]
    assert found.log_variance is not None and torch.equal(found.mean, found.log_variance)
    assert chosen(Posterior(first.mean), second, alternate(5, 0, cpu)).log_variance is None


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nll_beside_a_slow_loop(smoothing: float) -> None:
    torch.manual_seed(4)
    pad, size = 1, 6
    tokens = torch.tensor([[3, 5, 2], [4, 2, pad]])
    logits = torch.randn(2, 3, size)
    expected = []
    for row, sentence in enumerate(tokens.tolist()):
        total = 0.0
        for time, token in enumerate(sentence):
            if token == pad:
                continue
            scores = logits[row, time].tolist()
            log_sum = math.log(sum(math.exp(score) for score in scores))
            uniform = sum(log_sum - score for score in scores) / size
            total += (1 - smoothing) * (log_sum - scores[token]) + smoothing * uniform
        expected.append(total)
    found = sentence_nll(logits, tokens, pad, smoothing)
    assert found.tolist() == pytest.approx(expected, rel=1e-5)

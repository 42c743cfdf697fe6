"""The lower bound by hand."""

import math

import pytest
import torch

from simile_plugin.contrib.bgt.elbo import Posterior, alternate, chosen, kl_to_prior, kl_weight


def test_kl_by_hand() -> None:
    # Two dimensions: (e^0 + 1 - 1 - 0) / 2 = 1/2, and (4 + 0 - 1 - ln 4) / 2.
    posterior = Posterior(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, math.log(4.0)]]))
    assert kl_to_prior(posterior).tolist() == pytest.approx([0.5 + (3 - math.log(4)) / 2])
    assert kl_to_prior(Posterior(posterior.mean)).tolist() == [0.0]  # a point, without a prior


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

"""The evidence lower bound of a translation pair, as pure tensors (thesis, 5.5).

    ELBO = E_q [log p(x_1 | z_sem, z_1) + log p(x_2 | z_sem, z_2)] - KL(q || N(0, I))

with q = q(z_sem | one side) q(z_1 | x_1) q(z_2 | x_2), Gaussians with diagonal covariance, and the
expectation taken at one sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

EVALUATION_SEED = 1


@dataclass(frozen=True)
class Posterior:
    """q(z | x) = N(mean, diag(exp(log_variance))), or the point `mean` where there is no prior.

    Attributes:
        mean: (B, K).
        log_variance: (B, K), or None.
    """

    mean: Tensor
    log_variance: Tensor | None = None

    def sample(self, noise: torch.Generator | None = None) -> Tensor:
        """z = mean + exp(log_variance / 2) e with e ~ N(0, I), (B, K); a point's mean.

        Args:
            noise: what draws e, on the CPU; None for torch's own state, as in training.
        """
        if self.log_variance is None:
            return self.mean
        if noise is None:
            drawn = torch.randn_like(self.mean)
        else:
            drawn = torch.randn(self.mean.shape, generator=noise).to(self.mean)
        return self.mean + (self.log_variance / 2).exp() * drawn


def kl_to_prior(posterior: Posterior) -> Tensor:
    """KL(q || N(0, I)) = sum over k of (exp(v_k) + m_k^2 - 1 - v_k) / 2, (B,) in nats.

    Args:
        posterior: with means m and logarithms of variances v; a point has 0, for want of a prior.
    """
    mean, log_variance = posterior.mean.float(), posterior.log_variance
    if log_variance is None:
        return mean.new_zeros(len(mean))
    log_variance = log_variance.float()
    return (log_variance.exp() + mean**2 - 1 - log_variance).sum(1) / 2


def kl_weight(update: int, anneal_updates: int) -> float:
    """Weight of the KL term: linear from 0 at the first update to 1 after `anneal_updates`."""
    return 1.0 if anneal_updates == 0 else min(1.0, update / anneal_updates)


def alternate(pairs: int, update: int, device: torch.device) -> Tensor:
    """Of which pairs the first side is read by the semantic network, (B,) bool.

    The pairs of a batch take turns (5.5), and a pair has its turn moved on by each update:
    fairseq keeps its batches, so that a pair would be read on the same side in every epoch.
    """
    return (torch.arange(pairs, device=device) + update) % 2 == 0


def chosen(first: Posterior, second: Posterior, take_first: Tensor) -> Posterior:
    """Row by row one of two posteriors of the same kind.

    Args:
        take_first: (B,) bool.
    """
    mean = torch.where(take_first[:, None], first.mean, second.mean)
    if first.log_variance is None or second.log_variance is None:
        return Posterior(mean)
    variance = torch.where(take_first[:, None], first.log_variance, second.log_variance)
    return Posterior(mean, variance)


def sentence_nll(logits: Tensor, tokens: Tensor, pad: int, smoothing: float = 0.0) -> Tensor:
    """-log p(x | z), summed over the tokens of each sentence, its end among them: (B,) in nats.

    Args:
        logits: (B, T, V).
        tokens: (B, T) ids, padding behind.
        pad: id of the padding.
        smoothing: epsilon; the target is then (1 - epsilon) the token, epsilon uniform over V.
    """
    flat = logits.float().flatten(0, 1)
    nll = F.cross_entropy(
        flat, tokens.flatten(), ignore_index=pad, reduction="none", label_smoothing=smoothing
    )
    return nll.view(tokens.shape).sum(1)

"""Hold the expected length of candidates where it is: what pleases the reward may not be length.

    minimise  sum_i E_Q[cost(u)]   such that   sum_i E_Q[|u|] / sum_i |r_i|  stays

An average of vectors hardly sees what is said twice, and LP^0.25 hardly minds a few percent of
length: trained on such a reward alone, translations grow. The multiplier of the constraint, times a
candidate's relative length, is added to its cost.

Along the descent of Q by the costs, lengths move at the rate -sum_i Cov_Q(cost, |u| / |r_i|), so
that minus the slope of the regression of cost on length within the lists stops them if each list
moved alone. A model's lists move together, and a share of the slope does: measured lengths say
which. Lengths alone are a poor guide, for 30 sentences differ from their references by 3 percent of
chance; within the bound that the slope gives, that chance does little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

# Share of an update in the running sums and in the running ratio of lengths.
SMOOTHING = 0.05
# The first updates say where the ratio begins; the model has hardly moved by then.
FIRST_UPDATES = 20
# Start with half of the slope; add 50 times the excess of the length ratio, so that an excess of
# 1 % moves the share by 0.5.
SHARE, GAIN = 0.5, 50.0
# What is logged of an update for LengthControl.update.
LENGTH_SUMS = ("length_covariance", "length_variance", "expected_words", "words")


@dataclass
class LengthControl:
    """The multiplier of one training run.

    Attributes:
        strength: factor on the multiplier; 0 switches the control off (the paper).
        updates: seen so far.
        covariance, variance: running sums of Cov_Q(cost, relative length) and of its variance.
        first: expected length over reference length in the first updates.
        ratio: the same, now (a running mean).
    """

    strength: float = 1.0
    updates: int = 0
    covariance: float = 0.0
    variance: float = 0.0
    first: float = 0.0
    ratio: float = 0.0

    @property
    def multiplier(self) -> float:
        """Return the cost of relative length 1: above 0 where the reward pays for length."""
        slope = -self.covariance / self.variance if self.variance else 0.0
        longer = self.ratio - self.first
        share = SHARE + GAIN * (longer if slope > 0 else -longer)
        return self.strength * slope * min(1.0, max(0.0, share))

    def update(self, sums: Mapping[str, float | Tensor]) -> None:
        """See one update; one without words is left out.

        Args:
            sums: LENGTH_SUMS over sentences and ranks: both of :func:`length_slope`,
                sum_i E_Q[|u|] and sum_i |r_i|, in words.
        """
        covariance, variance, expected, reference = (float(sums[name]) for name in LENGTH_SUMS)
        if not reference:
            return
        self.updates += 1
        self.covariance += SMOOTHING * (covariance - self.covariance)
        self.variance += SMOOTHING * (variance - self.variance)
        ratio = expected / reference
        if self.updates <= FIRST_UPDATES:
            self.first += (ratio - self.first) / self.updates
            self.ratio = self.first
        else:
            self.ratio += SMOOTHING * (ratio - self.ratio)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return asdict(self)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`, at this run's own strength."""
        for name in asdict(self).keys() - {"strength"}:
            setattr(self, name, type(getattr(self, name))(state[name]))


def relative_length(hyp_lengths: Tensor, ref_lengths: Tensor) -> Tensor:
    """(|u| - |r|) / |r| of B lists: (B, N) float32.

    Args:
        hyp_lengths: (B, N) words of the candidates.
        ref_lengths: (B,) words of the references; one that is missing has as many as the list's
            mean, of which only differences within the list matter.
    """
    refs = ref_lengths.view(-1, 1).float()
    refs = torch.where(refs > 0, refs, hyp_lengths[:, 1:].float().mean(-1, keepdim=True))
    refs = refs.clamp(min=1)
    return (hyp_lengths - refs).to(torch.float32) / refs


def length_slope(distribution: Tensor, cost: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Cov_Q(cost, length) and Var_Q(length) of each list: (B,) each, 0 for a list without members.

    Args:
        distribution: (B, N) Q, 0 outside the risk set.
        cost, lengths: (B, N), finite everywhere.
    """
    # First from the likeliest candidate's: where all are equal, rounding of Q leaves exactly 0.
    likeliest = distribution.argmax(-1, keepdim=True)
    lengths, cost = (x - x.gather(-1, likeliest) for x in (lengths, cost))
    lengths, cost = (x - (distribution * x).sum(-1, keepdim=True) for x in (lengths, cost))
    return (distribution * lengths * cost).sum(-1), (distribution * lengths**2).sum(-1)

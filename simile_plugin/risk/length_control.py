"""Holds the expected length of candidates where it is: what pleases the reward may not be length.

    minimise  sum_i E_Q[cost(u)]   such that   sum_i E_Q[|u| / |r_i|]  stays

An average of vectors hardly sees what is said twice, and LP^0.25 hardly minds a few percent of
length: trained on such a reward alone, translations grow. The multiplier of the constraint, times a
candidate's relative length, is added to its cost. Along the descent of Q by the costs, lengths move
at the rate -sum_i Cov_Q(cost, |u| / |r_i|), so that the multiplier that stops them is known in
closed form: minus the slope of the regression of cost on length within the lists.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

# Share of an update in the running sums: the slope of 30 lists alone is as large as its error.
SMOOTHING = 0.05


@dataclass
class LengthControl:
    """The multiplier of one training run, from sums over sentences and ranks.

    It begins with the second update. It follows what the reward pays for length, not the lengths:
    those of a batch differ from the references' by a few percent for reasons of their own, and
    holding them against that noise drives lengths up and down.

    Attributes:
        strength: share of the slope that is taken away; 0 switches the control off (the paper).
        covariance: running sum of Cov_Q(cost, relative length).
        variance: of Var_Q(relative length).
    """

    strength: float = 1.0
    covariance: float = 0.0
    variance: float = 0.0

    @property
    def multiplier(self) -> float:
        """What a candidate's relative length costs: above 0 where the reward pays for length."""
        return -self.strength * self.covariance / self.variance if self.variance else 0.0

    def update(self, covariance: float, variance: float) -> None:
        """See one update's sums over its sentences, see :func:`length_slope`."""
        self.covariance += SMOOTHING * (covariance - self.covariance)
        self.variance += SMOOTHING * (variance - self.variance)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return asdict(self)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`, at this run's own strength."""
        self.covariance, self.variance = float(state["covariance"]), float(state["variance"])


def relative_length(hyp_lengths: Tensor, ref_lengths: Tensor) -> Tensor:
    """(|u| - |r|) / |r| of B lists: (B, N) float32.

    Args:
        hyp_lengths: (B, N) words of the candidates.
        ref_lengths: (B,) words of the references; an empty one counts as one word.
    """
    refs = ref_lengths.view(-1, 1).clamp(min=1)
    return (hyp_lengths - refs).to(torch.float32) / refs


def length_slope(distribution: Tensor, cost: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Cov_Q(cost, length) and Var_Q(length) of each list: (B,) each, 0 for a list without members.

    Args:
        distribution: (B, N) Q, 0 outside the risk set.
        cost, lengths: (B, N), finite everywhere.
    """
    lengths, cost = (x - (distribution * x).sum(-1, keepdim=True) for x in (lengths, cost))
    return (distribution * lengths * cost).sum(-1), (distribution * lengths**2).sum(-1)

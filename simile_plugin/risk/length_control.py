"""Holds the expected length of candidates where it was when training began.

    minimise  E_Q[cost(u)]   subject to   low <= E_Q[|u|] / |r| <= high

An average of vectors hardly sees what is said twice, and LP^0.25 hardly minds a few percent of
length: trained on such a reward alone, translations grow. The constraint is held by dual ascent
with a quadratic penalty (the augmented Lagrangian; Nocedal and Wright 2006, section 17.3): its
multiplier, times a candidate's relative length, is added to the candidate's cost.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

# The first updates say where the ratio begins; the model has hardly moved by then.
FIRST_UPDATES = 10
# How far the ratio may move, and towards 1 only: a model that is too short may become longer.
TOWARDS_ONE = 0.01
# Share of an update in the running ratio: 30 sentences alone are off by some 3 %.
SMOOTHING = 0.1
# Growth of the multiplier by the violation, at each update and at once. A violation of 1 % then
# weighs as much as the usual difference of two candidates' costs, and vanishes without swinging.
ASCENT, PENALTY = 0.1, 15.0


@dataclass
class LengthControl:
    """The multiplier of one training run; every number is a ratio of lengths, summed over ranks.

    Attributes:
        strength: factor on ``ASCENT`` and ``PENALTY``; 0 switches it off (the paper).
        updates: seen so far.
        first: expected length over reference length in the first updates.
        ratio: the same, now (a running mean).
        above, below: multipliers of the two bounds, 0 or more.
    """

    strength: float = 1.0
    updates: int = 0
    first: float = 0.0
    ratio: float = 0.0
    above: float = 0.0
    below: float = 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Where the ratio may be: at the first one, or at most ``TOWARDS_ONE`` nearer to 1."""
        nearer = min(max(1.0, self.first - TOWARDS_ONE), self.first + TOWARDS_ONE)
        return min(self.first, nearer), max(self.first, nearer)

    @property
    def multiplier(self) -> float:
        """What a candidate's relative length costs: above 0 where candidates are too long."""
        if self.updates < FIRST_UPDATES:
            return 0.0
        low, high = self.bounds
        violation = max(0.0, self.ratio - high) - max(0.0, low - self.ratio)
        return self.above - self.below + self.strength * PENALTY * violation

    def update(self, expected: float, reference: float) -> None:
        """See one update's lengths, in words.

        Args:
            expected: sum over sentences of E_Q[|u|].
            reference: sum over sentences of |r|; an update without words is left out.
        """
        if not self.strength or reference <= 0:
            return
        ratio = expected / reference
        self.updates += 1
        if self.updates <= FIRST_UPDATES:
            self.first += (ratio - self.first) / self.updates
            self.ratio = self.first
            return
        self.ratio += SMOOTHING * (ratio - self.ratio)
        low, high = self.bounds
        step = self.strength * ASCENT
        self.above = max(0.0, self.above + step * (self.ratio - high))
        self.below = max(0.0, self.below + step * (low - self.ratio))

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return asdict(self)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`, at this run's own strength."""
        for name, value in state.items():
            if name != "strength":
                setattr(self, name, value)


def length_cost(hyp_lengths: Tensor, ref_lengths: Tensor, multiplier: float) -> Tensor:
    """What is added to the costs of B lists: multiplier * (|u| - |r|) / |r|, in the cost's unit.

    Args:
        hyp_lengths: (B, N) words of the candidates.
        ref_lengths: (B,) or (B, 1) words of the references; an empty one counts as one word.

    Returns:
        (B, N) float32; a constant within a list would change no gradient.
    """
    refs = ref_lengths.view(-1, 1).clamp(min=1)
    return multiplier * (hyp_lengths - refs).to(torch.float32) / refs

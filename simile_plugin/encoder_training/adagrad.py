"""AdaGrad over an embedding table of which a step touches few rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

EPS = 1e-10  # torch.optim.Adagrad's


class RowAdagrad:
    """AdaGrad (Duchi et al. 2011) of a table (V, D): s += g^2, w -= lr g / (sqrt(s) + EPS).

    Without a gradient nothing moves, so that all rows are current at any time.

    Args:
        weight: (V, D) float32, updated in place.
        lr: learning rate of each step, counted from 0.
    """

    def __init__(self, weight: Tensor, lr: Callable[[int], float]) -> None:
        self.weight = weight
        self.lr = lr
        self.squares = torch.zeros_like(weight)
        self.count = 0

    def read(self, rows: NDArray[np.integer] | None = None) -> Tensor:
        """The table; its rows need no bringing up to date, as RowAdam's do."""
        return self.weight

    @torch.no_grad()
    def step(self, rows: NDArray[np.integer], gradient: Tensor) -> None:
        """One step: ``gradient`` (R, D) of distinct rows, 0 for all others."""
        index = torch.from_numpy(rows.astype(np.int64)).to(self.weight.device)
        squares = self.squares[index].addcmul_(gradient, gradient)
        self.squares[index] = squares
        change = gradient / squares.sqrt_().add_(EPS)
        self.weight.index_add_(0, index, change, alpha=-self.lr(self.count))
        self.count += 1

    @torch.no_grad()
    def dense_step(self, gradient: Tensor) -> None:
        """One step with a gradient (V, D) of all rows."""
        self.squares.addcmul_(gradient, gradient)
        self.weight.addcdiv_(gradient, self.squares.sqrt().add_(EPS), value=-self.lr(self.count))
        self.count += 1

    def state(self) -> dict[str, Tensor]:
        """Tensors from which load_state goes on bit for bit."""
        return {
            "weight": self.weight,
            "squares": self.squares,
            "count": torch.tensor(self.count),
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from what state() gave."""
        with torch.no_grad():
            self.weight.copy_(state["weight"])
        self.squares.copy_(state["squares"])
        self.count = int(state["count"])

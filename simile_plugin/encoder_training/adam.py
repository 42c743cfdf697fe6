"""Adam over an embedding table of which a step touches few rows: dense Adam's result, their cost.

Dense Adam moves every row at every step, by the decaying moments of its past gradients. Here a row
stands still until it is read again; then all the steps that it missed are made at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from simile_plugin.encoder_training.bags import Rows, row_numbers
from simile_plugin.encoder_training.row_kernel import load_kernel

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8  # Kingma and Ba 2015, and the papers
# Missed steps are summed by a series in how far the second moment's decay is from its mean; while
# its bias correction still changes fast, the series is poor and all rows are touched instead.
DENSE_STEPS = 512
HORIZON = 400  # 0.9 ** 400 is 5e-19: moments as old as that move nothing
CHUNK = 4096  # steps whose coefficients are computed at once


class RowAdam:
    """Adam (Kingma and Ba 2015, algorithm 1) of a table (V, D), row by row.

    ``read`` brings rows up to date, ``step`` takes the gradient of some rows, 0 for all others.
    Steps of single rows are made by the compiled row_kernel.c. Where it is missing every step is
    dense, as on a GPU: faster than gathering rows by torch for 8,000 rows, slower for 30,000.

    Args:
        weight: (V, D) float32, updated in place; current only for rows just read.
        lr: learning rate of each step, counted from 0.
        steps: number of steps that lr knows.
        dense: touch all rows at every step, as on a GPU, which has the bandwidth.
    """

    def __init__(
        self, weight: Tensor, lr: Callable[[int], float], steps: int, dense: bool = False
    ) -> None:
        self.weight = weight
        self.lr = lr
        self.steps = steps
        self.first = torch.zeros_like(weight)
        self.second = torch.zeros_like(weight)
        self.count = 0
        # Steps that the moments, and the weights, of each row have seen.
        self.moments_at = np.zeros(len(weight), dtype=np.int64)
        self.weight_at = np.zeros(len(weight), dtype=np.int64)
        self._tails = _Tails(lr, steps)
        usable = not dense and weight.device.type == "cpu" and weight.dtype == torch.float32
        self._kernel = load_kernel() if usable and weight.is_contiguous() else None

    @property
    def dense(self) -> bool:
        """True where the next step touches all rows."""
        return self._kernel is None or self.count < DENSE_STEPS

    @torch.no_grad()
    def read(self, rows: Rows | None = None) -> Tensor:
        """Bring distinct rows (None: all) up to date; return the table, current in those rows."""
        if self._kernel is None or isinstance(rows, Tensor):
            return self.weight
        wanted = np.arange(len(self.weight)) if rows is None else rows.astype(np.int64, copy=False)
        stale = wanted[self.weight_at[wanted] < self.count]
        moving = self._moving(stale)
        if len(moving):
            total, mean, variance = self._missed(moving)
            self._kernel.replay(moving, self._tables, (total, mean, total * variance), EPS)
        self.weight_at[stale] = self.count
        return self.weight

    def _moving(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows whose moments were younger than HORIZON steps at the last reading."""
        return rows[self.weight_at[rows] - self.moments_at[rows] < HORIZON]

    def _missed(
        self, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return total, mean and variance of the steps that rows missed, all with gradient 0.

        Step i after a row's last gradient subtracts c_i m / (a (1 - d_i) + eps), where m is its
        first moment, a the mean over i of the root of its second moment, c_i and d_i numbers that
        do not depend on the row. With d_i's mean 0, 1 / (a (1 - d) + eps) is
        (1 + x^2 mean(d^2)) / (a + eps), x = a / (a + eps), up to terms in d^3.
        """
        return self._tails.moments(self.moments_at[rows], self.weight_at[rows], self.count)

    @torch.no_grad()
    def step(self, rows: Rows, gradient: Tensor) -> None:
        """Make a step: ``gradient`` (R, D) of distinct rows that were read, 0 for all others."""
        if self.dense:
            full = torch.zeros_like(self.weight)
            full[row_numbers(rows, full.device)] = gradient
            self.dense_step(full)
            return
        assert self._kernel is not None and not isinstance(rows, Tensor)
        touched = np.ascontiguousarray(rows, dtype=np.int64)
        missed = (self.count - self.moments_at[touched]).astype(np.float64)
        decays = BETA1 ** (missed + 1), BETA2 ** (missed + 1)
        step = self.count + 1
        rate = self.lr(self.count) / (1 - BETA1**step)
        numbers = 1 - BETA1, 1 - BETA2, rate, math.sqrt(1 - BETA2**step), EPS
        self._kernel.adam(touched, self._tables, gradient, decays, numbers)
        self.count += 1
        self.moments_at[touched] = self.weight_at[touched] = self.count

    @property
    def _tables(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.weight, self.first, self.second

    @torch.no_grad()
    def dense_step(self, gradient: Tensor) -> None:
        """Make a step with a gradient (V, D) of all rows, which must all have been read."""
        # torch's fused Adam increments the count first. torch.full makes it on the device: a copy
        # from the host would synchronise.
        count = torch.full((), float(self.count), device=self.weight.device)
        adam(
            [self.weight],
            [gradient],
            [self.first],
            [self.second],
            [],
            [count],
            fused=True,
            amsgrad=False,
            beta1=BETA1,
            beta2=BETA2,
            lr=self.lr(self.count),
            weight_decay=0.0,
            eps=EPS,
            maximize=False,
        )
        self.count += 1
        self.moments_at[:] = self.weight_at[:] = self.count

    def state(self) -> dict[str, Tensor]:
        """Return tensors from which load_state resumes bit for bit."""
        return {
            "weight": self.weight,
            "first": self.first,
            "second": self.second,
            "moments_at": torch.from_numpy(self.moments_at),
            "weight_at": torch.from_numpy(self.weight_at),
            "count": torch.tensor(self.count),
        }

    @torch.no_grad()
    def load_state(self, state: dict[str, Tensor]) -> None:
        """Resume from a state, which may have been saved on another device."""
        for name in ("weight", "first", "second"):
            getattr(self, name).copy_(state[name])
        self.moments_at = state["moments_at"].numpy().copy()
        self.weight_at = state["weight_at"].numpy().copy()
        self.count = int(state["count"])
        if self._kernel is None:
            self._catch_up()

    def _catch_up(self) -> None:
        """Make the steps that rows of a kernel's state missed: a dense step needs every row."""

        def column(values: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(values).to(self.weight)[:, None]

        rows = self._moving(np.flatnonzero(self.weight_at < self.count))
        if len(rows):
            total, mean, variance = self._missed(rows)
            index = torch.from_numpy(rows).to(self.weight.device)
            root = self.second[index].sqrt() * column(mean)
            factor = column(total) + column(total * variance) * (root / (root + EPS)) ** 2
            self.weight[index] -= factor * self.first[index] / (root + EPS)
        missed = (self.count - self.moments_at).astype(np.float64)
        self.first *= column(BETA1**missed)
        self.second *= column(BETA2**missed)
        self.moments_at[:] = self.weight_at[:] = self.count


class _Tails:
    """Sums over missed steps, looked up instead of added.

    With g_i = lr_i / (1 - b1^i) and s_i = 1 / sqrt(1 - b2^i) of step i = 1, 2, ..., a row whose
    moments are of step t moves at step i by g_i b1^(i-t) m / (sqrt(v) u + eps), where
    u = sqrt(b2)^(i-t) s_i. Tables hold F_p(t) = sum over i > t of g_i b1^(i-t) u^p, p = 0, 1, 2;
    a sum from w to n is the difference of the tails at w and at n, each moved to base t.
    """

    def __init__(self, lr: Callable[[int], float], steps: int) -> None:
        self.lr = lr
        self.steps = steps
        self.start = 0
        self.table = np.zeros((0, 3))
        self.ratios = BETA1 * np.sqrt(BETA2) ** np.arange(3)
        self.powers = self.ratios ** np.arange(HORIZON + 1)[:, None]

    def moments(
        self, base: NDArray[np.int64], begin: NDArray[np.int64], end: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return total, mean and relative variance over each row's missed steps begin + 1 .. end.

        The total is that of g b1^(i-t); mean and variance are those of u, weighted by it.
        """
        beyond = np.minimum(end - base, HORIZON)
        sums = self.powers[begin - base] * self._at(begin)
        sums -= self.powers[beyond] * self._at(np.asarray(end))
        total, mean = sums[:, 0], sums[:, 1] / sums[:, 0]
        return total, mean, np.maximum(sums[:, 2] / sums[:, 0] / mean**2 - 1, 0)

    def _at(self, step: NDArray[np.int64]) -> NDArray[np.float64]:
        if step.size:
            low, high = int(step.min()), int(step.max())
            if low < self.start or high >= self.start + len(self.table):
                self._fill(low, high)
        return self.table[step - self.start]

    def _fill(self, low: int, high: int) -> None:
        """Compute the tails of steps low .. high + CHUNK: F(t) = r (g_(t+1) s_(t+1)^p + F(t+1))."""
        last = high + CHUNK
        step = np.arange(low + 1, last + HORIZON + 1)
        rate = np.array([self.lr(i - 1) if i <= self.steps else 0.0 for i in step.tolist()])
        gain = rate / (1 - BETA1**step)
        terms = gain[:, None] * (1 / np.sqrt(1 - BETA2**step))[:, None] ** np.arange(3)
        tails = np.zeros((len(step) + 1, 3))
        for i in range(len(step) - 1, -1, -1):
            tails[i] = self.ratios * (terms[i] + tails[i + 1])
        self.start, self.table = low, tails[: last - low + 1]

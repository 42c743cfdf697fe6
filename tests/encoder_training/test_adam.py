"""Row-wise Adam beside torch's dense one, step for step."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from simile_plugin.encoder_training.adam import CHUNK, DENSE_STEPS, HORIZON, RowAdam
from simile_plugin.encoder_training.row_kernel import ROWS_OF_A_THREAD, load_kernel

ROWS, DIM = 60, 4
Rate = Callable[[int], float]


def falling(steps: int) -> Rate:
    return lambda step: 5e-3 * (1 - step / steps)


def constant(_: int) -> Rate:
    return lambda step: 5e-3


def draw(rng: np.random.Generator, scale: float) -> tuple[np.ndarray, Tensor]:
    """Rows of a step, as skewed as words are, and their gradient."""
    chance = 1 / (np.arange(ROWS) + 1.0) ** 1.7
    rows = np.unique(rng.choice(ROWS, 6, p=chance / chance.sum()))
    gradient = rng.standard_normal((len(rows), DIM)).astype(np.float32) * scale
    return rows, torch.from_numpy(gradient)


class Dense:
    """torch.optim.Adam in one precision."""

    def __init__(self, table: Tensor, rate: Rate) -> None:
        self.table = torch.nn.Parameter(table.clone())
        self.adam = torch.optim.Adam([self.table])
        self.rate = rate
        self.count = 0

    def step(self, rows: np.ndarray, gradient: Tensor) -> None:
        self.table.grad = torch.zeros_like(self.table)
        self.table.grad[rows] = gradient.to(self.table.dtype)
        self.adam.param_groups[0]["lr"] = self.rate(self.count)
        self.adam.step()
        self.count += 1


@pytest.fixture(params=["kernel", "dense"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Through the compiled kernel, and without it."""
    if request.param == "dense":
        monkeypatch.setattr("simile_plugin.encoder_training.adam.load_kernel", lambda: None)
    else:
        assert load_kernel() is not None, "setup.py did not compile row_kernel.c: is there a gcc?"
    return str(request.param)


# 1e-8 is Adam's epsilon: gradients of its size are where it decides.
@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-8])
@pytest.mark.parametrize("schedule", [constant, falling])
def test_every_step_is_that_of_dense_adam(
    scale: float, schedule: Callable[[int], Rate], way: str
) -> None:
    steps = DENSE_STEPS + 2 * HORIZON
    rate = schedule(steps)
    table = torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(0)) * 0.1
    ours = RowAdam(table.clone(), rate, steps)
    single, double = Dense(table, rate), Dense(table.double(), rate)
    rng = np.random.default_rng(0)
    worst = {"ours": 0.0, "torch": 0.0}
    for step in range(steps):
        rows, gradient = draw(rng, scale)
        read = ours.read(rows)[rows]
        torch.testing.assert_close(read, single.table.detach()[rows], atol=1e-5, rtol=0)
        exact = double.table.detach()[rows]
        worst["ours"] = max(worst["ours"], float((read - exact).abs().max()))
        worst["torch"] = max(
            worst["torch"], float((single.table.detach()[rows] - exact).abs().max())
        )
        for optimizer in (ours, single, double):
            optimizer.step(rows, gradient)
        if step % 500 == 499:
            torch.testing.assert_close(ours.read(), single.table.detach(), atol=1e-5, rtol=0)
    assert float((ours.read() - table).abs().max()) > 0.05  # something was learnt
    # As far from Adam in float64 as torch's own float32 is: the series costs nothing.
    assert worst["ours"] <= 1.2 * worst["torch"]


def test_a_row_that_nobody_reads_for_long(way: str) -> None:
    steps = DENSE_STEPS + 2 * CHUNK + 50  # beyond the tables computed at once
    table = torch.ones(2, DIM)
    ours, dense = RowAdam(table.clone(), falling(steps), steps), Dense(table, falling(steps))
    gradient = torch.full((1, DIM), 1e-3)
    for step in range(steps):
        rows = np.array([0 if step < DENSE_STEPS + 10 else 1])
        ours.read(rows)
        ours.step(rows, gradient)
        dense.step(rows, gradient)
    # Row 1 walks far: thousands of additions round, in both.
    torch.testing.assert_close(ours.read(), dense.table.detach(), atol=1e-5, rtol=1e-5)


def test_a_state_of_single_rows_goes_on_densely() -> None:
    steps = DENSE_STEPS + 300
    table = torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(0))
    rows = RowAdam(table.clone(), falling(steps), steps)
    assert load_kernel() is not None
    dense = RowAdam(table.clone(), falling(steps), steps, dense=True)  # as on a GPU
    rng = np.random.default_rng(0)
    for step in range(steps):
        if step == DENSE_STEPS + 200:
            state = {name: value.clone() for name, value in rows.state().items()}
            assert int((state["weight_at"] < step).sum()) > ROWS // 4  # many rows wait
            dense.load_state(state)
            torch.testing.assert_close(dense.weight, rows.read(), atol=1e-6, rtol=0)
        some, gradient = draw(rng, 1e-3)
        rows.read(some)
        rows.step(some, gradient)
        dense.step(some, gradient)
    torch.testing.assert_close(dense.weight, rows.read(), atol=1e-5, rtol=0)


def test_dense_mode_is_torchs_adam_to_the_bit() -> None:
    table = torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(0))
    ours = RowAdam(table.clone(), constant(0), 100, dense=True)
    weight = torch.nn.Parameter(table.clone())
    fused = torch.optim.Adam([weight], lr=5e-3, fused=True)
    rng = np.random.default_rng(0)
    for _ in range(100):
        rows, gradient = draw(rng, 1e-3)
        ours.step(rows, gradient)
        weight.grad = torch.zeros_like(weight)
        weight.grad[rows] = gradient
        fused.step()
    assert torch.equal(ours.weight, weight.detach())


@pytest.mark.parametrize("dim", [1, 7, 16])
def test_threads_change_nothing(dim: int) -> None:
    count = 3 * ROWS_OF_A_THREAD

    def result(threads: int) -> Tensor:
        torch.set_num_threads(threads)
        generator = torch.Generator().manual_seed(0)
        optimizer = RowAdam(torch.randn(count, dim, generator=generator), constant(0), 10_000)
        optimizer.count = DENSE_STEPS  # from here on rows are touched one by one
        rng = np.random.default_rng(0)
        for _ in range(5):
            rows = np.flatnonzero(rng.random(count) < 0.7)
            optimizer.read(rows)
            optimizer.step(rows, torch.randn(len(rows), dim, generator=generator))
        return optimizer.read().clone()

    threads = torch.get_num_threads()
    try:
        one, four = result(1), result(4)
    finally:
        torch.set_num_threads(threads)
    assert torch.isfinite(one).all()
    assert torch.equal(one, four)

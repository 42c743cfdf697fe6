"""Row-wise AdaGrad beside torch's dense one, step for step."""

import math

import numpy as np
import pytest
import torch

from simile_plugin.encoder_training.adagrad import RowAdagrad
from tests.encoder_training.test_adam import DIM, ROWS, Rate, constant, draw, falling


def test_two_steps_by_hand() -> None:
    table = RowAdagrad(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), lambda step: [0.1, 0.01][step])
    table.step(np.array([1]), torch.tensor([[2.0, -0.5]]))
    # The first step is lr * g / |g|: 3 - 0.1, 4 + 0.1.
    torch.testing.assert_close(table.read(), torch.tensor([[1.0, 2.0], [2.9, 4.1]]))
    table.step(np.array([0, 1]), torch.tensor([[0.0, 3.0], [1.0, 0.0]]))
    # Without a gradient nothing moves; 2.9 - 0.01 * 1 / sqrt(2^2 + 1^2).
    expected = [[1.0, 2.0 - 0.01], [2.9 - 0.01 / math.sqrt(5), 4.1]]
    torch.testing.assert_close(table.read(), torch.tensor(expected))


@pytest.mark.parametrize("scale", [1e-3, 1e-8])
@pytest.mark.parametrize("schedule", [constant(200), falling(200)])
def test_every_step_is_that_of_dense_adagrad(scale: float, schedule: Rate) -> None:
    rng = np.random.default_rng(7)
    start = torch.from_numpy(rng.standard_normal((ROWS, DIM)).astype(np.float32))
    ours = RowAdagrad(start.clone(), schedule)
    table = torch.nn.Parameter(start.clone())
    theirs = torch.optim.Adagrad([table])
    for step in range(200):
        rows, gradient = draw(rng, scale)
        table.grad = torch.zeros_like(table)
        table.grad[rows] = gradient
        theirs.param_groups[0]["lr"] = schedule(step)
        theirs.step()
        if step % 3:
            ours.step(rows, gradient)
        else:
            ours.dense_step(table.grad)
        torch.testing.assert_close(ours.read(), table.detach(), rtol=1e-6, atol=1e-7)


def test_going_on_from_a_state_is_exact_to_the_bit() -> None:
    rng = np.random.default_rng(3)
    first = RowAdagrad(torch.ones(ROWS, DIM), falling(50))
    steps = [draw(rng, 1e-3) for _ in range(50)]
    for step in steps[:20]:
        first.step(*step)
    second = RowAdagrad(torch.zeros(ROWS, DIM), falling(50))
    second.load_state({name: part.clone() for name, part in first.state().items()})
    for step in steps[20:]:
        first.step(*step)
        second.step(*step)
    assert torch.equal(first.read(), second.read())
    assert second.count == 50

"""Rows without a finite score or reward: by hand."""

from math import inf as INF
from math import nan as NAN

import torch

from simile_plugin.risk import nonfinite


def test_finite_rows_by_hand():
    # two sentences, a reference and two candidates each, two tokens
    lprobs = torch.tensor(
        [
            [[-1.0, -1.0], [-1.0, NAN], [-2.0, -1.0]],
            [[-INF, -1.0], [-1.0, -1.0], [-1.0, -2.0]],
        ],
        requires_grad=True,
    )
    means = torch.tensor([[-3.0, -3.0], [-3.0, -3.0]])
    reward = torch.tensor([[NAN, 0.5, 0.25], [0.0, INF, 0.75]])
    members = torch.tensor([[False, True, True], [False, True, True]])
    rows = nonfinite.finite_rows(lprobs, means, reward, members)
    assert rows.members.tolist() == [[False, False, True], [False, False, True]]
    assert rows.references.tolist() == [True, False]
    assert rows.dropped.tolist() == [1, 1 + 1]  # a score; a reward and a reference
    assert rows.reward.tolist() == [[0.0, 0.5, 0.25], [0.0, 0.0, 0.75]]
    assert rows.mean_lprobs.tolist() == [[-3.0, -3.0], [0.0, 0.0]]
    rows.token_lprobs.sum().backward()
    assert lprobs.grad.tolist() == [[[1, 1], [0, 0], [1, 1]], [[0, 0], [1, 1], [1, 1]]]

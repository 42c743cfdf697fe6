"""The best continuations against plain top-k."""

import pytest
import torch

from simile_plugin.search.continuations import block_topk


@pytest.mark.parametrize("width", [10, 700, 64 * 40, 64 * 40 + 17])
@pytest.mark.parametrize("k", [1, 6])
def test_block_topk_is_topk(width, k):
    values = torch.randn(5, width, generator=torch.Generator().manual_seed(width))
    values[0, -1] = 99.0
    values[1] = -torch.inf
    values[1, 3 : 3 + k] = torch.arange(float(k))
    best, index = block_topk(values, k)
    assert torch.equal(best, values.topk(k).values)
    assert torch.equal(values.gather(1, index), best)

"""Where Triton's kernels run, and what is said where they do not."""

import logging

import pytest
import torch

from simile_plugin.risk import logit_kernels
from simile_plugin.risk.logit_kernels import triton_works


def test_a_gpu_without_triton_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logit_kernels, "triton", None)
    triton_works.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert not triton_works(torch.device("cuda"), torch.float32)
        assert not triton_works(torch.device("cpu"), torch.float32)
        assert not triton_works(torch.device("cuda"), torch.float64)
    triton_works.cache_clear()
    assert caplog.messages == [
        "no Triton, so that searches and scoring are slower: it is not installed"
    ]

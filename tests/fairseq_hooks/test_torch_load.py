"""fairseq's checkpoints on current torch."""

import argparse

import numpy as np
import pytest
import torch

from simile_plugin import fairseq_hooks


@pytest.fixture(autouse=True)
def _allowed():
    fairseq_hooks.allow_fairseq_checkpoints()


def test_checkpoints_load(tmp_path):
    state = {
        "args": argparse.Namespace(arch="transformer", lr=[0.1]),
        "model": {"weight": torch.ones(2)},
        "extra_state": {"metrics": np.arange(4), "best": np.float64(1.5)},
    }
    path = tmp_path / "checkpoint.pt"
    torch.save(state, path)
    found = torch.load(path)
    assert found["args"].arch == "transformer"
    assert found["extra_state"]["metrics"].tolist() == [0, 1, 2, 3]
    assert found["extra_state"]["best"] == 1.5
    torch.save(state, path, _use_new_zipfile_serialization=False)  # as torch < 1.6 wrote it
    assert torch.load(path)["args"].lr == [0.1]

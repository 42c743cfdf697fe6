"""Everything that a GPU would do runs on a device that is not the CPU, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import backend_registration

CASES = Path(__file__).parent / "other_device" / "cases.py"
DEVICES = [
    pytest.param(
        "elsewhere",
        marks=pytest.mark.skipif(
            not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
            reason="this torch lets nobody make a device in Python",
        ),
    ),
    *(["cuda"] if torch.cuda.is_available() else []),
]


@pytest.mark.parametrize("device", DEVICES)
def test_other_device(device):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    environment = {**os.environ, "SIMILE_TEST_DEVICE": device}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=CASES.parents[2], env=environment
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]

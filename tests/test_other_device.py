"""Everything that a GPU would do runs on a device that is not the CPU (in a process of its own)."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

CASES = Path(__file__).parent / "other_device" / "cases.py"


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch lets nobody make a device in Python",
)
def test_other_device():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CASES.parents[2])
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]

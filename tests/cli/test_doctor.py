"""`simile doctor`: every failure is simulated, and must be one line with its fix."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simile_plugin.cli import doctor
from simile_plugin.cli.doctor import Check

ROOT = Path(__file__).parents[2]
Fake = Callable[..., None]

# As a torch that sees two GPUs, the second of them nearly full.
TWO_GPUS = """
import types
__version__ = "2.13.0+cu130"
version = types.SimpleNamespace(cuda="13.0")
G = 1024**3
cuda = types.SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: 2,
    get_device_name=lambda index: f"Card {index}",
    mem_get_info=lambda index: ([70 * G, 3 * G][index], 80 * G),
)
class Tensor:
    def sum(self):
        return self
    def item(self):
        return 4.0
def ones(*shape, device):
    return Tensor()
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """fake({file: content}): modules that the checks' processes find before the real ones."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fakes"))

    def write(**contents: str) -> None:
        for name, content in contents.items():
            path = tmp_path / "fakes" / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.relative_to(tmp_path / "fakes").parents[:-1]:
                (tmp_path / "fakes" / folder / "__init__.py").touch()
            path.write_text(content)

    return write


def test_everything_works_here() -> None:
    command = [sys.executable, "-m", "simile_plugin", "doctor", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    report = json.loads(done.stdout)
    assert [c for c in report["checks"] if c["status"] == "FAIL"] == []
    assert (done.returncode, report["ok"], done.stderr) == (0, True, "")
    assert [c["name"] for c in report["checks"]] == ["python", *doctor.CHECKS]


def test_old_python_ends_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    checks = list(doctor.examine())
    assert [(c.name, c.status) for c in checks] == [("python", "FAIL")]
    assert "3.11 or newer is needed" in checks[0].found
    assert checks[0].fix.startswith("apt-get install python3.11 python3.11-venv python3.11-dev")


@pytest.mark.parametrize(
    ("content", "found", "fix"),
    [
        (
            "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')",
            "ModuleNotFoundError: No module named 'torch'",
            "constraints.txt torch",
        ),
        (
            "import os; os.kill(os.getpid(), 11)",
            "ended with status -11: no message",
            "--force-reinstall --no-deps torch",
        ),
        (
            "import types\n__version__ = '2.5.1+cu124'\n"
            "version = types.SimpleNamespace(cuda='12.4')",
            "2.5.1+cu124 (CUDA 12.4 build); 2.6 or newer is needed",
            "--upgrade 'torch>=2.6'",
        ),
    ],
)
def test_broken_torch(fake: Fake, content: str, found: str, fix: str) -> None:
    fake(torch=content)
    check = doctor._in_own_process("torch")
    assert (check.name, check.status, check.found) == ("torch", "FAIL", found)
    assert check.fix.endswith(fix)
    assert check.fix.startswith(sys.executable)


def test_gpus_with_their_memory(fake: Fake) -> None:
    fake(torch=TWO_GPUS)
    check = doctor._in_own_process("cuda")
    assert check.found.startswith(
        "0: Card 0, 70.0 of 80.0 GiB free; 1: Card 1, 3.0 of 80.0 GiB free"
    )
    assert (check.status, check.fix[:10]) == ("warn", "nvidia-smi")
    fake(torch=TWO_GPUS.replace("is_available=lambda: True", "is_available=lambda: False"))
    assert "finds no GPU it can use" in doctor._in_own_process("cuda").found


def test_fairseq_that_does_not_import(fake: Fake) -> None:
    # What fairseq 0.12.2 says on Python 3.11.
    fake(fairseq_cli__train="raise ValueError('mutable default <class X> is not allowed')")
    check = doctor._in_own_process("fairseq")
    assert (check.status, check.found) == (
        "FAIL",
        "ValueError: mutable default <class X> is not allowed",
    )
    assert "--no-build-isolation" in check.fix and "fairseq-fixed==0.12.3.1 && " in check.fix


@pytest.mark.parametrize(
    ("installed", "status", "found"),
    [
        (
            {},
            "none",
            "not installed; fairseq-train needs it (a wheel on Python 3.12, else a compiler)",
        ),
        (
            {"fairseq-fixed": "0.12.3.1", "fairseq": "0.12.2"},
            "FAIL",
            "fairseq 0.12.2 and fairseq-fixed==0.12.3.1 are both installed, one over the other",
        ),
    ],
)
def test_wrong_fairseq(
    installed: dict[str, str], status: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: None)
    monkeypatch.setattr(doctor, "_version", lambda name: installed.get(name, ""))
    check = doctor.check_fairseq()
    assert (check.status, check.found) == (status, found)
    assert ("uninstall fairseq &&" in check.fix) == ("fairseq" in installed)


def test_extras(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "peft" in doctor.CHECKS["hf"]().found
    fake(six="raise ImportError('broken')", compare_mt__compare_mt_main="import six")
    check = doctor._in_own_process("report")
    assert (check.status, check.found) == ("FAIL", "ImportError: broken")
    monkeypatch.setattr(doctor, "_version", lambda name: "" if name == "peft" else "1.0")
    check = doctor.CHECKS["hf"]()
    said = "peft not installed; simile finetune-hf needs the extra"
    assert (check.status, check.found) == ("none", said)
    assert check.fix.endswith(f"-e '{ROOT}[hf]'")


def test_report_and_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [Check("python", "ok", "3.11"), Check("torch", "FAIL", "gone", "pip install torch")]
    monkeypatch.setattr(doctor, "examine", lambda: iter(checks))
    assert doctor.run(argparse.Namespace(json=False)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok    python        3.11",
        "FAIL  torch         gone",
        "                    fix: pip install torch",
        "1 of 2 checks failed; apply the first fix and run this again",
    ]
    assert doctor.run(argparse.Namespace(json=True)) == 1
    assert json.loads(capsys.readouterr().out)["checks"][1]["fix"] == "pip install torch"
    checks.pop()
    assert doctor.run(argparse.Namespace(json=False)) == 0

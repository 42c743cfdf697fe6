"""`simile doctor`: is everything here, does it work, and if not, what to do."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from simile_plugin import __version__

HELP = "check the installation (Python, torch, GPU, fairseq, ...), and name the fixes"

REPOSITORY = Path(__file__).parents[2]
PYTHON = shlex.quote(sys.executable)
FAIRSEQ = "fairseq-fixed==0.12.3.1"
MINIMUM_PYTHON = (3, 11)
MINIMUM_TORCH = "2.6"
PROBE_SECONDS = 600
GIB = 1024**3
# Distribution -> the module of it that is used.
PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy.stats",
    "sentencepiece": "sentencepiece",
    "sacrebleu": "sacrebleu",
    "safetensors": "safetensors.torch",
}
HF = {"transformers": "simile_plugin.hugging_face", "accelerate": "accelerate", "peft": "peft"}
# compare-mt needs six and does not say so.
REPORT = {"matplotlib": "matplotlib", "compare-mt": "compare_mt.compare_mt_main"}


@dataclasses.dataclass(frozen=True)
class Check:
    """One line: status is "ok", "warn", "none" (what is not needed by all) or "FAIL"."""

    name: str
    status: str
    found: str
    fix: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile doctor`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run all checks and print them in order; 1 if one of them failed, else 0."""
    checks = []
    for check in examine():
        checks.append(check)
        if not args.json:
            print(f"{check.status:<5} {check.name:<13} {check.found}", flush=True)
            if check.fix:
                print(f"      {'':<13} fix: {check.fix}", flush=True)
    failed = sum(check.status == "FAIL" for check in checks)
    if args.json:
        listed = [dataclasses.asdict(check) for check in checks]
        print(json.dumps({"version": __version__, "ok": not failed, "checks": listed}, indent=2))
    elif failed:
        print(f"{failed} of {len(checks)} checks failed; apply the first fix and run this again")
    else:
        print("what is installed works")
    return 1 if failed else 0


def examine() -> Iterator[Check]:
    """Yield all checks in order, each of its own process: a broken package breaks only its line."""
    first = check_python()
    yield first
    if first.status == "FAIL":
        return
    # Importing torch keeps a core busy and takes memory: no more of them at once than cores.
    with ThreadPoolExecutor(min(4, len(os.sched_getaffinity(0)))) as pool:
        yield from pool.map(_in_own_process, CHECKS)


def check_python() -> Check:
    """Check that Python is 3.11 or newer."""
    python = f"{sys.version.split()[0]} ({sys.executable})"
    if tuple(sys.version_info[:2]) >= MINIMUM_PYTHON:
        return Check("python", "ok", python)
    fix = "apt-get install python3.11 python3.11-venv python3.11-dev, remove .venv, install again"
    return Check("python", "FAIL", f"{python}; 3.11 or newer is needed", fix)


def check_torch() -> Check:
    """Check that torch is recent enough and computes."""
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    version = f"{torch.__version__} ({build} build)"
    major, minor = map(int, torch.__version__.split(".")[:2])
    if (major, minor) < tuple(map(int, MINIMUM_TORCH.split("."))):
        fix = _pip(f"--upgrade 'torch>={MINIMUM_TORCH}'")
        return Check("torch", "FAIL", f"{version}; {MINIMUM_TORCH} or newer is needed", fix)
    if float((torch.ones(2, 2) @ torch.ones(2, 2)).sum()) != 8.0:
        raise RuntimeError(f"{version}; wrong product of two matrices")
    return Check("torch", "ok", version)


def check_cuda() -> Check:
    """Check that torch computes on each GPU, and show its memory in GiB."""
    import torch

    if not torch.version.cuda:
        if not shutil.which("nvidia-smi"):
            return Check("cuda", "ok", "no GPU; everything runs on the CPU")
        fix = f"{_pip_again('torch')} (with pip's index set to a CUDA build)"
        return Check("cuda", "warn", "a GPU seems to be here, but torch is a CPU build", fix)
    if not torch.cuda.is_available():
        text = f"torch is a CUDA {torch.version.cuda} build, but finds no GPU it can use"
        fix = "without a GPU, none; else nvidia-smi (is the driver recent enough?)"
        return Check("cuda", "warn", text, fix)
    devices, busy = [], False
    for index in range(torch.cuda.device_count()):
        # Fails here, and not in training, when torch has no code for this GPU.
        torch.ones(2, 2, device=f"cuda:{index}").sum().item()
        free, total = torch.cuda.mem_get_info(index)
        busy = busy or free < total / 2
        name = torch.cuda.get_device_name(index)
        devices.append(f"{index}: {name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free")
    fix = "nvidia-smi (which processes hold the memory?)" if busy else ""
    return Check("cuda", "warn" if busy else "ok", "; ".join(devices), fix)


def check_package(name: str) -> Check:
    """Check that a package imports."""
    importlib.import_module(PACKAGES[name])
    return Check(name, "ok", _version(name) or "imports")


def check_row_kernel() -> Check:
    """Check the compiled part of encoder training; without it training takes longer."""
    from simile_plugin.encoder_training import load_kernel

    if load_kernel() is None:
        text = "not compiled: encoders train more slowly"
        return Check("row kernel", "none", text, _fix("row kernel"))
    return Check("row kernel", "ok", "compiled")


def check_fairseq() -> Check:
    """Check fairseq: the version, whose internals the plugin uses, and its compiled batching."""
    version, other, fix = _version("fairseq-fixed"), _version("fairseq"), _fix("fairseq")
    if not version and not other:
        text = "not installed; fairseq-train needs it (a wheel on Python 3.12, else a compiler)"
        return Check("fairseq", "none", text, fix)
    importlib.import_module("fairseq_cli.train")
    wanted = FAIRSEQ.partition("==")[2]
    if version != wanted:
        text = f"fairseq-fixed {version or 'is not installed'}; {wanted} is needed"
        return Check("fairseq", "FAIL", text, fix)
    if other:
        text = f"fairseq {other} and {FAIRSEQ} are both installed, one over the other"
        return Check("fairseq", "FAIL", text, f"{PYTHON} -m pip uninstall fairseq && {fix}")
    importlib.import_module("fairseq.data.data_utils_fast")  # compiled, against some numpy
    return Check("fairseq", "ok", f"{FAIRSEQ}, imports")


def check_extra(extra: str, needs: str, packages: dict[str, str]) -> Check:
    """Check that what an extra installs (distribution -> module) imports, if it is there."""
    versions = {name: _version(name) for name in packages}
    if missing := [name for name, version in versions.items() if not version]:
        text = f"{', '.join(missing)} not installed; {needs} needs the extra"
        return Check(extra, "none", text, _fix(extra))
    for module in packages.values():
        importlib.import_module(module)
    return Check(extra, "ok", ", ".join(f"{name} {version}" for name, version in versions.items()))


CHECKS: dict[str, Callable[[], Check]] = {
    "torch": check_torch,
    "cuda": check_cuda,
    **{name: partial(check_package, name) for name in PACKAGES},
    "row kernel": check_row_kernel,
    "fairseq": check_fairseq,
    "hf": partial(check_extra, "hf", "simile finetune-hf", HF),
    "report": partial(check_extra, "report", "simile report", REPORT),
}


def probe(name: str) -> None:
    """Run one check in this process and print it as the last line of stdout, as JSON."""
    try:
        check = CHECKS[name]()
    except BaseException as error:  # a package may even exit when it is imported
        text = " ".join(str(error).split()) or "no message"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        check = Check(name, "FAIL", f"{type(error).__name__}: {text}", _fix(name, missing))
    print("\n" + json.dumps(dataclasses.asdict(check)), flush=True)


def _in_own_process(name: str) -> Check:
    code = f"from simile_plugin.cli.doctor import probe; probe({name!r})"
    # -P: what lies in the current folder must not shadow packages. This package comes last on the
    # path, where it is found even if it is not installed.
    paths = [os.environ.get("PYTHONPATH", ""), str(REPOSITORY)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-P", "-c", code]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_SECONDS, env=environment
        )
        return Check(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        text = f"no answer within {PROBE_SECONDS} s"
    except (IndexError, TypeError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        text = f"ended with status {done.returncode}: {last}"
    return Check(name, "FAIL", text, _fix(name))


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _fix(name: str, missing: str | None = None) -> str:
    """Return the command that repairs a check; missing: the module that it did not find."""
    if missing in ("torch", "numpy", "sentencepiece"):
        return _pip(missing)
    if name in ("hf", "report"):
        return _pip_extra(name)
    if name == "row kernel":
        return "apt-get install gcc, then install simile-plugin again"
    if name == "fairseq":  # built against the torch and numpy that are here
        tools = _pip("torch numpy cython setuptools wheel")
        build = "--no-build-isolation --no-cache-dir --force-reinstall --no-deps"
        return f"{tools} && {_pip(f'{build} {FAIRSEQ}')} && {_pip_extra(name)}"
    package = "torch" if name == "cuda" else name
    return _pip(package) if missing else _pip_again(package)


def _pip(arguments: str) -> str:
    constraints = REPOSITORY / "constraints.txt"
    tested = f"-c {shlex.quote(str(constraints))} " if constraints.exists() else ""
    return f"{PYTHON} -m pip install {tested}{arguments}"


def _pip_again(package: str) -> str:
    return _pip(f"--force-reinstall --no-deps {package}")


def _pip_extra(extra: str) -> str:
    cloned = (REPOSITORY / "setup.py").exists()
    place = f"{REPOSITORY}[{extra}]" if cloned else f"simile-plugin[{extra}]"
    built = "--no-build-isolation " * (extra == "fairseq")
    return _pip(f"{built}{'-e ' * cloned}{shlex.quote(place)}")

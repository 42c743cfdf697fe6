"""`simile doctor`: is everything here that training needs, does it work, and if not, what to do."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from simile_plugin import __version__

HELP = "checks the installation (Python, compiler, torch, GPU, fairseq, ...), names the fixes"

REPOSITORY = Path(__file__).parents[2]
PYTHON = shlex.quote(sys.executable)
FAIRSEQ = "fairseq-fixed==0.12.3.1"
MINIMUM_PYTHON = (3, 11)
MINIMUM_TORCH = (2, 6)
PROBE_SECONDS = 600
GIB = 1024**3
# Less than this, and the checkpoints of a small Transformer do not fit beside the data.
LITTLE_DISK = 2 * GIB


@dataclasses.dataclass(frozen=True)
class Check:
    """One line of the report: status is "ok", "warn" or "FAIL"; fix is a command, if any helps."""

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
        print("everything that training needs is here")
    return 1 if failed else 0


def examine() -> Iterator[Check]:
    """All checks in order, each in a process of its own: a broken package breaks only its line."""
    first = check_python()
    yield first
    if first.status == "FAIL":
        return
    # Importing torch keeps a core busy and takes memory: no more of them at once than cores.
    with ThreadPoolExecutor(min(4, len(os.sched_getaffinity(0)))) as pool:
        yield from pool.map(_in_own_process, CHECKS)


def check_python() -> Check:
    """Python >= 3.11."""
    found = f"{sys.version.split()[0]} ({sys.executable})"
    if tuple(sys.version_info[:2]) >= MINIMUM_PYTHON:
        return Check("python", "ok", found)
    fix = "apt-get install python3.11 python3.11-venv python3.11-dev, remove .venv, install again"
    return Check("python", "FAIL", f"{found}; 3.11 or newer is needed", fix)


def check_compiler() -> Check:
    """C++ compiler and Python's C headers: needed to build fairseq, not after that."""
    compiler = shlex.split(os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++")
    # A fairseq that is there needs no compiler any more.
    status = "warn" if importlib.util.find_spec("fairseq") else "FAIL"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    source = "#include <vector>\n"
    try:
        command = [*compiler, "-x", "c++", "-fsyntax-only", "-"]
        tried = subprocess.run(command, input=source, capture_output=True, text=True)
        version = subprocess.run([*compiler, "--version"], capture_output=True, text=True).stdout
        error = "" if tried.returncode == 0 else (tried.stderr.strip() or "does not compile")
    except OSError as problem:
        error = problem.strerror or str(problem)
    if error:
        line = error.splitlines()[-1]
        found = f"{compiler[0]}: {line} (fairseq is built from source)"
        return Check("compiler", status, found, "apt-get install g++ (or set CC and CXX)")
    if not header.exists():
        fix = f"apt-get install python{sysconfig.get_python_version()}-dev"
        return Check("compiler", status, f"{header} is missing (fairseq is built with it)", fix)
    return Check("compiler", "ok", (version.splitlines() or [compiler[0]])[0])


def check_torch() -> Check:
    """torch is recent enough and computes."""
    torch: Any = importlib.import_module("torch")
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    found = f"{torch.__version__} ({build} build)"
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < MINIMUM_TORCH:
        wanted = ".".join(map(str, MINIMUM_TORCH))
        fix = _pip(f"--upgrade 'torch>={wanted}'")
        return Check("torch", "FAIL", f"{found}; {wanted} or newer is needed", fix)
    if float((torch.ones(2, 2) @ torch.ones(2, 2)).sum()) != 8.0:
        raise RuntimeError(f"{found}; wrong product of two matrices")
    return Check("torch", "ok", found)


def check_cuda() -> Check:
    """GPUs that torch can compute on, with their memory in GiB."""
    torch: Any = importlib.import_module("torch")
    if not torch.version.cuda:
        if shutil.which("nvidia-smi"):
            fix = _pip_again("torch") + " (with pip's index set to a CUDA build)"
            return Check("cuda", "warn", "a GPU seems to be here, but torch is a CPU build", fix)
        return Check("cuda", "ok", "no GPU; everything runs on the CPU")
    if not torch.cuda.is_available():
        found = f"torch is a CUDA {torch.version.cuda} build, but finds no GPU it can use"
        fix = "nvidia-smi (is there a GPU, is its driver recent enough?); without a GPU all is well"
        return Check("cuda", "warn", found, fix)
    devices, busy = [], False
    for index in range(torch.cuda.device_count()):
        # Fails here, and not in training, when torch has no code for this GPU.
        torch.ones(2, 2, device=f"cuda:{index}").sum().item()
        free, total = torch.cuda.mem_get_info(index)
        busy = busy or free < total / 2
        name = torch.cuda.get_device_name(index)
        devices.append(f"{index}: {name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free")
    found = (
        "; ".join(devices) + " (free: left now to a new process; an update takes several times "
        "4 bytes x sentences x candidates x target tokens x vocabulary: if it does not fit, "
        "halve --batch-size or --max-tokens and double --update-freq)"
    )
    if busy:
        return Check("cuda", "warn", found, "nvidia-smi (which processes hold the memory?)")
    return Check("cuda", "ok", found)


def check_fairseq() -> Check:
    """fairseq imports as a whole, and is the version whose internals the plugin uses."""
    importlib.import_module("fairseq_cli.train")
    version = _version("fairseq-fixed")
    wanted = FAIRSEQ.split("==")[1]
    if version != wanted:
        found = f"fairseq-fixed {version or 'is not installed'}; {wanted} is needed"
        return Check("fairseq", "FAIL", found, _pip_fairseq())
    if other := _version("fairseq"):
        found = f"fairseq {other} and {FAIRSEQ} are both installed, one over the other"
        fix = f"{PYTHON} -m pip uninstall fairseq && {_pip_fairseq()}"
        return Check("fairseq", "FAIL", found, fix)
    return Check("fairseq", "ok", f"{FAIRSEQ}, imports")


def check_extension() -> Check:
    """fairseq's compiled batching code fits this numpy."""
    numpy: Any = importlib.import_module("numpy")
    fast: Any = importlib.import_module("fairseq.data.data_utils_fast")
    sizes = numpy.array([3, 1, 2], dtype=numpy.int64)
    batches = fast.batch_by_size_vec(numpy.arange(3), sizes, 0, 2, 1)
    if [batch.tolist() for batch in batches] != [[0, 1], [2]]:
        return Check("extension", "FAIL", f"wrong batches: {batches}", _pip_fairseq())
    return Check("extension", "ok", f"{Path(fast.__file__).name} loads and batches")


def check_checkpoints() -> Check:
    """A checkpoint as fairseq writes it, with an argparse.Namespace, can be read back."""
    torch: Any = importlib.import_module("torch")
    hooks: Any = importlib.import_module("simile_plugin.fairseq_hooks")
    hooks.allow_fairseq_checkpoints()
    utils: Any = importlib.import_module("fairseq.checkpoint_utils")
    state = {
        "args": argparse.Namespace(arch="transformer", task="translation", lr=[0.5]),
        "model": {"weight": torch.tensor([1.0, -2.0])},
        "optimizer_history": [{"optimizer_name": "Adam", "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save(state, path)
        loaded = utils.load_checkpoint_to_cpu(path)
    if loaded["args"].arch != "transformer" or loaded["model"]["weight"].tolist() != [1.0, -2.0]:
        raise RuntimeError("what was read differs from what was written")
    return Check("checkpoints", "ok", "fairseq's format is written and read")


def check_row_kernel() -> Check:
    """The compiled part of encoder training; without it training takes longer, and is as exact."""
    kernel = importlib.import_module("simile_plugin.encoder_training.row_kernel")
    if kernel.load_kernel() is None:
        fix = "apt-get install gcc, then install simile-plugin again"
        return Check("row kernel", "warn", "not compiled: encoders train more slowly", fix)
    return Check("row kernel", "ok", "compiled")


def check_threads() -> Check:
    """OMP_NUM_THREADS, as against the cores this process may use."""
    cores = len(os.sched_getaffinity(0))
    wanted = os.environ.get("OMP_NUM_THREADS")
    if wanted is None:
        return Check("threads", "ok", f"OMP_NUM_THREADS is not set; torch uses all {cores} cores")
    found = f"OMP_NUM_THREADS={wanted}, {cores} cores"
    if not wanted.isdecimal() or not 1 <= int(wanted) <= cores:
        fix = f"export OMP_NUM_THREADS={cores}"
        return Check("threads", "warn", f"{found}; expected a number from 1 to {cores}", fix)
    return Check("threads", "ok", found)


def check_disk() -> Check:
    """Free disk space in this folder, in GiB."""
    free = shutil.disk_usage(".").free
    found = f"{free / GIB:.1f} GiB free here (a checkpoint takes 12 bytes a parameter, with Adam's)"
    if free < LITTLE_DISK:
        fix = "fairseq-train --save-dir on another disk, with --no-epoch-checkpoints"
        return Check("disk", "warn", found, fix)
    return Check("disk", "ok", found)


def check_package(name: str, module: str = "") -> Check:
    """A package imports."""
    importlib.import_module(module or name)
    return Check(name, "ok", _version(name) or "imports")


CHECKS: dict[str, Callable[[], Check]] = {
    "compiler": check_compiler,
    "torch": check_torch,
    "cuda": check_cuda,
    "numpy": partial(check_package, "numpy"),
    "fairseq": check_fairseq,
    "extension": check_extension,
    "checkpoints": check_checkpoints,
    "sentencepiece": partial(check_package, "sentencepiece"),
    "sacrebleu": partial(check_package, "sacrebleu"),
    "safetensors": partial(check_package, "safetensors", "safetensors.torch"),
    # It needs six and does not say so.
    "compare-mt": partial(check_package, "compare-mt", "compare_mt.compare_mt_main"),
    "row kernel": check_row_kernel,
    "threads": check_threads,
    "disk": check_disk,
}

# The distribution to repair where it is not called like the check.
OWNERS = {"cuda": "torch", "fairseq": FAIRSEQ, "extension": FAIRSEQ, "checkpoints": FAIRSEQ}


def probe(name: str) -> None:
    """Run one check in this process and print it as the last line of stdout, as JSON."""
    try:
        check = CHECKS[name]()
    except BaseException as error:  # a package may even exit when it is imported
        text = " ".join(str(error).split()) or "no message"
        check = Check(name, "FAIL", f"{type(error).__name__}: {text}", _fix(name, error))
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
        found = f"no answer within {PROBE_SECONDS} s"
    except (IndexError, TypeError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        found = f"ended with status {done.returncode}: {last}"
    return Check(name, "FAIL", found, _fix(name))


def _fix(name: str, error: BaseException | None = None) -> str:
    """The command that repairs what made check `name` fail, with `error` if it is known."""
    owner = OWNERS.get(name, name)
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return _pip_fairseq() if owner == FAIRSEQ else _pip_again(owner)
    missing = error.name.split(".")[0]
    if missing in ("fairseq", "fairseq_cli"):
        return _pip_fairseq()
    if missing in ("torch", "numpy", "sentencepiece", "six"):
        return _pip(missing)
    # An import name may not be a distribution's; pip knows what the owner needs.
    return _pip(f"--no-build-isolation {owner}")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _pip(arguments: str) -> str:
    constraints = REPOSITORY / "constraints.txt"
    tested = f"-c {shlex.quote(str(constraints))} " if constraints.exists() else ""
    return f"{PYTHON} -m pip install {tested}{arguments}"


def _pip_again(package: str) -> str:
    return _pip(f"--force-reinstall --no-deps {package}")


def _pip_fairseq() -> str:
    """Build fairseq against the torch and numpy that are here, in two steps."""
    build = _pip(f"--no-build-isolation --no-cache-dir --force-reinstall --no-deps {FAIRSEQ}")
    return f"{_pip('torch numpy cython setuptools wheel')} && {build}"

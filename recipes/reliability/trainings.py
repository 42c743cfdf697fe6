"""fairseq-train many times over, a second each: one process imports fairseq and forks the others.

Each run can be struck by a fault: SIGKILL or SIGSTOP, after some seconds or at the n-th call of a
function. Used by tests and by recipes/reliability/kills.sh.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODEL = (
    "--arch transformer --share-all-embeddings --dropout 0.1 --encoder-layers 1 "
    "--encoder-embed-dim 32 --encoder-ffn-embed-dim 32 --encoder-attention-heads 2 "
    "--decoder-layers 1 --decoder-embed-dim 32 --decoder-ffn-embed-dim 32 "
    "--decoder-attention-heads 2"
)
COMMON = (
    f"bin -s xx -t en --user-dir {ROOT}/user_dir --optimizer adam --clip-norm 1 --num-workers 0 "
    "--log-format json --log-interval 1 --required-batch-size-multiple 1 --seed 7 "
    "--max-source-positions 40 --max-target-positions 40"
)
RISK = (
    f"{COMMON} {MODEL} --criterion simile_risk --simile-encoder encoder --lr 1e-3 "
    "--finetune-from-model mle/checkpoint_last.pt --risk-candidates 3 --batch-size 6 "
    "--batch-size-valid 10 --validate-interval 9999 --save-interval 9999 "
)


@dataclass(frozen=True)
class Fault:
    """What strikes a run.

    Attributes:
        signal: SIGKILL or SIGSTOP.
        seconds: after the start, where no function is named.
        function: "module:name" or "module:Class.name"; the run strikes itself at its call.
        call: which call, from 1.
        after: strike after the call instead of before it.
    """

    signal: int = signal.SIGKILL
    seconds: float = 0.0
    function: str = ""
    call: int = 1
    after: bool = False


@dataclass(frozen=True)
class Job:
    """One run of fairseq-train.

    Attributes:
        flags: of fairseq-train.
        log: file to which both its streams are appended.
        fault: or None.
        environment: added to ours.
        setup: Python code that the run executes before it starts.
    """

    flags: str
    log: str
    fault: Fault | None = None
    environment: dict[str, str] = field(default_factory=dict)
    setup: str = ""


class Trainings:
    """Runs fairseq-train in a folder; a context manager.

    Args:
        folder: the current folder of the runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Trainings:
        path = os.pathsep.join([str(ROOT), str(self.folder), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.server = subprocess.Popen(
            [sys.executable, __file__],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.server.kill()
        self.server.communicate()

    def run(self, *jobs: Job, timeout: float = 600) -> list[int]:
        """Run the jobs side by side; exit statuses, -signal where one ended a run.

        A run that is stopped, or that outlives `timeout` seconds, is killed in the end.
        """
        assert self.server.stdin is not None and self.server.stdout is not None
        request = {"jobs": [asdict(job) for job in jobs], "timeout": timeout}
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return list(json.loads(self.server.stdout.readline()))


def prepare(trainings: Trainings, encoder: Path) -> None:
    """Make `bin` (a toy bitext), `others` (its sources alone), `encoder` (a link) and `mle`."""
    from recipes.quickstart import toy

    folder = trainings.folder
    sizes = "--train 30 --valid 6 --test 1 --pairs 1 --words 3 --seed 3"
    assert toy.main(["generate", "--out", str(folder / "toy"), *sizes.split()]) == 0
    # One sentence is longer than the model's positions: training leaves it out.
    for language, word in (("xx", "la"), ("en", "the")):
        for split in ("train", "test"):
            path = folder / "toy" / f"{split}.{language}"
            path.write_text(path.read_text() + " ".join([word] * 60) + "\n")
    (folder / "encoder").symlink_to(encoder)
    flags = (
        f"{COMMON} {MODEL} --criterion label_smoothed_cross_entropy --lr 1e-2 --batch-size 10 "
        "--max-update 3 --save-dir mle --disable-validation --no-epoch-checkpoints"
    )
    preprocess = (
        "from fairseq_cli import preprocess\n"
        "sys.argv[1:] = '-s xx -t en --trainpref toy/train --validpref toy/valid "
        "--testpref toy/test --destdir bin --joined-dictionary --workers 1'.split()\n"
        "preprocess.cli_main()\n"
        "sys.argv[1:] = '-s xx -t en --only-source --srcdict bin/dict.xx.txt --trainpref toy/train "
        "--destdir others --workers 1'.split()\n"
        "preprocess.cli_main()\n"
        f"sys.argv[1:] = {flags.split()!r}\n"
    )
    status = trainings.run(Job(flags, "mle.log", setup=preprocess))
    assert status == [0], (folder / "mle.log").read_text()[-3000:]


def serve() -> None:
    """Read requests from standard input, one JSON object a line, and answer with statuses."""
    with contextlib.redirect_stdout(sys.stderr):
        import fairseq_cli.train  # noqa: F401
        from fairseq.utils import import_user_module

        import_user_module(argparse.Namespace(user_dir=f"{ROOT}/user_dir"))
        # What every run would import again.
        for name in ("torch._dynamo", "hydra.experimental", "sacrebleu.metrics", "sympy"):
            importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_run_all(request["jobs"], request["timeout"])), flush=True)


def _run_all(jobs: Sequence[dict[str, Any]], timeout: float) -> list[int]:
    started = time.monotonic()
    running = {_fork(job): job for job in jobs}
    order, found = list(running), {}
    while running:
        elapsed = time.monotonic() - started
        for child, job in list(running.items()):
            fault = job["fault"]
            if fault and not fault["function"] and elapsed >= fault["seconds"]:
                os.kill(child, fault["signal"])
                job["fault"] = None
            if elapsed > timeout:
                os.kill(child, signal.SIGKILL)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                found[child] = os.waitstatus_to_exitcode(status)
                del running[child]
        if len(found) and all(_is_stopped(child) for child in running):
            for child in running:  # the stopped one, after all others ended
                os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    return [found[child] for child in order]


def _is_stopped(child: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    return False


def _fork(job: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(0)
        status = _train(job)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _train(job: dict[str, Any]) -> int:
    import logging

    from fairseq_cli import train

    # logging.basicConfig, when fairseq was imported, kept the stream of that time.
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stdout)
    os.environ.update(job["environment"])
    sys.argv = ["fairseq-train", *job["flags"].split()]
    try:
        exec(job["setup"], {"sys": sys})
        if job["fault"] and job["fault"]["function"]:
            arm(**job["fault"])
        train.cli_main()
    except SystemExit as stop:
        return int(stop.code or 0) if isinstance(stop.code, int | None) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def arm(function: str, call: int, after: bool, signal: int, **_: Any) -> None:
    """Wrap a function so that its n-th call strikes this process."""
    module, path = function.split(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def struck(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != call:
            return original(*args, **kwargs)
        if after:
            original(*args, **kwargs)
        sys.stdout.flush()
        os.kill(os.getpid(), signal)
        return None if after else original(*args, **kwargs)  # after SIGCONT

    setattr(owner, name, struck)


if __name__ == "__main__":
    serve()

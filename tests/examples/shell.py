"""A shell whose simile, python and fairseq-* are forks of one process that has imported all.

A page's command then takes a second rather than the eight of the imports.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "simile": "",
    "python": "",
    "fairseq-train": "fairseq_cli.train",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-preprocess": "fairseq_cli.preprocess",
}
STUB = """\
#!{python} -SE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({name!r})
request = json.dumps([{program!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]) + "\\n"
socket.send_fds(server, [b" "], [0, 1, 2])
server.sendall(request.encode())
sys.exit(int(server.recv(16) or 1))
"""


class Shell:
    """Runs text of a shell in a folder.

    Args:
        path: folder of the programs, which goes before PATH.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the text in a folder; both streams are in stdout."""
        environment = os.environ | {
            "PATH": f"{self.path}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(ROOT),  # of the processes that simile starts by itself
        }
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@contextlib.contextmanager
def started_shell(path: Path) -> Iterator[Shell]:
    """Start the process behind a shell, whose programs go into a new folder; end it at last."""
    name = f"\0simile-pages-{os.getpid()}"
    path.mkdir(parents=True)
    for program in PROGRAMS:
        stub = path / program
        stub.write_text(STUB.format(python=sys.executable, name=name, program=program))
        stub.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, name[1:]],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )
    try:
        assert server.stdout is not None
        while (line := server.stdout.readline()) != b"ready\n":  # fairseq says what it lacks
            assert line, "the process behind the shell has ended"
        yield Shell(path)
    finally:
        server.kill()
        server.communicate()


def serve(name: str) -> None:
    """Import what the programs import, then fork for each request; the fork answers by itself."""
    import simile_plugin.hugging_face  # noqa: F401 (before transformers)

    for module in (*filter(None, PROGRAMS.values()), "transformers", "simile_plugin.cli"):
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + name)
    listener.listen()
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if not os.fork():
            _answer(client)
        client.close()


def _answer(client: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, *_ = socket.recv_fds(client, 1, 3)
    program, arguments, folder, environment = json.loads(client.makefile().readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # What simile finetune and simile doctor start is forked, too.
    sys.executable = shutil.which("python") or sys.executable
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    status = 1
    try:
        status = _run(program, arguments)
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        client.sendall(str(status).encode())
        os._exit(status)


def _run(program: str, arguments: list[str]) -> int:
    sys.argv = [program, *arguments]
    if program == "simile":
        from simile_plugin.cli import main

        return int(main(arguments))
    if program != "python":
        importlib.import_module(PROGRAMS[program]).cli_main()
        return 0
    first, *sys.argv = [word for word in arguments if word != "-P"]
    if first == "-c":
        exec(sys.argv[0], {})
    elif first == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv.insert(0, first)
        sys.path.insert(0, os.path.dirname(os.path.realpath(first)))
        runpy.run_path(first, run_name="__main__")
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])

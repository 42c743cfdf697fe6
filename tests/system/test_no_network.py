"""Nothing reaches for the network, at import or at work."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMANDS = """
import sys
from simile_plugin.cli import main
enc, ref, hyp = sys.argv[1:4]
for command in [
    ["score", "-r", ref, "-i", hyp, "--encoder", enc, "-sl"],
    ["report", "--ref", ref, "--sys", f"A={hyp}", "--sys", f"B={ref}", "--encoder", enc,
     "--resamples", "40", "--html", "page.html"],
    ["human-eval", "sheet", "--ref", ref, "--sys", f"A={hyp}", "--sys", f"B={ref}",
     "--sentences", "3", "--min-tokens", "1", "--out", "sheets", "--key", "key.json"],
    ["filter-pairs", "pairs.tsv", "--output", "kept.tsv", "--max-overlap", "1"],
    ["binarize-pairs", "kept.tsv", "--output", "pairs.bin", "--vocab-size", "40"],
    ["train-encoder", "pairs.bin", "--output", "new", "--steps", "2", "--batch-size", "2",
     "--dim", "16", "--init-std", "1"],
    ["convert-encoder", "--from", enc, "--to", "model2vec", "--output", "m2v"],
]:
    assert main(command) == 0, command
import user_dir
"""


def blocked(log: Path) -> dict[str, str]:
    """Environment in which Python reaches no other computer and `log` says who tried."""
    path = os.pathsep.join([str(HERE / "no_network"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "NO_NETWORK_LOG": str(log), "OMP_NUM_THREADS": "1"}


def python(code: str, log: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=log.parent, env=blocked(log), capture_output=True, text=True)


def test_the_block_works(tmp_path: Path) -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    done = python(code, tmp_path / "log")
    assert "OSError: no network here: socket.getaddrinfo" in done.stderr
    assert "socket.getaddrinfo" in (tmp_path / "log").read_text()


def test_commands_and_imports(tmp_path: Path, encoder_folder: Path) -> None:
    lines = [f"{'abcdefgh'[i] * 3} {'stuvwxyz'[i] * 2} {'jklmnopq'[i] * 4} waits" for i in range(8)]
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "hyp").write_text("".join(f"{line} again\n" for line in lines))
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\t{line[4:]} now\n" for line in lines))
    root = HERE.parents[1]
    code = f"import sys; sys.path.insert(0, {str(root)!r})\n{COMMANDS}"
    done = python(code, tmp_path / "log", encoder_folder, "ref", "hyp")
    assert done.returncode == 0, done.stderr[-3000:]
    assert not (tmp_path / "log").exists(), (tmp_path / "log").read_text()

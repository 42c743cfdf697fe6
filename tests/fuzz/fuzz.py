"""Coverage-guided fuzzing of the readers: python tests/fuzz/fuzz.py TARGET [libFuzzer's flags].

Needs the package atheris (extra "fuzz"). For example

    python tests/fuzz/fuzz.py nbest -runs=200000
    python tests/fuzz/fuzz.py --all 300      # seconds for each target; prints executions

Stops at the first input that a target neither takes nor refuses in one line; put its file into
tests/fuzz/crashes as TARGET.WHAT, where test_fuzz.py keeps it.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]


def fuzz(name: str, flags: list[str]) -> None:
    """Run libFuzzer on a target; does not return."""
    import atheris

    with atheris.instrument_imports(include=["simile_plugin"]):
        targets = importlib.import_module("targets")

    corpus = Path(tempfile.mkdtemp(prefix=f"corpus.{name}."))
    for number, seed in enumerate(targets.SEEDS.get(name, [])):
        (corpus / str(number)).write_bytes(seed)
    atheris.Setup([sys.argv[0], *flags, str(corpus)], lambda data: targets.one_input(name, data))
    atheris.Fuzz()


def fuzz_all(seconds: int) -> int:
    """Every target for so long, each in its process; the number that crashed."""
    crashed = 0
    for name in importlib.import_module("targets").TARGETS:
        limits = [f"-max_total_time={seconds}", "-max_len=512", "-timeout=60"]
        command = [sys.executable, __file__, name, *limits]
        done = subprocess.run(command, capture_output=True, text=True)
        runs = re.search(r"Done (\d+) runs", done.stderr)
        edges = re.findall(r" cov: (\d+)", done.stderr)
        crashed += done.returncode != 0
        state = "ok" if done.returncode == 0 else f"CRASH\n{done.stderr[-3000:]}"
        print(name, runs[1] if runs else "?", *edges[-1:], state, sep="\t", flush=True)
    return crashed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--all"]:
        raise SystemExit(1 if fuzz_all(int(sys.argv[2])) else 0)
    fuzz(sys.argv[1], sys.argv[2:])

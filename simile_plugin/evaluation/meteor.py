"""METEOR 1.5, the original (Denkowski & Lavie 2014): a Java program that the PyPI package
pycocoevalcap carries, with its paraphrases of English.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np

from simile_plugin.files import InputError
from simile_plugin.significance import Floats

METEOR_SIGNATURE = "meteor-1.5.jar -l en -norm"
STATISTICS = 23
SECONDS = 600  # for an answer; the first waits for the tables, and two long lines take a minute
# METEOR's parameters for English: table 1 of the paper, task "rank"
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # of exact, stem, synonym and paraphrase matches


def missing_meteor() -> str:
    """Return a line on what METEOR lacks on this machine; "" where it can run."""
    lacking = []
    if _jar() is None:
        lacking.append("pycocoevalcap, which carries it (pip install --no-deps pycocoevalcap)")
    if shutil.which("java") is None:
        lacking.append("a Java runtime: no java on the PATH (apt-get install default-jre-headless)")
    return f"METEOR 1.5 is left out; it needs {' and '.join(lacking)}" if lacking else ""


def _jar() -> Path | None:
    spec = find_spec("pycocoevalcap")
    folders = (spec.submodule_search_locations if spec else None) or []
    paths = [Path(folder, "meteor", "meteor-1.5.jar") for folder in folders]
    return next((path for path in paths if path.is_file()), None)


class Meteor:
    """METEOR in one Java process, which reads its tables (15 s of CPU time) while others work.

    Close it, or use it in a ``with`` statement; it ends with Python at the latest.

    Raises:
        InputError: where `missing_meteor` says why; when the process ends or gives no answer.
    """

    def __init__(self) -> None:
        jar, java = _jar(), shutil.which("java")
        if jar is None or java is None:
            raise InputError(missing_meteor())
        # Letters are lowered by Java's language: in Turkish, I becomes a dotless i.
        command = [java, "-Xmx2G", "-XX:+UseSerialGC", "-Duser.language=en", "-jar", str(jar)]
        self._errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*command, "-", "-", "-stdio", "-l", "en", "-norm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.close = weakref.finalize(self, _stop, self.process, self._errors)

    def __enter__(self) -> Meteor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def scores(self, hyps: Sequence[str], refs: Sequence[str]) -> Floats:
        """METEOR of n hypotheses against a reference each: (n,) in [0, 1], 0 for an empty side."""
        return meteor_scores(self.statistics(hyps, refs))

    def statistics(self, hyps: Sequence[str], refs: Sequence[str]) -> Floats:
        """Count what `meteor_scores` needs of each pair; a corpus has the sum of its sentences'.

        Returns:
            (n, 23): words of both sides, function words of both sides, matched words by kind of
            match (content of both sides, function of both), chunks, matched words of both sides.
        """
        statistics = np.zeros((len(hyps), STATISTICS))
        try:
            for row, (hyp, ref) in enumerate(zip(hyps, refs, strict=True)):
                statistics[row] = self._pair(_one_line(hyp), _one_line(ref))
        except BaseException:
            self.close()  # the next call would read an answer that is left
            raise
        # One chunk of all words of both sides does not count, in a corpus neither.
        matched = statistics[:, 4:20].reshape(-1, 8, 2).sum(1)
        whole = (matched == statistics[:, :2]).all(1) & (statistics[:, 20] == 1)
        statistics[whole, 20] = 0
        return statistics

    def _pair(self, hyp: str, ref: str) -> list[float]:
        """Ask about a pair and read the answer at once, so that the pipes never fill up."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the missing answer says why
            stdin.write(f"SCORE ||| {ref} ||| {hyp} \n".encode("utf-8", "replace"))
            stdin.flush()
        if not select.select([stdout], [], [], SECONDS)[0]:
            raise InputError(
                f"METEOR: no answer in {SECONDS} s for a hypothesis of {len(hyp)} characters and a "
                f"reference of {len(ref)}; leave lines of such length out"
            )
        answer = stdout.readline().decode("utf-8", "replace")
        numbers = answer.split()
        if len(numbers) != STATISTICS:
            self._errors.seek(0)
            said = [answer, *self._errors.read().decode("utf-8", "replace").splitlines()]
            first = next((line.strip() for line in said if line.strip()), "nothing")
            raise InputError(f"METEOR: java said {first!r}, expected {STATISTICS} numbers")
        return [float(number) for number in numbers]


def _stop(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, errors):
        if stream is not None:
            with contextlib.suppress(OSError):  # what was not yet written has no reader
                stream.close()


def _one_line(text: str) -> str:
    """METEOR splits words at white space and a bar from its neighbours; ||| parts hyp from ref."""
    return " ".join(text.split()).replace("|||", "| | |")


def meteor_scores(statistics: Floats) -> Floats:
    """METEOR = P R / (alpha P + (1 - alpha) R) * (1 - gamma (chunks / matches)^beta).

    P and R are matched words over words, a match weighted by its kind, a content word by delta, a
    function word by 1 - delta (Denkowski & Lavie 2014, section 2).

    Args:
        statistics: (..., 23) of sentences, or their sums.

    Returns:
        (...) in [0, 1].
    """
    words, function = statistics[..., 0:2], statistics[..., 2:4]
    kinds = statistics[..., 4:20].reshape(*statistics.shape[:-1], 4, 2, 2)
    share = np.array([DELTA, 1 - DELTA])
    matched = np.einsum("...kcs,k,c->...s", kinds, WEIGHTS, share)
    total = DELTA * (words - function) + (1 - DELTA) * function
    precision, recall = np.moveaxis(_ratio(matched, total), -1, 0)
    mean = _ratio(precision * recall, ALPHA * precision + (1 - ALPHA) * recall)
    fragments = _ratio(statistics[..., 20], statistics[..., 21:23].mean(-1))
    return np.maximum(mean * (1 - GAMMA * fragments**BETA), 0)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

"""The texts of a report: outputs of systems, references, what stands beside them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from simile_plugin.files import InputError, read_bytes, read_lines, read_rows, split_lines

Read = Callable[[str, str], list[str]]  # path, flag -> lines; files.read_lines is one
Sentences = Sequence[Sequence[str]]
HASH_DIGITS = 12


@dataclass(frozen=True)
class System:
    """One system of a comparison.

    Attributes:
        files: one path per seed.
        outputs: one list of N sentences per seed, in the order of `files`.
    """

    name: str
    files: tuple[str, ...]
    outputs: tuple[tuple[str, ...], ...]


class Texts:
    """Files by their paths: their bytes, lines and digests."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}
        self._lines: dict[str, list[str]] = {}

    def bytes(self, path: str, flag: str) -> bytes:
        """Return the content of a file, a .gz unpacked; raises as `files.read_lines` does."""
        if path not in self._bytes:
            self._bytes[path] = read_bytes(path, flag)
        return self._bytes[path]

    def lines(self, path: str, flag: str) -> list[str]:
        """Return its lines, see `files.read_lines`."""
        if path not in self._lines:
            self._lines[path] = split_lines(self.bytes(path, flag), path, flag)
        return self._lines[path]

    def log_lines(self, path: str, flag: str) -> list[str]:
        """Lines of a log, whatever bytes a killed run left between its validations."""
        try:
            return self.lines(path, flag)
        except InputError:
            lines = self.bytes(path, flag).decode("utf-8", "replace").splitlines()
            if any("valid" in line for line in lines):
                return lines
            raise

    def digest(self, path: str) -> tuple[str, int]:
        """First digits of the SHA-256 of its content, and how many lines it has."""
        data = self.bytes(path, path)
        lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        return hashlib.sha256(data).hexdigest()[:HASH_DIGITS], lines


@lru_cache(maxsize=256)
def tokenised(tokenize: str, sentences: tuple[str, ...]) -> list[list[str]]:
    """Tokens of sentences by one of sacreBLEU's tokenisers; the same text is tokenised once."""
    from sacrebleu.metrics.bleu import BLEU

    tokenizer = BLEU(tokenize=tokenize).tokenizer
    return [tokenizer(sentence.rstrip()).split() for sentence in sentences]


def parse_named_files(flag: str, specs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse `NAME=FILE[,FILE...]` arguments: name -> files, one per seed, in the order given.

    Raises:
        InputError: for a missing name or file, a name given twice, or one with control characters.
    """
    named: dict[str, tuple[str, ...]] = {}
    for spec in specs:
        name, equals, paths = spec.partition("=")
        name, files = name.strip(), tuple(paths.split(","))
        if not equals or not name or not name.isprintable() or not all(files):
            raise InputError(
                f"{flag}: got '{spec}'; expected NAME=FILE, "
                "or NAME=FILE,FILE for several seeds of one system"
            )
        if name in named:
            raise InputError(f"{flag}: got {name} twice; give its seeds as {name}=FILE,FILE")
        if len(set(map(os.path.realpath, files))) < len(files):
            raise InputError(f"{flag}: {name} names one file twice; give each seed's own file")
        named[name] = files
    return named


def read_systems(
    flag: str,
    named: Mapping[str, tuple[str, ...]],
    refs: Sequence[str],
    ref_name: str,
    read: Read = read_lines,
) -> list[System]:
    """Read every output of every system and hold it against the number of references.

    Args:
        ref_name: flag and file of the references, for the error.
        read: reads the lines of a file.

    Raises:
        InputError: naming both files and both counts when one is not parallel to the references.
    """
    systems = []
    for name, files in named.items():
        outputs = [tuple(read_sentences(path, flag, read)) for path in files]
        for path, sentences in zip(files, outputs, strict=True):
            _check_parallel(f"{flag} {name}: {path}", sentences, refs, ref_name)
        systems.append(System(name, files, tuple(outputs)))
    return systems


def read_beside(path: str, flag: str, refs: Sequence[str], read: Read = read_lines) -> list[str]:
    """Read what stands beside the references, a line each: sources, or groups.

    Raises:
        InputError: if they are not parallel.
    """
    lines = read_sentences(path, flag, read)
    _check_parallel(f"{flag}: {path}", lines, refs, "--ref")
    return lines


def _check_parallel(
    name: str, sentences: Sequence[str], refs: Sequence[str], ref_name: str
) -> None:
    if len(sentences) != len(refs):
        raise InputError(
            f"{name} has {len(sentences)} sentences but {ref_name} has {len(refs)}; "
            "they must be parallel, one sentence a line"
        )


def read_sentences(path: str, flag: str, read: Read = read_lines) -> list[str]:
    """Read sentences, one a line.

    read: reads the lines of a file.

    Raises:
        InputError: naming file and flag if the file is empty or unreadable.
    """
    sentences = read(path, flag)
    if not sentences:
        raise InputError(f"{flag}: {path} is empty; expected one sentence a line")
    return sentences


def read_sentence_scores(
    specs: Sequence[str], systems: Sequence[System]
) -> dict[str, dict[str, list[list[float]]]]:
    """Read scores of sentences that were made elsewhere: `TITLE:NAME=FILE[,FILE]` arguments.

    A file has one line a sentence, in the order of the outputs, that begins with a number from
    -1.5 to 1.5 (0 or 1 for wrong or right, say; COMET is a little above 1 now and then); what
    follows a TAB is ignored.

    Returns:
        title -> system name -> one list of N numbers a seed.

    Raises:
        InputError: if a system or seed is left out, a file is not parallel, or a line has no such
            number.
    """
    flag = "--sentence-scores"
    expected = "expected TITLE:NAME=FILE, a file for each file of --sys NAME"
    by_name = {system.name: system for system in systems}
    scores: dict[str, dict[str, list[list[float]]]] = {}
    for key, files in parse_named_files(flag, specs).items():
        title, _, name = (part.strip() for part in key.partition(":"))
        if not title or name not in by_name or len(files) != len(by_name[name].files):
            raise InputError(f"{flag}: got '{key}={','.join(files)}'; {expected}")
        sentences = len(by_name[name].outputs[0])
        seeds = [_read_numbers(path, f"{flag} {key}", sentences) for path in files]
        scores.setdefault(title, {})[name] = seeds
    for title, scored in scores.items():
        for name in by_name:
            if name not in scored:
                raise InputError(f"{flag}: {title} has no scores of {name}; {expected}")
    return scores


def _read_numbers(path: str, flag: str, sentences: int) -> list[float]:
    rows = read_rows(path, flag, "a number a line")
    if len(rows) != sentences:
        raise InputError(
            f"{flag}: {path} has {len(rows)} lines for {sentences} sentences; "
            "they must be parallel, one number a line"
        )
    return [row.number(0, low=-1.5, high=1.5) for row in rows]

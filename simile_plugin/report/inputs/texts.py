"""Files read once and texts tokenised once, however many questions ask for them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache

from simile_plugin.files import InputError, read_bytes, split_lines

Read = Callable[[str, str], list[str]]  # path, flag -> lines; files.read_lines is one
Sentences = Sequence[Sequence[str]]
HASH_DIGITS = 12


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

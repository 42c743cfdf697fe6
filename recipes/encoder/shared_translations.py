"""Pairs of English sentences that were translated into the same sentence: pivot paraphrases.

    python shared_translations.py BITEXT.tsv... >PAIRS.tsv

Input: English TAB translation. A translation with more than MOST English sentences ("Ja.") says too
little to make paraphrases of them.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator

MOST = 6


def shared_translations(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Every pair of different English sentences with one translation, once."""
    english: dict[str, dict[str, None]] = {}
    for line in lines:
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) >= 2:
            english.setdefault(columns[1], {})[columns[0]] = None
    for sentences in english.values():
        if len(sentences) <= MOST:
            yield from itertools.combinations(sentences, 2)


def main(paths: list[str]) -> None:
    """Read the files as one, print the pairs."""

    def lines() -> Iterator[str]:
        for path in paths:
            with open(path, encoding="utf-8", newline="\n") as stream:
                yield from stream

    for pair in shared_translations(lines()):
        print("\t".join(pair))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("shared_translations.py: error: expected one or more TSV files of bitext")
    main(sys.argv[1:])

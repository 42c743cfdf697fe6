"""Pairs of English sentences that were translated into the same sentence: pivot paraphrases.

    python shared_translations.py BITEXT.tsv... >PAIRS.tsv

Input: English TAB translation, plain, .gz or .zst; lines without either are skipped. A translation
with more than MOST English sentences ("Ja.") says too little to make paraphrases of them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from functools import partial

from simile_plugin.encoder_training import BadLines, TsvInput
from simile_plugin.files import as_script

MOST = 6


def shared_translations(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Every pair of different English sentences with one translation, once."""
    english: dict[str, dict[str, None]] = {}
    for line in lines:
        columns = line.split("\t")
        if len(columns) >= 2 and columns[0].strip() and columns[1].strip():
            english.setdefault(columns[1], {})[columns[0]] = None
    for sentences in english.values():
        if len(sentences) <= MOST:
            yield from itertools.combinations(sentences, 2)


@as_script
def main(paths: list[str]) -> None:
    """Read the files as one, print the pairs; exit status 2 and one line for bad input."""
    bad = BadLines()

    def lines() -> Iterator[str]:
        for block in TsvInput(paths).blocks():
            for _, line in block.lines(partial(bad.add, block.name)):
                yield line

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for pair in shared_translations(lines()):
        print("\t".join(pair))
    bad.warn()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bitext", nargs="+", metavar="BITEXT.tsv")
    sys.exit(main(parser.parse_args().bitext))

"""Style transfer (thesis, 5.7): write what one sentence says the way another one says it.

transfer.py CHECKPOINT --data BIN --sentencepiece MODEL --side 0 --meaning FILE [--style FILE]

Line i is written from z_sem of line i of --meaning, of either language, and z_language of line i of
--style, which is of the language that is written: --side 0 is that of --source-lang, 1 that of
--target-lang. Without --style the language variable is the prior's mean: a translation.
"""

from __future__ import annotations

import argparse
import sys

from simile_plugin.bgt import Voices, read_bgt
from simile_plugin.encoder import Preprocessing, Segmenter
from simile_plugin.files import InputError, as_script, read_bytes, read_lines, read_parallel

BATCH = 64


@as_script
def main() -> None:
    """Read the flags, print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--data", required=True, metavar="BIN", help="folder it was trained on")
    parser.add_argument("--sentencepiece", required=True, metavar="MODEL", help="of its pieces")
    parser.add_argument("--side", type=int, choices=(0, 1), required=True)
    parser.add_argument("--meaning", required=True, metavar="FILE")
    parser.add_argument("--style", metavar="FILE")
    args = parser.parse_args()
    styles: list[str] | None = None
    if args.style is None:
        meanings = read_lines(args.meaning, "--meaning")
    else:
        meanings, styles = read_parallel([(args.meaning, "--meaning"), (args.style, "--style")])
    if not meanings:
        raise InputError(f"--meaning: {args.meaning} is empty, expected a sentence a line")
    proto = read_bytes(args.sentencepiece, "--sentencepiece")
    voices = Voices(read_bgt(args.checkpoint, args.data), Segmenter(proto, Preprocessing()))
    for start in range(0, len(meanings), BATCH):
        part = slice(start, start + BATCH)
        some = None if styles is None else styles[part]
        print(*voices.write(meanings[part], args.side, some), sep="\n")


if __name__ == "__main__":
    sys.exit(main())

"""Segment paraphrase pairs once, into a folder that training maps into memory.

Reads TSV files of any size in constant memory and writes piece ids, offsets and sentence hashes
as flat arrays, with the sentencepiece model and a manifest; the output does not depend on the
number of workers. Lines that give no pair are counted and reported by file:line.

A sentencepiece model is given or trained, in a pass before, on a sample of distinct sentences:
those with the smallest hashes, so that neither the order of the lines nor duplicates matter.
"""

from __future__ import annotations

import argparse
import json
import time

from simile_plugin.cli._flags import add_flags, read_flags

HELP = "segment TSV pairs once, into a folder that training maps into memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    from simile_plugin.encoder_training import BinarizeOptions

    parser.description = __doc__
    add_flags(parser, BinarizeOptions)
    parser.add_argument("--json", action="store_true", help="print the manifest at the end")


def run(args: argparse.Namespace) -> int:
    """Binarize; exit status 0. Errors are raised as InputError or OSError."""
    from simile_plugin.encoder import types_of
    from simile_plugin.encoder_training import BinarizeOptions, binarize_pairs

    started = time.perf_counter()
    manifest = binarize_pairs(read_flags(args, BinarizeOptions))
    if args.json:
        print(json.dumps(manifest))
    else:
        print(
            f"{args.output}: {manifest['pairs']} pairs, {manifest['tokens']} tokens of "
            f"{manifest['vocab_size']} {types_of(args.tokens)} as {manifest['dtype']}, "
            f"{time.perf_counter() - started:.0f} s"
        )
    return 0

"""Segment paraphrase pairs once, into a folder that training maps into memory.

Reads TSV files of any size in constant memory and writes piece ids, offsets and sentence hashes
as flat arrays, with the sentencepiece model and a manifest; the output does not depend on the
number of workers. Lines that give no pair are counted and reported by file:line.

A sentencepiece model is given or trained, in a pass before, on a sample of distinct sentences:
those with the smallest hashes, so that neither the order of the lines nor duplicates matter.
"""

from __future__ import annotations

import argparse

from simile_plugin.cli._pair_files import add_columns, add_format, columns_of
from simile_plugin.cli._preprocessing import add_preprocessing, preprocessing_of
from simile_plugin.files import InputError, refuse_overwriting_input, refuse_unasked_overwrite

HELP = "segment TSV pairs once, into a folder that training maps into memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile binarize-pairs`."""
    parser.description = __doc__
    data = parser.add_argument_group("data")
    data.add_argument(
        "pairs",
        nargs="+",
        metavar="PAIRS",
        help="files of sentence TAB paraphrase, further columns ignored, or of --format; plain, "
        ".gz, .zst or -",
    )
    data.add_argument("--output", required=True, metavar="DIR", help="folder to write")
    data.add_argument(
        "--overwrite", action="store_true", help="replace the pairs that are in --output"
    )
    data.add_argument(
        "--strict", action="store_true", help="stop at the first bad line instead of skipping it"
    )
    add_format(data)
    add_columns(data)
    data.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes (default: one for each core, one for a small input)",
    )
    _add_text(parser.add_argument_group("text"))
    parser.add_argument("--json", action="store_true", help="print the manifest at the end")


def _add_text(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--tokens",
        default="sp",
        help="what sentences are split into: sp (sentencepiece pieces), word, trigram (of "
        "characters) or ngram (of 2 to 4 characters, which train-encoder --kind charagram reads); "
        "with + between them for a mixture (default %(default)s)",
    )
    model = group.add_mutually_exclusive_group()
    model.add_argument(
        "--sentencepiece", metavar="MODEL", help="use this sentencepiece model, train none"
    )
    model.add_argument(
        "--vocab-size",
        type=int,
        metavar="TYPES",
        help="pieces, words or n-grams of a sample of the pairs, fewer if the text has not so many "
        "(default and papers: 30000 pieces, 200000 words or n-grams)",
    )
    group.add_argument(
        "--sample-sentences",
        type=int,
        default=1_000_000,
        metavar="N",
        help="distinct sentences at most that sentencepiece is trained on, or words are counted "
        "on; the training of sentencepiece takes about 2 KB of memory for each "
        "(default %(default)s: 2 GB, "
        "a few minutes)",
    )
    add_preprocessing(group)


def run(args: argparse.Namespace) -> int:
    """Binarize; exit status 0. Errors are raised as InputError or OSError."""
    import json
    import sys
    import time

    from simile_plugin.encoder import types_of
    from simile_plugin.encoder_training import (
        BadLines,
        BinarizeOptions,
        TsvInput,
        binarize_pairs,
        choose_workers,
    )

    _check(args)
    options = BinarizeOptions(
        paths=tuple(args.pairs),
        output=args.output,
        preprocessing=preprocessing_of(args),
        tokens=args.tokens,
        sentencepiece=args.sentencepiece,
        vocab_size=args.vocab_size or 0,
        sample_sentences=args.sample_sentences,
        columns=columns_of(args),
        header=args.header,
        workers=choose_workers(args.workers, TsvInput(args.pairs).total),
    )
    bad = BadLines.of(options.columns, args.strict)
    started = time.perf_counter()
    manifest = binarize_pairs(options, bad)
    seconds = time.perf_counter() - started
    if bad.total:
        print(f"warning: {bad.summary()}", file=sys.stderr)
    if args.json:
        print(json.dumps(manifest))
    else:
        print(
            f"{args.output}: {manifest['pairs']} pairs, {manifest['tokens']} tokens of "
            f"{manifest['vocab_size']} {types_of(args.tokens)} as {manifest['dtype']}, "
            f"{seconds:.0f} s"
        )
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise InputError for flags that cannot be meant, or a folder that is not to be replaced."""
    from simile_plugin.encoder import MIX, TOKENS
    from simile_plugin.encoder_training import MANIFEST

    parts = args.tokens.split(MIX)
    if not set(parts) <= set(TOKENS) or len(set(parts)) < len(parts):
        raise InputError(
            f"--tokens: got {args.tokens}, expected one of {', '.join(TOKENS)}, or different ones "
            f"with {MIX} between them"
        )
    if args.sentencepiece is not None and "sp" not in parts:
        raise InputError(
            f"--sentencepiece: got {args.sentencepiece} with --tokens {args.tokens}, which needs "
            "no sentencepiece model; leave one of them out"
        )
    if args.vocab_size is not None and args.vocab_size < 1:
        raise InputError(f"--vocab-size: got {args.vocab_size}, expected 1 or more")
    if args.sample_sentences < 1:
        raise InputError(f"--sample-sentences: got {args.sample_sentences}, expected 1 or more")
    refuse_overwriting_input(args.output, args.pairs)
    refuse_unasked_overwrite(args.output, MANIFEST, "binarized pairs", args.overwrite)

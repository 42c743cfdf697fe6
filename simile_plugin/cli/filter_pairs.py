"""Keep the paraphrase pairs that are worth training on.

Reads TSV files and writes the lines that pass, unchanged (of a cluster of more than two columns,
and of --format ppdb: its pairs, a line each). A pair is counted under the first filter that removes
it, in this order:

  score           --min-score, --max-score: of --score-column (of --encoder: after language)
  length          --min-tokens, --max-tokens
  overlap         --min-overlap, --max-overlap: word trigrams in common / trigrams of the shorter
                  side
  excluded        --exclude: a side stands in a file that the encoder will be evaluated on
  language        --language: a side is in another one
  duplicate       the same pair came before, in either order
  near-duplicate  --near-duplicates: one came before that differs only in case, digits,
                  punctuation and spaces

All but --score-column look at sentences that are lowercased, with punctuation split off. In scripts
without spaces (Chinese, Japanese, Thai and others) each letter counts as a word: there paraphrases
have more trigrams in common, and --max-overlap is to be higher (--deciles shows what it removes).
--deciles sorts all pairs into ten folds by each score that a filter looks at (--score-column or
--encoder; words of the longer side; overlap), to three digits, and says what every filter would
remove of each, were it the only one: which bound to choose, and which filters do the same.

ParaNMT-50M's archive is read as published (reference TAB translation TAB score):

  simile filter-pairs para-nmt-50m.txt --score-column 3 --min-score 0.5 --output pairs.tsv.gz

Memory: 8 bytes for each pair that is kept, for duplicates (64-bit hashes: among 17 million pairs,
one is wrongly taken for a duplicate with probability 1e-5), again as much for near duplicates.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from simile_plugin.cli._pair_files import add_columns, add_format, columns_of
from simile_plugin.files import InputError, check_outputs

if TYPE_CHECKING:
    from simile_plugin.encoder_training import FilterReport

HELP = "keep the pairs worth training on: score, overlap, length, duplicates, no test sentences"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile filter-pairs`; the papers' values stand in the help texts."""
    parser.description = __doc__
    data = parser.add_argument_group("data")
    data.add_argument(
        "pairs",
        nargs="+",
        metavar="PAIRS",
        help="TSV files, or those of --format: plain, .gz, .zst, or -",
    )
    data.add_argument(
        "--output", metavar="FILE", help="file to write, .gz by its name (default: standard output)"
    )
    add_format(data)
    add_columns(data)
    data.add_argument(
        "--strict", action="store_true", help="stop at the first bad line instead of skipping it"
    )
    data.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes (default: one for each core, one for a small input)",
    )
    data.add_argument(
        "--deciles",
        action="store_true",
        help="also say what each filter would remove, by decile of each score (looks at every pair "
        "with every filter, which takes longer)",
    )
    data.add_argument(
        "--json", action="store_true", help="print the counts as JSON (needs --output)"
    )
    _add_filters(parser.add_argument_group("filters"))


def _add_filters(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--score-column", type=int, metavar="N", help="column of the paraphrase score, from 1"
    )
    group.add_argument(
        "--encoder", metavar="DIR", help="the score is this encoder's cosine of the sides"
    )
    group.add_argument("--min-score", type=float, metavar="X", help="lowest score that is kept")
    group.add_argument("--max-score", type=float, metavar="X", help="highest score that is kept")
    group.add_argument(
        "--min-tokens", type=int, metavar="N", help="fewest words of a side, punctuation counted"
    )
    group.add_argument("--max-tokens", type=int, metavar="N", help="most words of a side")
    group.add_argument(
        "--min-overlap",
        type=float,
        default=0.0,
        metavar="X",
        help="smallest trigram overlap: sides that share too little may be no paraphrases (default "
        "0: all pairs). Above 0.2 it needs --max-overlap too",
    )
    group.add_argument(
        "--max-overlap",
        type=float,
        default=0.2,
        metavar="X",
        help="largest trigram overlap, 1: all pairs (default and papers: %(default)s). A side of "
        "one or two words is compared by words or bigrams",
    )
    group.add_argument(
        "--language", metavar="CODE", help="ISO 639-1 code, as en; needs the package py3langid"
    )
    group.add_argument(
        "--keep-duplicates", action="store_true", help="keep a pair that came before"
    )
    group.add_argument("--near-duplicates", action="store_true", help="remove near duplicates too")
    group.add_argument(
        "--exclude",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="evaluation files (STS.input.*.txt, judgements, any TSV or text): pairs with a "
        "sentence that is a column of a line there are removed; compared without case, "
        "punctuation and spaces",
    )


def run(args: argparse.Namespace) -> int:
    """Filter; exit status 0. Errors are raised as InputError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.encoder_training import (
        BadLines,
        FilterOptions,
        TsvInput,
        choose_workers,
        filter_pairs,
        read_exclusions,
    )

    if "-" in args.pairs and "-" in args.exclude:
        raise InputError("PAIRS, --exclude: only one of them can be - (standard input)")
    if args.json and args.output is None:
        raise InputError("--json: the pairs go to standard output already; add --output FILE")
    if args.output is not None and args.output.endswith(".zst"):
        raise InputError("--output: .zst is read but not written; name a .gz or a plain file")
    if args.output is not None:
        encoder = [] if args.encoder is None else [args.encoder]
        check_outputs({"--output": args.output}, [*args.pairs, *args.exclude, *encoder])
    if args.score_column is not None and args.score_column < 1:
        raise InputError(f"--score-column: got {args.score_column}, expected 1 or more")
    options = FilterOptions(
        columns=columns_of(args),
        score_column=None if args.score_column is None else args.score_column - 1,
        duplicates=not args.keep_duplicates,
        **{name: getattr(args, name) for name in _OPTION_FLAGS},
    )
    source = TsvInput(args.pairs, args.header)
    bad = BadLines.of(options.columns, args.strict)
    workers = choose_workers(args.workers, source.total)
    exclusions = read_exclusions(args.exclude)
    report = filter_pairs(source, args.output, options, exclusions, bad, workers)
    if bad.total:
        print(f"warning: {bad.summary()}", file=sys.stderr)
    print(_table(report), file=sys.stderr)
    for name in report.deciles:
        print(_deciles(report, name), file=sys.stderr)
    if args.json:
        counts = {**asdict(report), "skipped_lines": bad.counts}
        if not args.deciles:
            del counts["deciles"]
        print(json.dumps(counts))
    return 0


def _table(report: FilterReport) -> str:
    rows = [("pairs read", report.read)]
    rows += [(f"removed: {name}", count) for name, count in report.removed.items()]
    rows += [("pairs kept", report.kept)]
    width = max(len(name) for name, _ in rows)
    return "\n".join(
        f"{name:<{width}} {count:>11,} {100 * count / report.read:6.1f} %" for name, count in rows
    )


def _deciles(report: FilterReport, name: str) -> str:
    """The folds of one score, the lowest first, and the share of each that each filter removes."""
    folds = report.deciles[name]
    filters = list(folds[0].removed)
    rows = [["", name, "pairs", *filters]]
    for number, fold in enumerate(folds, start=1):
        shares = (f"{100 * fold.removed[one] / fold.pairs:.1f} %" for one in filters)
        rows.append([str(number), f"{fold.low:g} to {fold.high:g}", f"{fold.pairs:,}", *shares])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return f"\nwhat each filter alone would remove, by {name}:\n" + "\n".join(lines)


_OPTION_FLAGS = (
    "deciles",
    "encoder",
    "min_score",
    "max_score",
    "min_tokens",
    "max_tokens",
    "min_overlap",
    "max_overlap",
    "language",
    "near_duplicates",
)

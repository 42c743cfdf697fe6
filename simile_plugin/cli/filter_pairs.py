"""Keep the paraphrase pairs that are worth training on.

Reads TSV files and writes the lines that pass, unchanged (of a cluster of more than two columns:
its pairs, a line each). A pair is counted under the first filter that removes
it, in this order:

  score           --min-score: of --score-column (of --encoder: after language)
  length          --min-tokens, --max-tokens
  overlap         --max-overlap: word trigrams in common / trigrams of the shorter side
  excluded        --exclude: a side stands in a file that the encoder will be evaluated on
  language        --language: a side is in another one
  duplicate       the same pair came before, in either order
  near-duplicate  --near-duplicates: one came before that differs only in case, digits,
                  punctuation and spaces

All but --score-column look at sentences that are lowercased, with punctuation split off. In scripts
without spaces (Chinese, Japanese, Thai and others) each letter counts as a word: there paraphrases
have more trigrams in common, and --max-overlap is to be higher.

ParaNMT-50M's archive is read as published (reference TAB translation TAB score):

  simile filter-pairs para-nmt-50m.txt --score-column 3 --min-score 0.5 --output pairs.tsv.gz

Memory: 8 bytes for each pair that is kept, for duplicates (64-bit hashes: among 17 million pairs,
one is wrongly taken for a duplicate with probability 1e-5), again as much for near duplicates.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.files import InputError

HELP = (
    "keep the pairs worth training an encoder on, by score, overlap and length, without duplicates "
    "and test sentences"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; the papers' values stand in the help texts."""
    from simile_plugin.encoder_training import FilterOptions

    parser.description = __doc__
    add_flags(parser, FilterOptions)
    parser.add_argument(
        "--json", action="store_true", help="print the counts as JSON (needs --output)"
    )


def run(args: argparse.Namespace) -> int:
    """Filter; exit status 0. Errors are raised as InputError or OSError."""
    from simile_plugin.encoder_training import FilterOptions, filter_pairs

    if args.json and args.output is None:
        raise InputError("--json: the pairs go to standard output already; add --output FILE")
    counts = filter_pairs(read_flags(args, FilterOptions))
    print(_table(counts), file=sys.stderr)
    if args.json:
        print(json.dumps(counts))
    return 0


def _table(counts: dict[str, Any]) -> str:
    rows = [("pairs read", counts["read"])]
    rows += [(f"removed: {name}", count) for name, count in counts["removed"].items()]
    rows += [("pairs kept", counts["kept"])]
    width = max(len(name) for name, _ in rows)
    return "\n".join(
        f"{name:<{width}} {count:>11,} {100 * count / counts['read']:6.1f} %"
        for name, count in rows
    )

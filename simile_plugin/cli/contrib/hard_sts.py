"""`simile contrib hard-sts`: the STS pairs that words decide worst, and STS in bins."""

from __future__ import annotations

import argparse
from typing import Any

from simile_plugin.cli._types import ALPHA, SEED, add_device, add_resamples
from simile_plugin.files import refuse_twice

HELP = "correlate an encoder with human similarity of the STS pairs that words decide worst"

DESCRIPTION = """\
Correlate encoders, sentence BLEU, chrF and plain word overlap with human scores of the pairs of STS
folders (as for simile eval-encoder) that words decide worst: those with a negation on one side;
Hard STS, of the 20% that share most words (by symmetric word error rate) those of gold 0 to 1, of
the 20% that share fewest those of gold 4 to 5; more such subsets, and two easy ones.

--by length: Pearson of SIM in bins of all pairs by the words of the longer sentence (tokeniser 13a,
punctuation counted); --by unknown: by how many tokens of a pair, and which share of them, the
encoder does not know. Bins are those of Wieting's thesis, tables 7, 20 and 21; those of shares are
ours. Pairs are resampled within each bin.
"""

EPILOG = """\
examples:
  simile contrib hard-sts ENCODER --sts sts/201[2-6]
  simile contrib hard-sts small=ENCODER1 large=ENCODER2 --sts sts/2014 --by length unknown --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile contrib hard-sts`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("encoder", nargs="+", metavar="[NAME=]ENCODER", help="encoder folder, one or several")
    text = "STS folders or files"
    add("--sts", required=True, action="extend", nargs="+", metavar="DIR", help=text)
    bins, text = ("length", "unknown"), "the pairs in bins instead: by length, by unknown tokens"
    add("--by", action="extend", nargs="+", choices=bins, metavar="WHAT", help=text)
    text = "exponent of SIMILE's length penalty (default and paper: 0.25)"
    add("--simile-alpha", type=ALPHA, default=0.25, metavar="A", help=text)
    add_resamples(parser)
    text = "their seed (default %(default)s)"
    add("--seed", type=SEED, default=12345, metavar="N", help=text)
    add_device(parser)
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as InputError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.cli.eval_encoder import named_encoders
    from simile_plugin.contrib import hard_sts, sts_bins
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.evaluation import read_sts
    from simile_plugin.significance import without_nan

    refuse_twice(args.sts, "--sts")
    named = named_encoders(args.encoder)
    sets = [part for folder in args.sts for part in read_sts(folder)]
    device = usable_device(args.device)
    encoders = {name: load_encoder(path, device) for name, path in named.items()}
    fingerprints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    report: dict[str, Any] = {"encoders": fingerprints}
    if args.by:
        bins = sts_bins.evaluate_bins(encoders, sets, args.by, args.resamples, args.seed)
        report["bins"] = {by: [asdict(one) for one in own] for by, own in bins.items()}
        text = sts_bins.format_bins(bins)
    else:
        hard = hard_sts.evaluate_hard(encoders, sets, args.simile_alpha)
        report["hard"] = asdict(hard)
        text = hard_sts.format_hard(hard)
    if args.json:
        print(json.dumps(without_nan(report), indent=2))
        return 0
    for name, fingerprint in fingerprints.items():
        print(f"encoder {name} {fingerprint}")
    print(f"\n{text}")
    return 0

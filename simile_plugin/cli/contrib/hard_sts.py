"""`simile contrib hard-sts`: the STS pairs that words decide worst, and STS in bins."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from simile_plugin.cli._flags import BootstrapFlags, DeviceFlags, JsonFlags, add_flags, read_flags
from simile_plugin.files import Range, option, refuse_twice

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


@dataclass
class Options(BootstrapFlags, DeviceFlags, JsonFlags):
    """Flags of `simile contrib hard-sts`."""

    encoder: list[str] = option(
        "encoder folder, one or several", names=("encoder",), metavar="[NAME=]ENCODER"
    )
    sts: list[str] = option("STS folders or files", nargs="+", metavar="DIR")
    by: list[str] = option(
        "the pairs in bins instead: by length, by unknown tokens",
        [],
        nargs="+",
        choices=("length", "unknown"),
    )
    simile_alpha: float = option(
        "exponent of SIMILE's length penalty (paper: 0.25)", 0.25, range=Range.at_least(0)
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile contrib hard-sts`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as InputError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.cli.eval_encoder import named_encoders
    from simile_plugin.contrib import hard_sts, sts_bins
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.evaluation import read_sts
    from simile_plugin.significance import without_nan

    options = read_flags(args, Options)
    refuse_twice(options.sts, "--sts")
    named = named_encoders(options.encoder)
    sets = [part for folder in options.sts for part in read_sts(folder)]
    device = usable_device(options.device)
    encoders = {name: load_encoder(path, device) for name, path in named.items()}
    fingerprints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    report: dict[str, Any] = {"encoders": fingerprints}
    if options.by:
        bins = sts_bins.evaluate_bins(encoders, sets, options.by, options.resamples, options.seed)
        report["bins"] = {by: [asdict(one) for one in own] for by, own in bins.items()}
        text = sts_bins.format_bins(bins)
    else:
        hard = hard_sts.evaluate_hard(encoders, sets, options.simile_alpha)
        report["hard"] = asdict(hard)
        text = hard_sts.format_hard(hard)
    if options.json:
        print(json.dumps(without_nan(report), indent=2))
        return 0
    for name, fingerprint in fingerprints.items():
        print(f"encoder {name} {fingerprint}")
    print(f"\n{text}")
    return 0

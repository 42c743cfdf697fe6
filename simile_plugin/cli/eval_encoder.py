"""Correlate an encoder's SIM with human scores of sentence pairs (SemEval STS).

A folder holds STS.input.X.txt (sentence TAB sentence) and STS.gs.X.txt (a score a line, empty
lines are skipped), one pair of files for each set X. Printed in percent: Pearson of each set,
their unweighted mean (the papers' convention), and Pearson over all pairs of the folder; Spearman
likewise. Training sentences that stand in an STS set make its number meaningless.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simile_plugin.encoder.evaluation import StsScores

HELP = "correlate an encoder with human similarity scores (STS)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile eval-encoder`."""
    parser.description = __doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("encoder", metavar="ENCODER", help="encoder folder")
    parser.add_argument(
        "--sts", nargs="+", required=True, metavar="DIR", help="STS folders, one for each year"
    )
    parser.add_argument("--device", default="cpu", help="torch device (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as ValueError or OSError."""
    import json
    import math
    from dataclasses import asdict

    from simile_plugin.encoder.evaluation import evaluate_sts, read_sts
    from simile_plugin.encoder.format import load_encoder
    from simile_plugin.encoder.models import usable_device

    sets = {folder: read_sts(folder) for folder in args.sts}
    encoder = load_encoder(args.encoder, usable_device(args.device))
    scores = [evaluate_sts(encoder, folder, parts) for folder, parts in sets.items()]
    if args.json:

        def plain(value: object) -> object:
            """NaN is no JSON."""
            if isinstance(value, dict):
                return {key: plain(inner) for key, inner in value.items()}
            return None if isinstance(value, float) and math.isnan(value) else value

        folders = [plain(asdict(part)) for part in scores]
        print(json.dumps({"encoder": encoder.fingerprint, "sts": folders}, indent=2))
    else:
        print(f"encoder {encoder.fingerprint}")
        for part in scores:
            print(_table(part))
    return 0


def _table(scores: StsScores) -> str:
    """One folder as text, in percent."""
    rows = [(name, scores.pearson[name], scores.spearman[name]) for name in scores.pearson]
    rows.append(("mean of sets", scores.mean_pearson, scores.mean_spearman))
    rows.append((f"all {scores.pairs} pairs", scores.all_pearson, scores.all_spearman))
    width = max(len(row[0]) for row in rows)
    lines = [f"{scores.folder}", f"  {'':<{width}}  Pearson  Spearman"]
    lines += [f"  {name:<{width}}  {first:7.1f}  {second:8.1f}" for name, first, second in rows]
    if scores.constant:
        lines.append(f"  undefined (equal cosines): {', '.join(scores.constant)}")
    return "\n".join(lines)

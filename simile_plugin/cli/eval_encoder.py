"""`simile eval-encoder`: an encoder against human scores, of sentence pairs or of translations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simile_plugin.analysis.metric_quality import Estimate, Quality
    from simile_plugin.encoder.evaluation import StsScores

HELP = "correlate an encoder with human scores: similarity (STS), judgements of translations"

DESCRIPTION = """\
Correlate an encoder with human scores. All numbers are percent.

--sts DIR: a folder holds STS.input.X.txt (sentence TAB sentence) and STS.gs.X.txt (a score a line,
empty lines are skipped), one pair of files for each set X. Printed: Pearson of SIM for each set,
the unweighted mean over the sets (the papers' convention), and Pearson over all pairs of the
folder; Spearman likewise.

--judgements FILE: a TSV of hypothesis, reference and human score, one judged segment a line, with
a header (hypothesis, reference, human_z; or mt, post_edit, da_z_mean as in MLQE-PE; for others see
--judgement-columns). Printed: Spearman, Pearson and Kendall's tau-b of SIM, SIMILE, sentence BLEU
(+1 on orders 2 to 4) and chrF with the human scores, for each file and as the unweighted mean over
the files, with 95% bootstrap intervals (segments resampled within each file); and the differences
of the means, by the same resamples.

Training sentences that stand in an evaluation set make its number meaningless.
"""

EPILOG = """\
examples:
  simile eval-encoder ENCODER --sts sts/2012 sts/2013 sts/2014
  simile eval-encoder ENCODER --judgements wmt15.*-en.tsv --json
  simile eval-encoder ENCODER --judgements my.tsv --judgement-columns 2 3 7
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile eval-encoder`."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("encoder", metavar="ENCODER", help="encoder folder")
    parser.add_argument("--sts", nargs="+", metavar="DIR", help="STS folders, one for each year")
    parser.add_argument(
        "--judgements", nargs="+", metavar="FILE", help="judged segments, one TSV a language pair"
    )
    parser.add_argument(
        "--judgement-columns",
        nargs=3,
        metavar=("HYP", "REF", "SCORE"),
        help="names in the header, or numbers from 1 (line 1 is then taken for a header, and "
        "skipped, if its score is no number)",
    )
    parser.add_argument(
        "--simile-alpha",
        type=float,
        default=0.25,
        metavar="A",
        help="exponent of SIMILE's length penalty (default and paper: 0.25)",
    )
    parser.add_argument(
        "--resamples",
        type=int,
        default=1000,
        metavar="N",
        help="bootstrap resamples of the judgements' intervals (default %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=12345, metavar="N", help="their seed (default %(default)s)"
    )
    parser.add_argument("--device", default="cpu", help="torch device (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as ValueError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.analysis.metric_quality import evaluate_judgements, read_judgements
    from simile_plugin.encoder.evaluation import evaluate_sts, read_sts
    from simile_plugin.encoder.format import load_encoder
    from simile_plugin.encoder.models import usable_device

    _check(args)
    sets = {folder: read_sts(folder) for folder in args.sts or []}
    judged = [read_judgements(path, args.judgement_columns) for path in args.judgements or []]
    encoder = load_encoder(args.encoder, usable_device(args.device))
    scores = [evaluate_sts(encoder, folder, parts) for folder, parts in sets.items()]
    quality = None
    if judged:
        quality = evaluate_judgements(encoder, judged, args.simile_alpha, args.resamples, args.seed)
    if args.json:
        found: dict[str, object] = {"encoder": encoder.fingerprint}
        if args.sts:
            found["sts"] = [asdict(part) for part in scores]
        if quality is not None:
            facts = {"resamples": args.resamples, "seed": args.seed, "alpha": args.simile_alpha}
            found["judgements"] = {**facts, **asdict(quality)}
        print(json.dumps(_plain(found), indent=2))
    else:
        print(f"encoder {encoder.fingerprint}")
        for part in scores:
            print(_table(part))
        if quality is not None:
            print(_judgement_tables(quality, args.resamples, args.seed))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise ValueError for flags that cannot be meant."""
    if not args.sts and not args.judgements:
        raise ValueError("nothing to evaluate on; give --sts DIR... or --judgements FILE...")
    if args.judgement_columns and not args.judgements:
        raise ValueError("--judgement-columns: there is no --judgements FILE it could be for")
    if args.resamples < 40:
        raise ValueError(f"--resamples: got {args.resamples}, expected 40 or more")
    if args.seed < 0:
        raise ValueError(f"--seed: got {args.seed}, expected 0 or more")
    for flag, paths in (("--sts", args.sts), ("--judgements", args.judgements)):
        twice = [path for path in paths or [] if paths.count(path) > 1]
        if twice:
            raise ValueError(f"{flag}: {twice[0]} is given twice; it would count twice")


def _plain(value: object) -> object:
    """NaN is no JSON."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and value != value else value


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


def _judgement_tables(quality: Quality, resamples: int, seed: int) -> str:
    """One table for each kind of correlation, and the differences of the means."""
    from simile_plugin.analysis.metric_quality import KINDS, METRICS
    from simile_plugin.analysis.tables import text_table

    names = {path: Path(path).name for path in quality.files}
    if len(set(names.values())) < len(names):
        names = {path: path for path in names}
    lines = [f"judgements: percent, with 95% intervals of {resamples} resamples, seed {seed}"]
    for kind in KINDS:
        grid = [[kind.capitalize(), "segments", *METRICS]]
        for path, found in quality.files.items():
            cells = [_cell(found[kind][name]) for name in METRICS]
            grid.append([names[path], str(quality.segments[path]), *cells])
        cells = [_cell(quality.mean[kind][name]) for name in METRICS]
        grid.append(["mean of files", str(sum(quality.segments.values())), *cells])
        lines += ["", text_table(grid)]
    grid = [["difference of the means", *(kind.capitalize() for kind in KINDS)]]
    for pair in quality.difference[KINDS[0]]:
        grid.append([pair, *(_cell(quality.difference[kind][pair]) for kind in KINDS)])
    return "\n".join([*lines, "", text_table(grid)])


def _cell(estimate: Estimate) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f} {estimate.high:.1f}]"

"""`simile eval-encoder`: an encoder against human scores, of sentence pairs or of translations."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from simile_plugin.cli._types import ALPHA, SEED, add_device, add_resamples
from simile_plugin.files import InputError, check_standard_input, refuse_twice

if TYPE_CHECKING:
    from simile_plugin.encoder import RewardEncoder
    from simile_plugin.reward import LearnedReward

SAMPLE = 1000  # sentences that are looked at for unknown tokens
HELP = "correlate an encoder with human scores: similarity (STS), judgements of translations"

DESCRIPTION = """\
Correlate encoders, and sentence BLEU (+1 on orders 2 to 4), chrF and METEOR beside them, with human
scores. All numbers are percent. METEOR is the original, 1.5 for English; it needs a Java runtime
and the package that carries it (pip install --no-deps pycocoevalcap).

--sts DIR: a folder holds STS.input.X.txt (sentence TAB sentence) and STS.gs.X.txt (a score a line,
empty lines are skipped), one pair of files for each set X; 2016's STS2016.input.X.txt, 2017's
cross-lingual tracks, STS-B's sts-dev.csv or sts-test.csv, and a file of sentence TAB sentence TAB
score are read too. Printed: Pearson for each set, the
unweighted mean over the sets (the papers' convention), and Pearson over all pairs of the folder;
Spearman likewise; and a table of the folders' means with 95% bootstrap intervals (pairs resampled
within each set). The second sentence is the reference; sym. is the mean of both directions.
Hard pairs, and pairs in bins: simile contrib hard-sts.

--judgements FILE: a TSV of hypothesis, reference and human score, one judged segment a line, with
a header (hypothesis, reference, human_z; or mt, post_edit, da_z_mean as in MLQE-PE; for others see
--judgement-columns). Printed: Spearman, Pearson and Kendall's tau-b with the human scores, for each
file and as the unweighted mean over the files, with 95% bootstrap intervals (segments resampled
within each file); and the differences of the means, by the same resamples.

--speed FILE: sentences a second, segmentation included, of 128,000 sentences (the lines of FILE,
repeated) in batches of 128.

Training sentences that stand in an evaluation set make its number meaningless.
"""

EPILOG = """\
examples:
  simile eval-encoder ENCODER --sts sts/2012 sts/2013 sts/2014
  simile eval-encoder ENCODER --judgements wmt15.*-en.tsv --json
  simile eval-encoder ENCODER --judgements my.tsv --judgement-columns 2 3 7
  simile eval-encoder small=ENCODER1 large=ENCODER2 --sts sts/2014
  simile eval-encoder ENCODER --learned REWARD --judgements my.tsv
  simile eval-encoder ENCODER --speed sentences.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile eval-encoder`."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "encoder",
        nargs="+",
        metavar="[NAME=]ENCODER",
        help="encoder folder; several are compared in one table",
    )
    parser.add_argument(
        "--sts",
        action="extend",
        nargs="+",
        metavar="DIR",
        help="STS folders, one for each year, or files",
    )
    parser.add_argument(
        "--judgements",
        action="extend",
        nargs="+",
        metavar="FILE",
        help="judged segments, one TSV a language pair",
    )
    parser.add_argument(
        "--judgement-columns",
        nargs=3,
        metavar=("HYP", "REF", "SCORE"),
        help="names in the header, or numbers from 1 (line 1 is then taken for a header, and "
        "skipped, if its score is no number)",
    )
    parser.add_argument(
        "--learned",
        metavar="DIR",
        help="a learned reward (made by simile fit-reward) beside them on --judgements",
    )
    parser.add_argument("--speed", metavar="FILE", help="measure the encoding speed on its lines")
    parser.add_argument(
        "--simile-alpha",
        type=ALPHA,
        default=0.25,
        metavar="A",
        help="exponent of SIMILE's length penalty (default and paper: 0.25)",
    )
    parser.add_argument(
        "--tokenize",
        default="13a",
        metavar="TOK",
        help="sacreBLEU tokeniser of BLEU (default: 13a)",
    )
    add_resamples(parser)
    parser.add_argument(
        "--seed", type=SEED, default=12345, metavar="N", help="their seed (default %(default)s)"
    )
    add_device(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as InputError or OSError."""
    import json

    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.evaluation import measure_speed, read_judgements, read_sts
    from simile_plugin.files import read_lines
    from simile_plugin.report import answer_quality, render_text
    from simile_plugin.reward import check_tokenizer

    _check(args)
    check_tokenizer(args.tokenize, "--tokenize")
    named = named_encoders(args.encoder)
    folders = {folder: read_sts(folder) for folder in args.sts or []}
    judged = [read_judgements(path, args.judgement_columns) for path in args.judgements or []]
    device = usable_device(args.device)
    encoders = {name: load_encoder(path, device) for name, path in named.items()}
    learned = _learned(args.learned, encoders) if args.learned else None
    lines = read_lines(args.speed, "--speed") if args.speed else []
    sets = [part for parts in folders.values() for part in parts]
    sentences = [text for part in sets for text in (*part.left, *part.right)]
    sentences += [text for part in judged for text in (*part.hyps, *part.refs)]
    for name, encoder in encoders.items():
        warn_of_unknown(name, encoder, sentences)
    settings = args.simile_alpha, args.resamples, args.seed, learned, args.tokenize
    answer = answer_quality(encoders, folders, judged, *settings)
    for warning in answer.warnings if args.json else ():  # the tables say so themselves
        print(f"simile eval-encoder: warning: {warning}", file=sys.stderr)
    speeds = {}
    if args.speed:
        speeds = {name: measure_speed(one.embed_text, lines) for name, one in encoders.items()}
    if args.json:
        print(json.dumps(answer.data | ({"speed": speeds} if speeds else {}), indent=2))
        return 0
    for name, encoder in encoders.items():
        prefix = f"{name} " if len(encoders) > 1 else ""
        print(f"encoder {prefix}{encoder.fingerprint}")
    if answer.parts:
        print(render_text(answer), end="")
    for name, speed in speeds.items():
        print(
            f"{name}: {speed['per_second']:,.0f} sentences a second ({speed['sentences']:,} in "
            f"batches of {speed['batch']}, {speed['seconds']:.1f} s, "
            f"CPU {speed['cpu_seconds']:.1f} s, on {speed['device']}, threads: {speed['threads']})"
        )
    return 0


def warn_of_unknown(name: str, encoder: RewardEncoder, sentences: list[str]) -> None:
    """Say so when much of the text is outside an encoder's vocabulary, judged by a sample."""
    step = max(1, len(sentences) // SAMPLE)
    found = encoder.embed_counted(sentences[::step])
    unknown, tokens = int(found.unknown.sum()), int(found.tokens.sum())
    if unknown > 0.05 * tokens:
        print(
            f"simile eval-encoder: warning: {name}: {unknown / tokens:.0%} of the tokens of "
            f"{len(found.unknown)} sentences are unknown to it and count as nothing; is it an "
            "encoder of this language and script?",
            file=sys.stderr,
        )


def _learned(folder: str, encoders: Mapping[str, RewardEncoder]) -> LearnedReward:
    """The learned reward; InputError unless the encoder of its fit is among those given."""
    from simile_plugin.reward import load_learned

    learned = load_learned(folder, "--learned")
    if all(encoder.fingerprint != learned.encoder for encoder in encoders.values()):
        learned.use(next(iter(encoders.values())))
    return learned


def named_encoders(specs: list[str]) -> dict[str, str]:
    """Folders by the names given to them, else by their own."""
    from simile_plugin.report import short_names

    # A folder's own name can have a = in it.
    short = short_names([spec for spec in specs if "=" not in spec or os.path.isdir(spec)])
    named: dict[str, str] = {}
    for spec in specs:
        name, _, path = spec.partition("=")
        name, path = (short[spec], spec) if spec in short else (name, path)
        if not path:
            raise InputError(f"ENCODER: got {spec!r}, expected an encoder folder")
        if not name or name in named:
            raise InputError(f"ENCODER: got {name!r} for {path}, expected distinct names")
        named[name] = path
    return named


def _check(args: argparse.Namespace) -> None:
    """Raise InputError for flags that cannot be meant."""
    if not args.sts and not args.judgements and not args.speed:
        raise InputError(
            "nothing to evaluate on; give --sts DIR..., --judgements FILE... or --speed FILE"
        )
    if args.learned and not args.judgements:
        raise InputError("--learned: there is no --judgements FILE it could be judged by")
    if args.judgement_columns and not args.judgements:
        raise InputError("--judgement-columns: there is no --judgements FILE it could be for")
    refuse_twice(args.sts or [], "--sts")
    refuse_twice(args.judgements or [], "--judgements")
    judged = [(path, "--judgements") for path in args.judgements or []]
    check_standard_input([*judged, (args.speed, "--speed")])

"""`simile eval-encoder`: an encoder against human scores, of sentence pairs or of translations."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import (
    BootstrapFlags,
    DeviceFlags,
    JsonFlags,
    add_flags,
    file_option,
    folder_option,
    read_flags,
)
from simile_plugin.cli._warnings import warn, warn_of_judged_text, warn_of_text
from simile_plugin.files import InputError, Range, check_standard_input, option, refuse_twice

if TYPE_CHECKING:
    from simile_plugin.encoder import RewardEncoder
    from simile_plugin.reward import LearnedReward

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

--judgements FILE: a TSV of hypothesis, reference and human score, one judged segment a line, with
a header (hypothesis, reference, human_z; or mt, post_edit, da_z_mean as in MLQE-PE; for others see
--judgement-columns). Printed: Spearman, Pearson and Kendall's tau-b with the human scores, for each
file and as the unweighted mean over the files, with 95% bootstrap intervals (segments resampled
within each file); and the differences of the means, by the same resamples.

Training sentences that stand in an evaluation set make its number meaningless.
"""

EPILOG = """\
examples:
  simile eval-encoder ENCODER --sts sts/2012 sts/2013 sts/2014
  simile eval-encoder ENCODER --judgements wmt15.*-en.tsv --json
  simile eval-encoder ENCODER --judgements my.tsv --judgement-columns 2 3 7
  simile eval-encoder small=ENCODER1 large=ENCODER2 --sts sts/2014
  simile eval-encoder ENCODER --learned REWARD --judgements my.tsv
"""


@dataclass
class Options(BootstrapFlags, DeviceFlags, JsonFlags):
    """Flags of `simile eval-encoder`."""

    encoder: list[str] = option(
        "encoder folder; several are compared in one table",
        names=("encoder",),
        metavar="[NAME=]ENCODER",
    )
    sts: list[str] = file_option(
        "STS folders, one for each year, or files", [], nargs="+", metavar="DIR"
    )
    judgements: list[str] = file_option("judged segments, one TSV a language pair", [], nargs="+")
    judgement_columns: tuple[str, str, str] | None = option(
        "names in the header, or numbers from 1 (line 1 is then taken for a header, and skipped, "
        "if its score is no number)",
        None,
        metavar=("HYP", "REF", "SCORE"),
    )
    reward: list[str] = option(
        "what --reward of a training takes, beside them on --judgements: source (which the column "
        "`source` is read for), chrf:0.5,source:0.5, ...; give it again for others",
        [],
        metavar="SPEC",
    )
    learned: str | None = folder_option(
        "a learned reward (made by simile fit-reward; `default`: the package's) beside them on "
        "--judgements",
        None,
    )
    simile_alpha: float = option(
        "exponent of SIMILE's length penalty (paper: 0.25)", 0.25, range=Range.at_least(0)
    )
    tokenize: str = option("sacreBLEU tokeniser of BLEU", "13a", metavar="TOK")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile eval-encoder`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as InputError or OSError."""
    import json

    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.evaluation import Metrics, read_judgements, read_sts
    from simile_plugin.report import answer_quality, render_text
    from simile_plugin.reward import check_tokenizer, unknown_warning

    options = read_flags(args, Options)
    _check(options)
    check_tokenizer(options.tokenize, "--tokenize")
    named = named_encoders(options.encoder)
    folders = {folder: read_sts(folder) for folder in options.sts}
    judged = [read_judgements(path, options.judgement_columns) for path in options.judgements]
    warn_of_judged_text("eval-encoder", judged)
    for folder, parts in folders.items():
        texts = [(f"--sts {folder}: {one.name}", [*one.left, *one.right]) for one in parts]
        warn_of_text("eval-encoder", texts)
    device = usable_device(options.device)
    encoders = {name: load_encoder(path, device) for name, path in named.items()}
    learned = _learned(options.learned, encoders) if options.learned else None
    sets = [part for parts in folders.values() for part in parts]
    sentences = [text for part in sets for text in (*part.left, *part.right)]
    sentences += [text for part in judged for text in (*part.hyps, *part.refs)]
    for name, encoder in encoders.items():
        warn("eval-encoder", unknown_warning(name, encoder, sentences))
    metrics = Metrics(
        encoders,
        options.simile_alpha,
        options.tokenize,
        learned=learned,
        rewards=options.reward,
    )
    answer = answer_quality(metrics, folders, judged, options.resamples, options.seed)
    if options.json:  # the tables say so themselves
        warn("eval-encoder", *answer.warnings)
    if options.json:
        print(json.dumps(answer.data, indent=2))
        return 0
    for name, encoder in encoders.items():
        prefix = f"{name} " if len(encoders) > 1 else ""
        print(f"encoder {prefix}{encoder.fingerprint}")
    print(render_text(answer), end="")
    return 0


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


def _check(options: Options) -> None:
    """Raise InputError for flags that cannot be meant."""
    if not options.sts and not options.judgements:
        raise InputError("nothing to evaluate on; give --sts DIR... or --judgements FILE...")
    if options.learned and not options.judgements:
        raise InputError("--learned: there is no --judgements FILE it could be judged by")
    if options.judgement_columns and not options.judgements:
        raise InputError("--judgement-columns: there is no --judgements FILE it could be for")
    refuse_twice(options.sts, "--sts")
    refuse_twice(options.judgements, "--judgements")
    check_standard_input([(path, "--judgements") for path in options.judgements])

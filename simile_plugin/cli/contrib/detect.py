"""`simile contrib detect`: does an encoder tell paraphrases from other pairs?"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import RESAMPLES, add_flags, file_option, read_flags
from simile_plugin.cli.contrib import EncoderFlags
from simile_plugin.files import SEED, InputError, Range, check_standard_input, option

if TYPE_CHECKING:
    from simile_plugin.contrib.detection import Detected

HELP = "tell paraphrases from other pairs by an encoder: accuracy of a classifier, AUC"

DESCRIPTION = """\
Paraphrase detection (Sjöblom et al. 2018): the encoder's vectors of both sentences, side by side,
go into a perceptron with one hidden layer of 200 units, trained on one file and tested on another.
Beside it: a threshold on the cosine, tuned on the same training pairs; the area under the curve
(AUC) of the cosine, which needs no threshold; and what a classifier gets that has read nothing:
"all paraphrases" (the paper's baseline) and the more frequent class of the test pairs.

Files are TAB-separated: id, text1, text2, grade (Opusparcus, PAWS), or without the id; a header is
skipped. Grades are 0 and 1, or 1 to 4, where 3 and more is a paraphrase, 2 and less is none and
what lies between is left out.

Without --test the pairs are cross-validated; pairs that share a sentence are in one fold.
"""

EPILOG = """\
examples:
  simile contrib detect ENCODER --train fi/dev/fi-dev.txt --test fi/test/fi-test.txt
  simile contrib detect ENCODER --train graded.tsv --folds 5 --json
"""


@dataclass
class Options(EncoderFlags):
    """Flags of `simile contrib detect`."""

    train: str = file_option("labelled pairs (Opusparcus: dev)")
    test: str | None = file_option("other labelled pairs to test on", None)
    folds: int = option("without --test", 5, range=Range.at_least(2))
    seeds: int = option(
        "perceptrons of each split, whose accuracies are averaged", 3, range=Range.within(1, 1000)
    )
    seed: int = option("the first of them", 1, range=SEED)
    epochs: int = option("passes over the training pairs", 10, range=Range.at_least(1))
    resamples: int = option("bootstrap resamples of the intervals", 1000, range=RESAMPLES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile contrib detect`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as InputError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.contrib.detection import evaluate_detection, read_detection
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import Progress

    options = read_flags(args, Options)
    check_standard_input([(options.train, "--train"), (options.test, "--test")])
    if options.test and os.path.realpath(options.test) == os.path.realpath(options.train):
        raise InputError(
            f"--test: got {options.test}, which is --train's file too; give other pairs"
        )
    train = read_detection(options.train, "--train")
    test = read_detection(options.test, "--test") if options.test else None
    encoder = load_encoder(options.encoder, usable_device(options.device))
    trainings = options.seeds * (1 if test else options.folds)
    with Progress(trainings, "training") as bar:
        found = evaluate_detection(
            encoder.embed_text,
            train,
            test,
            folds=options.folds,
            seeds=range(options.seed, options.seed + options.seeds),
            resamples=options.resamples,
            epochs=options.epochs,
            progress=bar.update,
        )
    if options.json:
        print(json.dumps({"encoder": encoder.fingerprint, **asdict(found)}, indent=2))
    else:
        _print(options, encoder.fingerprint, found)
    return 0


def _print(options: Options, fingerprint: str, found: Detected) -> None:
    print(f"encoder {fingerprint}")
    print(found.protocol)
    print(f"{found.pairs} test pairs, {found.train_pairs} to train on; {found.dropped} left out\n")
    single = " ".join(f"{value:.1f}" for value in found.perceptron)
    low, high = found.perceptron_interval
    print(f"perceptron, 200 hidden   {found.perceptron_mean:5.1f} [{low:.1f} {high:.1f}]")
    low, high = found.threshold_interval
    print(f"threshold on the cosine  {found.threshold:5.1f} [{low:.1f} {high:.1f}]")
    print(f"all paraphrases          {found.all_paraphrases:5.1f}")
    print(f"more frequent class      {found.majority:5.1f}")
    print(f"AUC of the cosine        {found.auc:5.1f} (50 is chance)\n")
    print(
        f"accuracy in percent; 95% intervals of {options.resamples} bootstrap resamples of the "
        f"test pairs;\nperceptron: mean of {options.seeds} seeds ({single})"
    )

"""`simile contrib detect`: does an encoder tell paraphrases from other pairs?"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from simile_plugin.cli._types import (
    SEED,
    add_device,
    add_resamples,
    file_name,
    whole_number,
)
from simile_plugin.files import InputError, check_standard_input

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile contrib detect`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("encoder", type=file_name, metavar="ENCODER", help="encoder folder")
    text = "labelled pairs (Opusparcus: dev)"
    add("--train", required=True, metavar="FILE", help=text)
    add("--test", metavar="FILE", help="other labelled pairs to test on")
    text = "without --test (default %(default)s)"
    add("--folds", type=whole_number(2), default=5, metavar="N", help=text)
    text = "perceptrons of each split, whose accuracies are averaged (default %(default)s)"
    add("--seeds", type=whole_number(1, 1000), default=3, metavar="N", help=text)
    text = "the first of them (default %(default)s)"
    add("--seed", type=SEED, default=1, metavar="N", help=text)
    text = "passes over the training pairs (default %(default)s)"
    add("--epochs", type=whole_number(1), default=10, metavar="N", help=text)
    add_resamples(parser)
    add_device(parser)
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Evaluate; exit status 0. Errors are raised as InputError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.contrib.detection import evaluate_detection, read_detection
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import Progress

    check_standard_input([(args.train, "--train"), (args.test, "--test")])
    if args.test and os.path.realpath(args.test) == os.path.realpath(args.train):
        raise InputError(f"--test: got {args.test}, which is --train's file too; give other pairs")
    train = read_detection(args.train, "--train")
    test = read_detection(args.test, "--test") if args.test else None
    encoder = load_encoder(args.encoder, usable_device(args.device))
    trainings = args.seeds * (1 if test else args.folds)
    with Progress(trainings, "training") as bar:
        found = evaluate_detection(
            encoder.embed_text,
            train,
            test,
            folds=args.folds,
            seeds=range(args.seed, args.seed + args.seeds),
            resamples=args.resamples,
            epochs=args.epochs,
            progress=bar.update,
        )
    if args.json:
        print(json.dumps({"encoder": encoder.fingerprint, **asdict(found)}, indent=2))
    else:
        _print(args, encoder.fingerprint, found)
    return 0


def _print(args: argparse.Namespace, fingerprint: str, found: Detected) -> None:
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
        f"accuracy in percent; 95% intervals of {args.resamples} bootstrap resamples of the test "
        f"pairs;\nperceptron: mean of {args.seeds} seeds ({single})"
    )

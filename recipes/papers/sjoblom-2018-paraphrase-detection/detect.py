"""Train encoders, then tell paraphrases from other pairs by a classifier on their vectors.

python detect.py --pairs NAME=PAIRS... --sets NAME=PREFIX... [--kinds wa-words wa gran]

An encoder of each kind is trained on each file of paraphrases. Both vectors of a pair, side by
side, go into a perceptron with one hidden layer of 200 (section 4), trained on PREFIX.train.tsv and
tested on PREFIX.test.tsv, as detection_data.py split writes them. The area under the curve (AUC) is
that of the cosine, which needs no classifier.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from detection_data import Pair, read_labelled, read_pairs
from detection_encoders import KINDS, SentenceEncoder, train_encoder
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from simile_plugin.files import InputError, as_script
from simile_plugin.significance import markdown_table

HIDDEN, PASSES = 200, 20  # the paper's; ours
Labelled = tuple[list[Pair], NDArray[np.bool_]]


@dataclass(frozen=True)
class Detected:
    """Percent: accuracy of the perceptron and AUC of the cosine on the test pairs."""

    accuracy: float
    auc: float


def detect(encoder: SentenceEncoder, train: Labelled, test: Labelled, seed: int) -> Detected:
    """Train the perceptron on one set of labelled pairs, and test it on the other."""
    (known, asked), cosines = zip(
        *(vectors(encoder, part[0]) for part in (train, test)), strict=True
    )
    perceptron = make_pipeline(
        StandardScaler(), MLPClassifier(HIDDEN, max_iter=PASSES, random_state=seed)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # PASSES are few on purpose
        perceptron.fit(known, train[1])
    return Detected(
        100 * float(perceptron.score(asked, test[1])),
        100 * float(roc_auc_score(test[1], cosines[1])),
    )


def vectors(
    encoder: SentenceEncoder, pairs: Sequence[Pair]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both vectors of each pair side by side (n, 2 D), and their cosines (n,)."""
    left, right = (encoder.embed([pair[side] for pair in pairs]) for side in (0, 1))
    return torch.cat([left, right], 1).numpy(), torch.cosine_similarity(left, right).numpy()


def named_files(flag: str, words: Sequence[str]) -> dict[str, str]:
    """Return the files of NAME=FILE words by their names."""
    found = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or name in found:
            raise InputError(f"{flag}: got '{word}', expected NAME=FILE, each name once")
        found[name] = path
    return found


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, print a markdown table: means over the seeds, the accuracy of each seed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", nargs="+", required=True, metavar="NAME=PAIRS")
    parser.add_argument("--sets", nargs="+", required=True, metavar="NAME=PREFIX")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--vocab-size", type=int, default=2000, help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="of the encoders (%(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args(argv)
    sets = {
        name: [read_labelled(f"{prefix}.{part}.tsv", "--sets") for part in ("train", "test")]
        for name, prefix in named_files("--sets", args.sets).items()
    }
    grid = [["set", "encoder", "trained on", "accuracy", "by seed", "AUC"]]
    for title, path in named_files("--pairs", args.pairs).items():
        pairs = read_pairs(path)
        for kind in args.kinds:
            found: dict[str, list[Detected]] = {name: [] for name in sets}
            for seed in args.seeds:
                encoder = train_encoder(pairs, kind, args.vocab_size, args.epochs, seed)
                for name, (train, test) in sets.items():
                    found[name].append(detect(encoder, train, test, seed))
            for name, results in found.items():
                accuracies = [one.accuracy for one in results]
                by_seed = ", ".join(f"{accuracy:.1f}" for accuracy in accuracies)
                auc = f"{np.mean([one.auc for one in results]):.1f}"
                trained = f"{title}: {len(pairs):,}"
                grid.append([name, kind, trained, f"{np.mean(accuracies):.1f}", by_seed, auc])
    for name, (_, (_, labels)) in sets.items():
        positive = 100 * labels.mean()
        for answer, share in (("paraphrase", positive), ("none", 100 - positive)):
            grid.append([name, f"always '{answer}'", "-", f"{share:.1f}", "", ""])
    print(markdown_table(grid))


if __name__ == "__main__":
    sys.exit(main())

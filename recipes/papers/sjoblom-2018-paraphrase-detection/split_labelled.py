"""Split labelled pairs into training and test parts that share no sentence.

    python split_labelled.py LABELLED --output PREFIX [--test-share 0.5] [--seed 1]

For languages of which there is nothing but one labelled file: PREFIX.pairs.tsv, the paraphrases of
the training part, trains an encoder; PREFIX.train.tsv and PREFIX.test.tsv are for
simile contrib detect.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from simile_plugin.contrib.detection import (
    DetectionSet,
    group_folds,
    read_detection,
    shared_sentence_groups,
)
from simile_plugin.files import InputError, as_script, atomic_write, refuse_overwriting_input

PARTS = 20  # a test share is a number of twentieths
WRITTEN = ("train", "test", "pairs")


def split(pairs: DetectionSet, test_share: float, seed: int) -> np.ndarray:
    """Mask (n,) of the test pairs; pairs that share a sentence are on one side.

    Raises:
        InputError: if there are too few groups of such pairs.
    """
    groups = shared_sentence_groups(pairs.left, pairs.right)
    if (found := len(np.unique(groups))) < PARTS:
        raise InputError(
            f"LABELLED: {pairs.name} has {found} groups of pairs without a common sentence, "
            f"expected {PARTS} or more; give more pairs"
        )
    return group_folds(groups, PARTS, seed) < round(test_share * PARTS)


@as_script
def main() -> None:
    """Read the flags, write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("labelled", metavar="LABELLED", help="as for simile contrib detect")
    parser.add_argument("--output", required=True, metavar="PREFIX")
    parser.add_argument("--test-share", type=float, default=0.5, metavar="SHARE")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not 0.5 < args.test_share * PARTS < PARTS - 0.5:
        raise InputError(f"--test-share: got {args.test_share}, expected 0.05 to 0.95")
    for name in WRITTEN:
        refuse_overwriting_input(f"{args.output}.{name}.tsv", [args.labelled])
    pairs = read_detection(args.labelled, "LABELLED")
    test = split(pairs, args.test_share, args.seed)
    rows = list(zip(pairs.left, pairs.right, pairs.labels, test, strict=True))
    for name, side in (("train", False), ("test", True)):
        with atomic_write(f"{args.output}.{name}.tsv") as stream:
            stream.writelines(
                f"{one}\t{other}\t{int(label)}\n"
                for one, other, label, is_test in rows
                if is_test == side
            )
    with atomic_write(f"{args.output}.pairs.tsv") as stream:
        stream.writelines(
            f"{one}\t{other}\n" for one, other, label, is_test in rows if label and not is_test
        )


if __name__ == "__main__":
    sys.exit(main())

"""Compare encoders: STS, and the retrieval of translations.

python table_bgt.py NAME=ENCODER... --sts FOLDER... --test SOURCE TARGET

A row an encoder: the mean Pearson x 100 of each STS folder, and how many of the first 2,000 test
pairs have the highest cosine of all, in percent, mean of both directions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import bgt  # noqa: F401  (registers its kind)
import torch
from torch import Tensor

from simile_plugin.encoder import load_encoder
from simile_plugin.evaluation import evaluate_sts, read_sts
from simile_plugin.files import InputError, as_script, read_parallel
from simile_plugin.significance import markdown_table

PAIRS = 2000


def retrieval(left: Tensor, right: Tensor) -> float:
    """Return the share of rows, in percent, whose counterpart has the highest cosine, both ways.

    Args:
        left, right: (N, D), row by row translations.
    """
    left, right = (torch.nn.functional.normalize(side.double(), dim=1) for side in (left, right))
    cosines, rows = left @ right.T, torch.arange(len(left))
    hits = [(cosines.argmax(dim) == rows).double().mean() for dim in (0, 1)]
    return 50 * float(hits[0] + hits[1])


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("encoders", nargs="+", metavar="NAME=ENCODER", help="encoder folders")
    parser.add_argument("--sts", nargs="+", required=True, metavar="FOLDER", help="STS folders")
    parser.add_argument("--test", nargs=2, required=True, metavar="FILE", help="translations")
    args = parser.parse_args(argv)
    sets = {Path(folder).name: read_sts(Path(folder)) for folder in args.sts}
    sides = read_parallel([(path, "--test") for path in args.test])
    table = [["encoder", *sets, "retrieval %"]]
    for word in args.encoders:
        name, equals, folder = word.partition("=")
        if not equals:
            raise InputError(f"ENCODER: got '{word}', expected NAME=FOLDER")
        encoder = load_encoder(folder)
        sts = [evaluate_sts(encoder, year, part).mean_pearson for year, part in sets.items()]
        found = retrieval(*(encoder.embed_text(side[:PAIRS]) for side in sides))
        table.append([name, *(f"{value:.1f}" for value in (*sts, found))])
    print(markdown_table(table))


if __name__ == "__main__":
    sys.exit(main())

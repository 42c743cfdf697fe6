"""Print mean Pearson x 100 of encoders of any kind on folders of STS, in Markdown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import kinds  # noqa: F401 (registers them)

from simile_plugin.encoder import load_encoder
from simile_plugin.evaluation import evaluate_sts, read_sts
from simile_plugin.files import as_script
from simile_plugin.significance import markdown_table


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, print a row an encoder: each folder, then the mean of the folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoders", nargs="+", metavar="ENCODER")
    parser.add_argument("--sts", nargs="+", required=True, metavar="FOLDER")
    args = parser.parse_args(argv)
    sets = {folder: read_sts(folder) for folder in args.sts}
    rows = [["encoder", *(Path(folder).name for folder in sets), "mean"]]
    for path in args.encoders:
        encoder = load_encoder(path)
        values = [evaluate_sts(encoder, *items).mean_pearson for items in sets.items()]
        rows.append([Path(path).name, *(f"{v:.1f}" for v in (*values, sum(values) / len(values)))])
    print(markdown_table(rows))


if __name__ == "__main__":
    sys.exit(main())

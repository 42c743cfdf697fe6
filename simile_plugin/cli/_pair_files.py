"""Flags of commands that read files of sentence pairs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simile_plugin.files import InputError

if TYPE_CHECKING:
    from simile_plugin.encoder_training import Columns

FORMATS = ("tsv", "ppdb")
FIRST_TWO = "1,2"


def add_format(group: argparse._ArgumentGroup) -> None:
    """Declare --format."""
    group.add_argument(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="of the files: tsv (default), or ppdb, lines of the Paraphrase Database 1.0 or 2.0 "
        "with ||| between phrase and paraphrase; its rules with gaps ([NN,1]) are bad lines",
    )


def add_columns(group: argparse._ArgumentGroup) -> None:
    """Declare --columns and --header."""
    group.add_argument(
        "--columns",
        default=FIRST_TWO,
        metavar="LIST",
        help="columns that hold sentences, from 1: 1,2 or 2-7 or 1- (all). More than two are a "
        "cluster of sentences that mean the same, and give all its pairs (default %(default)s)",
    )
    group.add_argument(
        "--header", action="store_true", help="leave out the first line of each file"
    )


def columns_of(args: argparse.Namespace) -> Columns:
    """What --format and, where the command has it, --columns say."""
    from simile_plugin.encoder_training import PPDB, Columns

    columns = getattr(args, "columns", FIRST_TWO)
    if args.format == "ppdb":
        if columns != FIRST_TWO:
            raise InputError(
                f"--columns: got {columns} with --format ppdb, whose phrases are always the second "
                "and third field; leave it out"
            )
        return PPDB
    return Columns.parse(columns)

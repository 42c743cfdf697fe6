"""Flags of commands that preprocess sentences."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simile_plugin.encoder import Preprocessing


def add_preprocessing(group: argparse._ArgumentGroup) -> None:
    """Declare --keep-case, --no-nfkc and --no-split-punctuation."""
    group.add_argument("--keep-case", action="store_true", help="do not lowercase (papers: lower)")
    group.add_argument("--no-nfkc", action="store_true", help="no Unicode NFKC normalisation")
    group.add_argument(
        "--no-split-punctuation",
        action="store_true",
        help="leave punctuation on its word (papers: tokenised)",
    )


def preprocessing_of(args: argparse.Namespace) -> Preprocessing:
    """What the flags say."""
    from simile_plugin.encoder import Preprocessing

    return Preprocessing(
        lowercase=not args.keep_case,
        nfkc=not args.no_nfkc,
        split_punctuation=not args.no_split_punctuation,
    )

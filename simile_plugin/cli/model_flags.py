"""`simile model-flags`: what fairseq-train has to be told of the model in a checkpoint."""

from __future__ import annotations

import argparse

HELP = "print the fairseq-train flags of the model in a fairseq checkpoint, one a line"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the one argument."""
    parser.add_argument("checkpoint", metavar="MLE.pt", help="fairseq checkpoint")


def run(args: argparse.Namespace) -> int:
    """Print the flags; InputError for a file that is no checkpoint."""
    from simile_plugin.cli.user_dir import user_dir
    from simile_plugin.fairseq_hooks import read_model_flags

    print("\n".join(read_model_flags(args.checkpoint, str(user_dir()))))
    return 0

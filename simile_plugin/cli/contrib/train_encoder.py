"""`simile contrib train-encoder`: kinds, objectives and optimizers that only papers use."""

from __future__ import annotations

import argparse
import dataclasses

from simile_plugin.cli import train_encoder as core

HELP = "train-encoder with the papers' other kinds (lstm, gran, charagram), losses, optimizers"
VECTORS = {
    "charagram": "tanh(b + sum of embeddings of character n-grams, n from 2 to 4)",
    "lstm": "mean of an LSTM's states",
    "blstm": "the same in both directions",
    "gran": "mean of embeddings times a gate that a GRU computes",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile train-encoder` and the papers' own."""
    from simile_plugin.contrib.encoder_config import PaperConfig

    core.add_arguments(parser, PaperConfig)
    kinds = "\n".join(f"  {kind:<10} {text}" for kind, text in VECTORS.items())
    parser.description = (
        f"Train an encoder as `simile train-encoder` does, also of the kinds\n\n{kinds}\n\n"
        "with the objectives, negatives and optimizers that only papers use. Defaults of --lr and\n"
        "--init-std: 0.003 and 1 for lstm and blstm, 0.001, 0.1 for gran, 0.001, 0.05 for\n"
        "charagram; dropout of gran drops the same entries of all tokens of a sentence."
    )
    parser.add_argument(
        "--tokens",
        choices=("sp", "word", "trigram"),
        help="what lstm, blstm and gran read (default: sp, or what binarized pairs hold)",
    )
    parser.set_defaults(lr=None, init_std=None)  # the kind decides


def run(args: argparse.Namespace) -> int:
    """Train; exit status 0. Errors are raised as InputError or OSError."""
    from simile_plugin.contrib.encoder_config import PaperConfig
    from simile_plugin.contrib.encoder_objectives import PaperTrainer
    from simile_plugin.encoder_training import train_encoder

    options, steps = core.options_of(args, tokens=args.tokens)
    names = {field.name for field in dataclasses.fields(PaperConfig)}
    given = {name: value for name, value in vars(args).items() if name in names}
    given = {name: value for name, value in given.items() if value is not None}
    config = PaperConfig.of_kind(steps=steps, **given)
    return core.report(args, train_encoder(options, config, PaperTrainer))

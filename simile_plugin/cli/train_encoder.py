"""Train the reward encoder from paraphrase pairs.

A sentence becomes the mean of the embeddings of its sentencepiece pieces (other kinds: --kind);
training pulls the two sides of a pair together and pushes the most similar wrong sentence of a
mega-batch away (Wieting et al. 2019, "Beyond BLEU", section 3; "Simple and Effective Paraphrastic
Similarity from Parallel Translations"). The result is a folder for --encoder and `simile score`.

PAIRS may also be one folder of simile binarize-pairs, which millions of pairs need.

An interrupted run goes on when the same command is given again. A word @FILE is replaced by the
flags in FILE, one or more a line, # for comments: recipes/encoder/ has those of the papers.
torchrun --no-python --nproc-per-node 2 simile train-encoder PAIRS.bin ... uses several processes.
"""

from __future__ import annotations

import argparse
import json
import shlex

from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.files import InputError, finite_number

HELP = "train the reward encoder from a TSV of paraphrase pairs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; the papers' values stand in the help texts."""
    from simile_plugin.encoder_training import RunOptions, TrainingConfig

    parser.description = __doc__
    parser.fromfile_prefix_chars = "@"
    parser.convert_arg_line_to_args = _words  # type: ignore
    add_flags(parser, RunOptions)
    add_flags(parser, TrainingConfig)
    # One place for both, so that the later one counts: either can overrule that of an @FILE.
    parser.add_argument(
        "--epochs",
        dest="length",
        type=_epochs,
        default=(5.0, None),
        metavar="X",
        help="passes over the pairs (default 5; papers: 10 over a million pairs)",
    )
    parser.add_argument(
        "--steps",
        dest="length",
        type=_steps,
        metavar="MINIBATCHES",
        help="minibatches, instead of --epochs; of both, the later one counts (0: random vectors)",
    )
    parser.add_argument("--json", action="store_true", help="print config.json at the end")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise InputError(f"{line}: {error}") from error


def _epochs(text: str) -> tuple[float, None]:
    epochs = finite_number(text)
    if epochs is None or not 0 < epochs < 1e6:
        raise argparse.ArgumentTypeError(f"got {text}, expected a number above 0")
    return epochs, None


def _steps(text: str) -> tuple[None, int]:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text}, expected 0 or more")
    return None, int(text)


def run(args: argparse.Namespace) -> int:
    """Train; exit status 0. Errors are raised as InputError or OSError."""
    from simile_plugin.encoder import keep_freed_memory, types_of
    from simile_plugin.encoder_training import (
        RunOptions,
        TrainingConfig,
        train_encoder,
    )

    epochs, steps = args.length
    options = read_flags(args, RunOptions, epochs=epochs)
    # of --epochs, the steps are known with the number of pairs
    config = read_flags(args, TrainingConfig, steps=1 if steps is None else steps)
    if args.eval_every is not None and not options.eval_sts:
        raise InputError(
            f"--eval-every: got {args.eval_every}, but there is nothing to evaluate; add "
            "--eval-sts, or leave it out"
        )
    keep_freed_memory()
    encoder = train_encoder(options, config)
    if encoder is None:  # not the first of several processes
        return 0
    if args.json:
        print(json.dumps(encoder.config))
        return 0
    facts = encoder.training_facts
    print(
        f"{args.output}: encoder {encoder.fingerprint}, {len(encoder.segmenter)} "
        f"{types_of(encoder.segmenter.name)} x {encoder.dim}, step {facts['chosen_step']}, "
        f"mean cosine of pairs {facts['pair_cosine']:.3f}, of random sentences "
        f"{facts['random_cosine']:.3f}, {facts['seconds']:.0f} s"
    )
    return 0

"""Train the reward encoder from paraphrase pairs.

A sentence becomes the mean of the embeddings of its sentencepiece pieces (other kinds: --kind);
training pulls the two sides of a pair together and pushes the most similar wrong sentence of a
mega-batch away (Wieting et al. 2019, "Beyond BLEU", section 3; "Simple and Effective Paraphrastic
Similarity from Parallel Translations"). The result is a folder for --encoder and `simile score`.

An interrupted run goes on when the same command is given again. A word @FILE is replaced by the
flags in FILE, one or more a line, # for comments: recipes/encoder/ has those of the papers.
torchrun --no-python --nproc-per-node 2 simile train-encoder PAIRS.bin ... uses several processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from collections.abc import Sequence
from typing import Any

from simile_plugin.cli._pair_files import add_format, columns_of
from simile_plugin.cli._preprocessing import add_preprocessing, preprocessing_of
from simile_plugin.files import InputError, read_lines

HELP = "train the reward encoder from a TSV of paraphrase pairs"
VECTORS = {
    "sp": "mean of piece embeddings",
    "word": "mean of word embeddings",
    "trigram": "mean of embeddings of character trigrams",
    "charagram": "tanh(b + sum of embeddings of character n-grams, n from 2 to 4)",
    "lstm": "mean of an LSTM's states",
    "blstm": "the same in both directions",
    "gran": "mean of embeddings times a gate that a GRU computes",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile train-encoder`; the papers' values stand in the help texts."""
    parser.description = __doc__
    _read_flag_files(parser)
    data = parser.add_argument_group("data")
    data.add_argument(
        "pairs",
        nargs="+",
        metavar="PAIRS",
        help="files of sentence TAB paraphrase, further columns ignored, or of --format (plain, "
        ".gz, .zst or -); or one folder of simile binarize-pairs, which millions of pairs need",
    )
    add_format(data)
    data.add_argument("--output", required=True, metavar="DIR", help="encoder folder to write")
    data.add_argument(
        "--overwrite", action="store_true", help="replace the encoder that is in --output"
    )
    data.add_argument(
        "--restart", action="store_true", help="forget the state of an interrupted run"
    )
    data.add_argument(
        "--strict", action="store_true", help="stop at the first bad line instead of skipping it"
    )
    _add_kind(parser.add_argument_group("encoder"))
    text = parser.add_argument_group("text")
    text.add_argument(
        "--vocab-size",
        type=int,
        metavar="TYPES",
        help="pieces, words or n-grams, the most frequent of the pairs; fewer if the text has not "
        "so many (default: 8000 pieces, papers: 30000 for millions of pairs; 200000 words or "
        "n-grams, as in the papers)",
    )
    text.add_argument(
        "--sentencepiece", metavar="MODEL", help="use this sentencepiece model, train none"
    )
    add_preprocessing(text)
    _add_training(parser.add_argument_group("training"))
    _add_control(parser.add_argument_group("control"))
    parser.set_defaults(**_defaults())


def _add_kind(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--kind",
        help="what makes a vector of a sentence (default %(default)s). "
        + "; ".join(f"{kind}: {text}" for kind, text in VECTORS.items())
        + ". Mixtures of those without order: sp+trigram",
    )
    group.add_argument(
        "--mix",
        choices=("add", "concat"),
        help="the vectors of the parts of a mixture, trained together (default %(default)s)",
    )
    group.add_argument(
        "--tokens",
        choices=("sp", "word", "trigram"),
        help="what lstm, blstm and gran read: sentencepiece pieces (default for TSV files), words "
        "or character trigrams",
    )
    group.add_argument(
        "--hidden",
        type=int,
        metavar="SIZE",
        help="of a recurrent state (default: as --dim; papers: 150 for both directions of blstm, "
        "side by side)",
    )
    group.add_argument(
        "--combine",
        choices=("mean", "concat"),
        help="both directions of blstm (default %(default)s)",
    )
    group.add_argument(
        "--scramble",
        type=float,
        metavar="P",
        help="shuffle the tokens of a training sentence with this probability, for lstm, blstm and "
        "gran: the other kinds do not see the order (default %(default)s; Wieting et al. 2019, "
        "Simple and Effective: 0.3)",
    )


class _Length(argparse.Action):
    """--epochs and --steps forget each other, so that either can overrule the one of an @FILE."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set one, clear the other."""
        namespace.epochs = namespace.steps = None
        setattr(namespace, self.dest, values)


def _read_flag_files(parser: argparse.ArgumentParser) -> None:
    """Have words @FILE replaced by the flags in FILE before the parser sees them."""
    parse = parser.parse_args
    setattr(parser, "parse_args", lambda words: parse(_with_flag_files(words)))  # noqa: B010


def _with_flag_files(words: Sequence[str], within: tuple[str, ...] = ()) -> list[str]:
    found: list[str] = []
    for word in words:
        if not word.startswith("@"):
            found.append(word)
            continue
        path = os.path.realpath(word[1:])
        if path in within:
            raise InputError(f"{word}: names itself, or a file that names it; take that line out")
        for number, line in enumerate(read_lines(word[1:], word), 1):
            try:
                flags = shlex.split(line, comments=True)
            except ValueError as error:
                raise InputError(f"{word}: line {number}: {error}") from error
            found += _with_flag_files(flags, (*within, path))
    return found


def _defaults() -> dict[str, Any]:
    """Those of TrainingConfig; what depends on the kind, or on other flags, is None."""
    from simile_plugin.encoder_training import TrainingConfig

    fields = dataclasses.fields(TrainingConfig)
    given = {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}
    return given | dict.fromkeys(("lr", "init_std", "eval_every"))


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dim", type=int, help="length of a vector (default and papers: %(default)s)"
    )
    group.add_argument(
        "--epochs",
        type=float,
        default=5.0,
        action=_Length,
        help="passes over the pairs (default 5; papers: 10 over a million pairs)",
    )
    group.add_argument(
        "--steps",
        type=int,
        action=_Length,
        help="minibatches, instead of --epochs; of both, the later one counts (0: random vectors)",
    )
    group.add_argument(
        "--batch-size",
        type=int,
        metavar="PAIRS",
        help="pairs of a minibatch (default and the papers' code: %(default)s)",
    )
    group.add_argument(
        "--margin",
        type=float,
        metavar="COSINE",
        help="delta of the loss (default and papers: %(default)s)",
    )
    group.add_argument(
        "--megabatch",
        type=int,
        metavar="M",
        help="negatives are the most similar sentences of M minibatches (default %(default)s; "
        "papers: 60)",
    )
    group.add_argument(
        "--megabatch-anneal",
        type=int,
        metavar="MINIBATCHES",
        help="M starts at 1 and grows by 1 every so many minibatches; too fast, and the encoder "
        "collapses to one point (default %(default)s; papers: 150)",
    )
    group.add_argument(
        "--pool",
        choices=("other", "all"),
        help="where negatives come from: the other side of the pairs, or both sides (default "
        "%(default)s; papers: other for pairs of two languages, all for paraphrases)",
    )
    group.add_argument(
        "--negatives",
        choices=("max", "mix", "rand"),
        help="max: the most similar of the pool; rand: any of it; mix: one or the other "
        "(default and Beyond BLEU: max)",
    )
    group.add_argument(
        "--objective",
        choices=("margin", "mnr", "contrastive"),
        help="margin: the papers' hinge with mined negatives (default); mnr: multiple-negatives "
        "ranking, a softmax over the minibatch, without mining; contrastive: distances of pairs "
        "and, squared, of negatives within the margin (Opusparcus' paper: with --negatives rand)",
    )
    group.add_argument(
        "--scale",
        type=float,
        help="of the cosines in mnr's softmax (default %(default)g)",
    )
    group.add_argument(
        "--lr",
        type=float,
        help="learning rate (default 0.005; 0.003 for lstm and blstm, 0.001 for "
        "charagram and gran; papers: 0.001; PARAGRAM-PHRASE with adagrad: 0.05)",
    )
    group.add_argument(
        "--optimizer",
        choices=("adam", "adagrad"),
        help="adam (default; most papers) or adagrad (PARAGRAM-PHRASE XXL)",
    )
    group.add_argument(
        "--lr-schedule",
        choices=("linear", "constant"),
        help="linear: falls to 0 at the end (default; papers: constant)",
    )
    group.add_argument(
        "--init-std",
        type=float,
        metavar="STD",
        help="standard deviation of the initial embeddings; of averages only lr / init-std counts, "
        "for the loss sees only cosines (default 1, as torch's nn.Embedding; 0.1 for gran, 0.05 "
        "for charagram)",
    )
    group.add_argument(
        "--init-embeddings",
        metavar="FILE",
        help="begin with these vectors (lines of a token and as many numbers as --dim, as word2vec "
        "and GloVe write them; or an encoder folder), random ones for tokens that are not there "
        "(ParaNMT: PARAGRAM-SL999)",
    )
    group.add_argument(
        "--dropout",
        type=float,
        metavar="P",
        help="drop entries of the token embeddings; for gran the same entries of all tokens of a "
        "sentence (variational dropout) (default %(default)s; papers: 0 to 0.3; slower)",
    )
    group.add_argument(
        "--l2-initial",
        type=float,
        metavar="LAMBDA",
        help="add LAMBDA / 2 times the squared distance from the initial embeddings (default "
        "%(default)g; slower)",
    )
    group.add_argument(
        "--mine-per-process",
        action="store_true",
        help="under torchrun: each process looks for negatives in its share of the mega-batch "
        "only. Without it the result does not depend on the number of processes",
    )
    group.add_argument(
        "--seed", type=int, help="of initial embeddings and order (default %(default)s)"
    )
    group.add_argument(
        "--device", default="cpu", help="torch device, e.g. cuda (default %(default)s)"
    )


def _add_control(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--eval-sts",
        nargs="+",
        default=[],
        metavar="DIR",
        help="STS folders; the checkpoint with the best mean Pearson is kept (papers: STS 2017 "
        "en-en). What you choose by is no test set any more",
    )
    group.add_argument(
        "--eval-every",
        type=int,
        metavar="MINIBATCHES",
        help="between evaluations (default: 20 evaluations in a run)",
    )
    group.add_argument(
        "--save-every",
        type=int,
        metavar="MINIBATCHES",
        help="between states in DIR.training to go on from, 0: none (default %(default)s)",
    )
    group.add_argument(
        "--log-every",
        type=int,
        metavar="MINIBATCHES",
        help="that a line of the log (DIR/training.jsonl) sums up (default %(default)s)",
    )
    group.add_argument(
        "--tensorboard-logdir", metavar="DIR", help="write TensorBoard's files there as well"
    )
    group.add_argument("--json", action="store_true", help="print config.json at the end")


def _tokens(args: argparse.Namespace) -> str:
    """What the encoder reads: its kind decides, or --tokens, or the binarized pairs."""
    from simile_plugin.encoder import check_kind, possible_tokens
    from simile_plugin.encoder_training import are_binarized, binarized_segmenter

    try:
        check_kind(args.kind)
    except ValueError as error:
        raise InputError(f"--{error}") from error
    possible = possible_tokens(args.kind)
    if args.tokens is not None and args.tokens not in possible:
        raise InputError(
            f"--tokens: got {args.tokens} with --kind {args.kind}, which reads {possible[0]}; "
            "leave it out, or use --kind lstm, blstm or gran"
        )
    if args.tokens is not None or len(possible) == 1:
        return args.tokens or possible[0]
    if are_binarized(args.pairs):
        return binarized_segmenter(args.pairs[0]).name
    return "sp"


def _check_flags(args: argparse.Namespace, tokens: str) -> None:
    """Raise for flags that would be of no effect beside the others."""
    from simile_plugin.encoder import MIX
    from simile_plugin.encoder_training import are_binarized

    if are_binarized(args.pairs):
        if args.format != "tsv":
            raise InputError(
                f"--format: got {args.format}, but {args.pairs[0]} is binarized; leave the flag out"
            )
        for name in ("vocab_size", "keep_case", "no_nfkc", "no_split_punctuation"):
            if getattr(args, name):
                raise InputError(
                    f"--{name.replace('_', '-')}: {args.pairs[0]} is binarized, which decided it; "
                    "leave the flag out, or binarize the pairs again"
                )
    if args.sentencepiece is not None and "sp" not in tokens.split(MIX):
        raise InputError(
            f"--sentencepiece: got {args.sentencepiece}, but the tokens of this encoder are "
            f"{tokens}; leave it out"
        )
    if args.sentencepiece is not None and tokens == "sp" and args.vocab_size is not None:
        raise InputError(
            f"--vocab-size: got {args.vocab_size}, but the pieces are those of --sentencepiece "
            f"{args.sentencepiece}; leave one of them out"
        )
    if args.vocab_size is not None and args.vocab_size < 1:
        raise InputError(f"--vocab-size: got {args.vocab_size}, expected 1 or more")
    if args.eval_sts and args.eval_every == 0:
        raise InputError(
            "--eval-every: got 0, with which --eval-sts would never be looked at; expected 1 or "
            "more, or no --eval-sts"
        )
    if args.eval_every and not args.eval_sts:
        raise InputError(
            f"--eval-every: got {args.eval_every}, but there is nothing to evaluate; add "
            "--eval-sts, or leave it out"
        )
    if args.steps is None and not 0 < args.epochs < 1e6:
        raise InputError(f"--epochs: got {args.epochs:g}, expected a number above 0")


def run(args: argparse.Namespace) -> int:
    """Train; exit status 0. Errors are raised as InputError or OSError."""
    import json

    from simile_plugin.encoder import types_of
    from simile_plugin.encoder_training import (
        RunOptions,
        TrainingConfig,
        keep_freed_memory,
        train_encoder,
    )

    tokens = _tokens(args)
    _check_flags(args, tokens)
    given = {name: getattr(args, name) for name in _defaults() if getattr(args, name) is not None}
    # of --epochs, the steps are known with the number of pairs
    config = TrainingConfig.of_kind(steps=1 if args.steps is None else args.steps, **given)
    options = RunOptions(
        pairs=tuple(args.pairs),
        output=args.output,
        preprocessing=preprocessing_of(args),
        tokens=tokens,
        vocab_size=args.vocab_size or (8000 if tokens == "sp" else 0),
        epochs=args.epochs,
        sentencepiece=args.sentencepiece,
        eval_sts=tuple(args.eval_sts),
        strict=args.strict,
        overwrite=args.overwrite,
        restart=args.restart,
        device=args.device,
        tensorboard=args.tensorboard_logdir,
        initial=args.init_embeddings,
        columns=columns_of(args),
    )
    keep_freed_memory()
    encoder = train_encoder(options, config)
    if encoder is None:  # not the first of several processes
        return 0
    if args.json:
        print(json.dumps(encoder.config))
    else:
        facts = encoder.training_facts
        print(
            f"{args.output}: encoder {encoder.fingerprint}, {len(encoder.segmenter)} "
            f"{types_of(encoder.segmenter.name)} x {encoder.dim}, step {facts['chosen_step']}, "
            f"mean cosine of pairs {facts['pair_cosine']:.3f}, of random sentences "
            f"{facts['random_cosine']:.3f}, {facts['seconds']:.0f} s"
        )
    return 0

"""Flags that the commands over files of sentence pairs share, as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from simile_plugin.encoder import Preprocessing
from simile_plugin.encoder_training.config import COUNT, training
from simile_plugin.encoder_training.tsv import Columns
from simile_plugin.files import FILE, InputError, check_fields, option

data, text = partial(option, group="data"), partial(option, group="text")


@dataclass(frozen=True)
class PairFiles:
    """Files of sentence pairs."""

    pairs: list[str] = option(
        "files of sentence TAB paraphrase, further columns ignored (plain, .gz, .zst or -)",
        group="data",
        names=["pairs"],
        metavar="PAIRS",
        range=FILE,
    )
    strict: bool = data("stop at the first bad line instead of skipping it", False)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class ColumnFiles(PairFiles):
    """Files of which some columns hold sentences, read by several processes."""

    columns: str = data(
        "columns that hold sentences, from 1: 1,2 or 2-7 or 1- (all). More than two are a "
        "cluster of sentences that mean the same, and give all its pairs (default %(default)s)",
        "1,2",
        metavar="LIST",
    )
    header: bool = data("leave out the first line of each file", False)
    workers: int | None = data(
        "processes (default: one for each core, one for a small input)", None, range=COUNT
    )

    @property
    def chosen(self) -> Columns:
        """The columns of --columns."""
        return Columns.parse(self.columns)


@dataclass(frozen=True)
class TextOptions:
    """Flags that decide the tokens of sentences."""

    vocab_size: int | None = text(
        "pieces, words or n-grams, the most frequent ones; fewer if the text has not so many "
        "(default: 8000 pieces of train-encoder, 30000 of binarize-pairs as in the papers; 200000 "
        "words or n-grams)",
        None,
        range=COUNT,
        metavar="TYPES",
    )
    sentencepiece: str | None = text(
        "use this sentencepiece model, train none", None, range=FILE, metavar="MODEL"
    )
    keep_case: bool = text("do not lowercase (papers: lower)", False)
    no_nfkc: bool = text("no Unicode NFKC normalisation", False)
    no_split_punctuation: bool = text("leave punctuation on its word (papers: tokenised)", False)

    @property
    def preprocessing(self) -> Preprocessing:
        """The normalisation that the flags choose."""
        return Preprocessing(
            lowercase=not self.keep_case,
            nfkc=not self.no_nfkc,
            split_punctuation=not self.no_split_punctuation,
        )

    def check_tokens(self, tokens: str) -> None:
        """Raise InputError for a flag that such tokens do not use."""
        if self.sentencepiece is not None and "sp" not in tokens.split("+"):
            raise InputError(
                f"--sentencepiece: got {self.sentencepiece}, but the tokens of this encoder are "
                f"{tokens}; leave it out"
            )
        if self.sentencepiece is not None and tokens == "sp" and self.vocab_size is not None:
            raise InputError(
                f"--vocab-size: got {self.vocab_size}, but the pieces are those of --sentencepiece "
                f"{self.sentencepiece}; leave one of them out"
            )


@dataclass(frozen=True)
class RunOptions(TextOptions, PairFiles):
    """Input and output of a training; TrainingConfig has the settings that decide the result.

    ``pairs`` are TSV files, or a folder of binarize_pairs, which millions of pairs need.

    Attributes:
        epochs: passes over the pairs; None for TrainingConfig.steps.
    """

    output: str = data("encoder folder to write", metavar="DIR", range=FILE)
    overwrite: bool = data("replace the encoder that is in --output", False)
    restart: bool = data("forget the state of an interrupted run", False)
    init_embeddings: str | None = training(
        "begin with these vectors (lines of a token and as many numbers as --dim, as word2vec and "
        "GloVe write them; or an encoder folder), random ones for tokens that are not there "
        "(ParaNMT: PARAGRAM-SL999)",
        None,
        metavar="FILE",
        range=FILE,
    )
    device: str = training("torch device, e.g. cuda", "cpu")
    eval_sts: list[str] = option(
        "STS folders; the checkpoint with the best mean Pearson is kept (papers: STS 2017 en-en). "
        "What you choose by is no test set any more",
        [],
        group="control",
        nargs="+",
        metavar="DIR",
        range=FILE,
    )
    epochs: float | None = None

"""Flags of a fine-tuning beside those of the risk: what both frameworks share, and what one has."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from simile_plugin.files import FILE, SEED, Range, option
from simile_plugin.finetuning.presets import PRESETS

COUNT, NOT_NEGATIVE, ABOVE_0 = Range.at_least(1), Range.at_least(0), Range.above(0)
SHARE = Range(lambda x: 0 < x < 1, "a number above 0 and below 1")
training = functools.partial(option, group="training")


@dataclass
class Options:
    """Flags of every fine-tuning beside those of the risk.

    max_updates is None where the preset counts in epochs: see `make_story`.
    """

    output: str = option(
        "folder of the run; the same command goes on with one that was stopped",
        metavar="RUN",
        range=FILE,
    )
    preset: str = option(
        "settings that belong together: long has four times the updates of short, paper has the "
        "paper's objective",
        "short",
        choices=list(PRESETS),
    )
    max_updates: int | None = training("number of updates", 600, range=COUNT)
    batch_size: int = training("sentences of a batch on each device", 30, range=COUNT)
    update_freq: int = training(
        "batches whose gradients are accumulated for an update", 1, range=COUNT
    )
    learning_rate: float = training(
        "learning rate of Adam; presets short and long: finetune 2e-4, finetune-hf 2e-5, with "
        "--lora 1e-3; paper: half of these",
        2e-4,
        range=ABOVE_0,
    )
    schedule: str = training(
        "course of the learning rate: linear falls to 0", "linear", choices=["linear", "constant"]
    )
    max_grad_norm: float = training(
        "largest norm of the gradient, to which it is clipped (0: never)", 5.0, range=NOT_NEGATIVE
    )
    valid_interval: int = training(
        "updates between validations, which translate by the beam of training and save the model",
        100,
        range=COUNT,
    )
    patience: int = training(
        "end the training after as many validations in a row without a better BLEU (0: never); "
        "the 600 updates of --preset short have fewer",
        10,
        range=NOT_NEGATIVE,
    )
    log_interval: int = training(
        "updates between log lines, by which finetune tells the time that is left",
        5,
        range=COUNT,
    )
    seed: int = training("random seed of shuffling, dropout and sampling", 1, range=SEED)
    seeds: int = training(
        "number of trainings, by --seed and the seeds after it, one after the other in RUN/seed.K; "
        "the mean of their weights is one model, as fast as each",
        1,
        range=COUNT,
    )
    bf16: bool = training("train in mixed precision (bfloat16)", False)
    fp16: bool = training("train in mixed precision (float16), with a loss scale", False)


@dataclass
class FairseqOptions(Options):
    """Flags of `simile finetune` beside those of the risk."""

    data: str = option(
        "folder that fairseq-preprocess has written", metavar="DATA-BIN", names=["data"]
    )
    model: str = option("checkpoint to begin from", metavar="MLE.pt", names=["model"], range=FILE)
    train: str | None = option(
        "pairs to train on in the place of DATA-BIN's: another folder by fairseq-preprocess, with "
        "the same dictionaries, or PREFIX of two text files, PREFIX.SRC and PREFIX.TGT, in the "
        "pieces of DATA-BIN",
        None,
        metavar="OTHER-PAIRS",
        range=FILE,
    )
    monolingual: str | None = option(
        "sources without references (--risk-monolingual of fairseq-train; its share, "
        "--risk-monolingual-share, by --fairseq-flags)",
        None,
        metavar="PREFIX",
    )
    fairseq_flags: str = option(
        "more flags of fairseq-train, which have the last word over those set here, with = and in "
        "quotes",
        "",
    )


@dataclass
class HuggingFaceOptions(Options):
    """Flags of `simile finetune-hf` beside those of the risk.

    lora: 0 trains the whole model. max_length: no more than the model can read or write.
    """

    model: str = option("folder, or name of a model on the hub", metavar="MODEL", names=["model"])
    train: tuple[str, str] = option(
        "training pairs: two files, one sentence a line, in one order",
        metavar=("SRC", "TGT"),
        range=FILE,
    )
    valid: tuple[str, str] | None = option(
        "validation pairs, in two files alike", None, metavar=("SRC", "TGT"), range=FILE
    )
    monolingual: str | None = option(
        "more sources, without references: only their risk is trained on, by a --reward that reads "
        "none (source, your own function)",
        None,
        range=FILE,
    )
    monolingual_share: float = option(
        "share of these sources among all sentences", 0.5, range=SHARE, metavar="SHARE"
    )
    source_lang: str | None = option(
        "language of the sources, as the tokenizer names it", None, metavar="CODE"
    )
    target_lang: str | None = option(
        "language of the targets, as the tokenizer names it", None, metavar="CODE"
    )
    prefix: str = option("text to put before every source (T5's task, or OPUS-MT's '>>fra<< ')", "")
    max_length: int = training("most tokens of a sentence; a longer one is cut", 128, range=COUNT)
    target_pieces: str = training(
        "pieces of which candidates are made and over which they are scored. auto: those of the "
        "references, characters and tags, if the vocabulary has 100,000 or more. all: the whole "
        "vocabulary. FILE: those of auto, and the file's, one a line. The saved model is whole",
        "auto",
        metavar="auto|all|FILE",
    )
    lora: int = training(
        "rank of adapters that train in place of the model, in all linear layers but the output "
        "layer; alpha is 8, without dropout (default 0: none)",
        0,
        range=NOT_NEGATIVE,
    )
    push_to_hub: bool = option(
        "upload RUN to the hub when its model is saved (needs a token: hf auth login)", False
    )
    hub_model_id: str | None = option(
        "name on the hub, NAME or ORGANISATION/NAME (default: that of RUN)", None, metavar="NAME"
    )

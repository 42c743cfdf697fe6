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
        "folder of the run; one that was stopped goes on", metavar="RUN", range=FILE
    )
    preset: str = option("settings that belong together", "short", choices=list(PRESETS))
    max_updates: int | None = training("updates", 600, range=COUNT)
    batch_size: int = training("sentences of a batch on each device", 30, range=COUNT)
    update_freq: int = training("batches an update", 1, range=COUNT)
    learning_rate: float = training(
        "of Adam (finetune-hf: a tenth of it, with --lora 1e-3)", 2e-4, range=ABOVE_0
    )
    schedule: str = training(
        "of the rate: linear falls to 0", "linear", choices=["linear", "constant"]
    )
    max_grad_norm: float = training("clips the gradient's norm (0: never)", 5.0, range=NOT_NEGATIVE)
    valid_interval: int = training(
        "updates between validations, by the beam of training; they are saved, too",
        100,
        range=COUNT,
    )
    patience: int = training(
        "validations in a row without a better BLEU that end the training (0: none do); "
        "the 600 updates of --preset short have fewer",
        10,
        range=NOT_NEGATIVE,
    )
    log_interval: int = training("updates between log lines", 10, range=COUNT)
    seed: int = training("of shuffling, dropout and sampling", 1, range=SEED)
    seeds: int = training(
        "trainings, by --seed and the seeds after it, one after the other in RUN/seed.K; the mean "
        "of their weights is one model, as fast as each",
        1,
        range=COUNT,
    )
    bf16: bool = training("mixed precision", False)
    fp16: bool = training("mixed precision, with a loss scale", False)


@dataclass
class FairseqOptions(Options):
    """Flags of `simile finetune` beside those of the risk."""

    data: str = option("folder by fairseq-preprocess", metavar="DATA-BIN", names=["data"])
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
        "more flags of fairseq-train, which go before those set here, with = and in quotes", ""
    )


@dataclass
class HuggingFaceOptions(Options):
    """Flags of `simile finetune-hf` beside those of the risk.

    lora: 0 trains the whole model. max_length: no more than the model can read or write.
    """

    model: str = option("folder, or name of a model on the hub", metavar="MODEL", names=["model"])
    train: tuple[str, str] = option("pairs", metavar=("SRC", "TGT"), range=FILE)
    valid: tuple[str, str] | None = option(
        "validation pairs", None, metavar=("SRC", "TGT"), range=FILE
    )
    monolingual: str | None = option(
        "more sources, without references: only their risk is trained on, by a --reward that reads "
        "none (source, your own function)",
        None,
        range=FILE,
    )
    monolingual_share: float = option(
        "of these sources among all sentences", 0.5, range=SHARE, metavar="SHARE"
    )
    source_lang: str | None = option("language of the sources", None, metavar="CODE")
    target_lang: str | None = option("language of the targets", None, metavar="CODE")
    prefix: str = option("put before every source (T5)", "")
    max_length: int = training("tokens of a sentence; what is longer is cut", 128, range=COUNT)
    target_pieces: str = training(
        "pieces of which candidates are made and over which they are scored: those of the target "
        "language (auto: its references', characters and tags, where the vocabulary has 100,000 or "
        "more), all, or a FILE with one a line beside them; the model that is saved is whole",
        "auto",
        metavar="auto|all|FILE",
    )
    lora: int = training(
        "rank of adapters that train in place of the model (default 0: none)", 0, range=NOT_NEGATIVE
    )
    push_to_hub: bool = option(
        "upload RUN to the hub when its model is saved (needs a token: hf auth login)", False
    )
    hub_model_id: str | None = option(
        "its name there, NAME or ORGANISATION/NAME (default: that of RUN)", None, metavar="NAME"
    )

"""One training run: from TSV files or binarised pairs to an encoder folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import torch

import simile_plugin
from simile_plugin.encoder import (
    WEIGHTS,
    Encoder,
    Tokenizer,
    find_kind,
    save_encoder,
    types_of,
    usable_device,
)
from simile_plugin.encoder_training.binarized import are_binarized, open_binarized
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.initial import initial_embeddings
from simile_plugin.encoder_training.learner import rank_and_world
from simile_plugin.encoder_training.loop import TrainingRun, finished_encoder
from simile_plugin.encoder_training.options import RunOptions, TextOptions
from simile_plugin.encoder_training.pairs import (
    BadLines,
    Pairs,
    TextPairs,
    read_pairs,
    read_sentencepiece,
    say,
    segment_pairs,
    train_tokenizer,
)
from simile_plugin.encoder_training.run_folder import RunFolder
from simile_plugin.encoder_training.trainer import Trainer
from simile_plugin.evaluation import check_sts, read_sts
from simile_plugin.files import (
    InputError,
    flag_name,
    refuse_overwriting_input,
    refuse_twice,
    refuse_unasked_overwrite,
)

TRAINING_LOG = "training.jsonl"  # the log's name in the finished encoder folder
PIECES = 8000  # of a sentencepiece model, unless --vocab-size says otherwise


def train_encoder(options: RunOptions, config: TrainingConfig) -> Encoder | None:
    """Read pairs, train, write the encoder folder.

    Args:
        config: how; its steps follow from the number of pairs if options.epochs is given.

    Returns:
        the encoder that was written; None in all processes but the first.

    Raises:
        InputError: for bad input, a run folder of other flags, or a collapsed encoder.
    """
    with processes(options.device) as (rank, device), RunFolder(options.output, rank) as folder:
        _check_output(options)
        if not options.restart:
            preprocessing = folder.preprocessing(options.preprocessing)
            options = replace(options, drop_invisible=preprocessing.drop_invisible)
        refuse_twice(options.eval_sts, "--eval-sts")
        sts = {path: read_sts(path, "--eval-sts") for path in options.eval_sts}
        for path, sets in sts.items():
            check_sts(sets, f"--eval-sts: {path}")
        tokens = find_kind(config.kind).tokens[0]
        read, tokenizer = _read(options, tokens)
        config = config.for_pairs(len(read), options.epochs, bool(sts))
        _check_pairs(read, config)
        folder.open(_identity(options, config, tokens, read.digest), options.restart)
        if isinstance(read, TextPairs):
            tokenizer, pairs = _segmented(read, options, tokens, folder)
        else:
            pairs = read
        assert tokenizer is not None
        _check_memory(len(tokenizer), config, folder)
        initial = None
        if options.init_embeddings is not None:
            initial = initial_embeddings(options.init_embeddings, tokenizer, config)
        trainer = Trainer(config, pairs, tokenizer.sizes, device, initial)
        weight, result = TrainingRun(trainer, tokenizer, folder, sts).train()
        if rank > 0:
            return None
        facts = {
            **_facts(read, options),
            "pairs": len(pairs),
            "flags": asdict(config),
            "processes": trainer.world,
            "simile_plugin": simile_plugin.__version__,
            "torch": torch.__version__,
        }
        if options.init_embeddings is not None:
            facts["init_embeddings"] = options.init_embeddings
        encoder = finished_encoder(weight.cpu(), tokenizer, config, facts | result)
        unknown = ~tokenizer.known(np.arange(len(tokenizer)))
        encoder.weight.data[torch.from_numpy(unknown)] = 0  # never trained, and left out
        save_encoder(options.output, encoder, {TRAINING_LOG: folder.log_path.read_bytes()})
        folder.remove()
        return encoder


@contextlib.contextmanager
def processes(device: str) -> Iterator[tuple[int, torch.device]]:
    """Join the processes that torchrun started, if it did.

    Yields:
        the number of this process, and its device: one of "cuda" each.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, usable_device(device)
        return
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    usable = usable_device(device)
    torch.distributed.init_process_group("nccl" if usable.type == "cuda" else "gloo")
    try:
        yield torch.distributed.get_rank(), usable
    finally:
        torch.distributed.destroy_process_group()


def _check_output(options: RunOptions) -> None:
    initial = () if options.init_embeddings is None else (options.init_embeddings,)
    refuse_overwriting_input(options.output, (*options.pairs, *options.eval_sts, *initial))
    refuse_unasked_overwrite(options.output, WEIGHTS, "an encoder", options.overwrite)


def _read(options: RunOptions, tokens: str) -> tuple[TextPairs | Pairs, Tokenizer | None]:
    """Return text, or pairs of a folder and its tokeniser."""
    if not are_binarized(options.pairs):
        options.check_tokens(tokens)
        return _read_text(options), None
    for field in fields(TextOptions):
        if "help" in field.metadata and getattr(options, field.name):
            raise InputError(
                f"{flag_name(field.name)}: {options.pairs[0]} is binarized, which decided it; "
                "leave the flag out, or binarize the pairs again"
            )
    pairs, tokenizer = open_binarized(options.pairs[0])
    if tokenizer.name != tokens:
        raise InputError(
            f"{options.pairs[0]}: holds {types_of(tokenizer.name)}, expected {types_of(tokens)}; "
            f"binarize the pairs again with --tokens {tokens}, or train an encoder of "
            f"{types_of(tokenizer.name)}"
        )
    say(f"{len(pairs)} binarized pairs, {len(tokenizer)} {types_of(tokenizer.name)}")
    return pairs, tokenizer


def _read_text(options: RunOptions) -> TextPairs:
    for path in filter(os.path.isdir, options.pairs):
        raise InputError(
            f"{path}: is a folder, expected TSV files, or one folder of binarize-pairs alone"
        )
    if rank_and_world()[1] > 1:
        raise InputError(
            f"{options.pairs[0]}: several processes need binarized pairs, expected one folder; "
            "make it with simile binarize-pairs"
        )
    bad = BadLines(options.strict)
    pairs = read_pairs(options.pairs, options.preprocessing, bad)
    bad.warn()
    say(f"{len(pairs)} pairs of {len(pairs.sentences)} distinct sentences")
    return pairs


def _vocab_size(options: RunOptions, tokens: str) -> int:
    return options.vocab_size or (PIECES if tokens == "sp" else 0)  # 0: the papers' sizes


def _segmented(
    read: TextPairs, options: RunOptions, tokens: str, folder: RunFolder
) -> tuple[Tokenizer, Pairs]:
    """Return the tokeniser, given or of the interrupted run or trained now, and the tokens."""
    tokenizer = folder.tokenizer(tokens, options.preprocessing)
    if tokenizer is None:
        given = read_sentencepiece(options.sentencepiece, options.preprocessing)
        size = _vocab_size(options, tokens)
        tokenizer = train_tokenizer(tokens, read.sentences, options.preprocessing, size, given)
        folder.save_tokenizer(tokenizer)
    pairs = segment_pairs(read, tokenizer)
    if len(pairs) < len(read):
        say(
            f"warning: {len(read) - len(pairs)} pairs dropped: a side has no "
            f"{types_of(tokenizer.name)[:-1]} of the model"
        )
    return tokenizer, pairs


def _check_pairs(read: TextPairs | Pairs, config: TrainingConfig) -> None:
    """Raise InputError unless a pair can be trained against the sentences of another one."""
    if isinstance(read, Pairs):
        same = bool(((read.hashes == read.hashes[0]) | (read.hashes == read.hashes[1])).all())
    else:
        same = len(read.sentences) < 3
    if same and config.steps:
        raise InputError(
            f"got {len(read)} pairs of the same two sentences, expected different pairs: there is "
            "nothing to tell these apart from, so that nothing would be learned; give more text"
        )


def _check_memory(tokens: int, config: TrainingConfig, folder: RunFolder) -> None:
    """Raise InputError if the embeddings and Adam's two moments of them do not fit."""
    needed = 3 * 4 * tokens * config.dim
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        folder.abandon()
        raise InputError(
            f"--dim: got {config.dim}: training {tokens} embeddings takes {needed / 2**30:,.0f} "
            f"GiB of memory, and this computer has {there / 2**30:,.0f}; take fewer dimensions"
        )


def _facts(read: TextPairs | Pairs, options: RunOptions) -> dict[str, Any]:
    """Return what config.json says of the data."""
    if isinstance(read, Pairs):
        return {"data": read.digest, "sentencepiece": "of the binarized pairs"}
    return {
        "data": read.digest,
        "sentences": len(read.sentences),
        "skipped_lines": read.skipped,
        "sentencepiece": "given" if options.sentencepiece else "trained on the pairs",
    }


def _identity(
    options: RunOptions, config: TrainingConfig, tokens: str, digest: str
) -> dict[str, Any]:
    """Return what must be equal for a run to go on from another's state; keys read as flags."""
    identity = {name.replace("_", "-"): value for name, value in asdict(config).items()}
    identity |= {"eval-every": config.eval_every or 0, "pairs": digest}
    identity |= {"eval-sts": list(options.eval_sts), "init-embeddings": options.init_embeddings}
    if not are_binarized(options.pairs):
        identity["tokens"] = tokens
        identity["vocab-size"] = _vocab_size(options, tokens)
        identity["sentencepiece"] = options.sentencepiece
        identity["preprocessing"] = options.preprocessing.facts
    return identity

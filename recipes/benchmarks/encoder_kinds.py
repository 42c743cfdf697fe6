"""Times training and encoding of every kind of encoder; called by encoder_kinds.sh."""

from __future__ import annotations

import argparse
import sys
import time
from itertools import cycle, islice
from typing import Any

import torch

from simile_plugin.encoder import Encoder, Preprocessing, possible_tokens
from simile_plugin.encoder_training import (
    DENSE_STEPS,
    TextPairs,
    Trainer,
    TrainingConfig,
    keep_freed_memory,
    read_pairs,
    segment_pairs,
    train_tokenizer,
)
from simile_plugin.significance import markdown_table

KINDS = ("sp", "word", "trigram", "charagram", "sp+trigram", "lstm", "blstm", "gran")
BATCH = 128
PREPROCESSING = Preprocessing()
WARM_UP = 3  # steps, and batches, that are not timed


def training_speed(trainer: Trainer, seconds: float) -> float:
    """Pairs a second of CPU time, mining included, with M at its final value from the start."""
    for _ in range(WARM_UP):
        trainer.train_step()
    trainer.queue = trainer.queue[:0]  # a whole mega-batch is mined within the time, at least
    pairs, started = 0, time.process_time()
    while time.process_time() - started < seconds or len(trainer.queue):
        pairs += min(BATCH, len(trainer.queue) or BATCH)
        trainer.train_step()
    return pairs / (time.process_time() - started)


def encoding_speed(encoder: Encoder, sentences: list[str]) -> float:
    """Sentences a second of CPU time, text to vector, in batches."""
    batches = [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]
    for batch in batches[:WARM_UP]:
        encoder.embed_text(batch)
    started = time.process_time()
    for batch in batches:
        encoder.embed_text(batch)
    return len(sentences) / (time.process_time() - started)


def measure(kind: str, text: TextPairs, args: argparse.Namespace) -> list[str]:
    """A row of the table."""
    tokens = possible_tokens(kind)[0]
    tokenizer = train_tokenizer(tokens, text.sentences, PREPROCESSING, 0, None)
    pairs = segment_pairs(text, tokenizer)
    config = TrainingConfig(
        steps=1_000_000, dim=args.dim, kind=kind, megabatch=args.megabatch, megabatch_anneal=1
    )
    trainer = Trainer(config, pairs, tokenizer.sizes)
    trainer.step = args.megabatch  # M has grown
    # Past the first steps, which touch every row of the table.
    adam: Any = trainer.learner.optimizer
    adam.count = DENSE_STEPS
    adam.moments_at[:] = adam.weight_at[:] = DENSE_STEPS
    trained = training_speed(trainer, args.seconds)
    tensors = trainer.tensors()
    encoder = Encoder.of_tensors(tensors, tokenizer, kind, config.composer)
    sentences = list(islice(cycle(text.sentences), args.sentences))
    encoded = encoding_speed(encoder, sentences)
    parameters = sum(part.numel() for part in tensors.values())
    sizes = str(len(tokenizer)), f"{parameters / 1e6:.1f} M"
    row = [kind, *sizes, f"{trained:.0f}", f"{encoded:.0f}"]
    print(*row, file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs")
    parser.add_argument("--kinds", nargs="*")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--sentences", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--megabatch", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    text = read_pairs([args.pairs], PREPROCESSING)
    rows = [measure(kind, text, args) for kind in args.kinds or KINDS]
    names = ["kind", "types", "parameters", "training, pairs/s", "encoding, sentences/s"]
    print(markdown_table([names, *rows]))


if __name__ == "__main__":
    main()

"""Training pairs per second of one side, in this process; printed as one JSON object.

    encoder_training.py make FOLDER --pairs N            binarized pairs of a made-up language
    encoder_training.py simile FOLDER
    encoder_training.py sentence-transformers FOLDER --loss mnr | megabatch
    encoder_training.py at-scale FOLDER --clone DIR      the published trainer
    encoder_training.py table FILE                       of the lines that the others printed

Every side gets the same pairs, already segmented: tokenising is left out on all of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

BATCH, MEGABATCH, DIM = 128, 60, 300


def main() -> None:
    """Parse and run one side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("side", choices=[*SIDES, "make", "table"])
    parser.add_argument("folder", help="of binarized pairs; a file for table")
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="to measure, after a warm-up")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--loss", choices=("mnr", "megabatch"), default="mnr")
    parser.add_argument("--device", default="cpu", help="of ours (default cpu)")
    parser.add_argument("--clone", help="folder of the published trainer")
    args = parser.parse_args()
    if args.side == "make":
        make(args.folder, args.pairs)
    elif args.side == "table":
        table(args.folder)
    else:
        torch.set_num_threads(args.threads)
        print(json.dumps({"threads": args.threads, **SIDES[args.side](args)}), flush=True)


def make(folder: str, count: int, vocabulary: int = 30_000) -> None:
    """Pairs with the lengths and piece frequencies of text, half of the pieces shared."""
    from simile_plugin.encoder_training import BinarizeOptions, binarize_pairs

    rng = np.random.default_rng(0)
    chance = 1 / (np.arange(vocabulary) + 3.0)
    words = np.array([word(number) for number in range(vocabulary)])
    ends = rng.integers(5, 22, count).cumsum()
    # All at once: a draw by itself would sum up the chances again.
    left, other = rng.choice(vocabulary, (2, ends[-1]), p=chance / chance.sum())
    right = np.where(rng.random(len(left)) < 0.5, left, other)
    source = Path(folder).with_suffix(".tsv")
    with open(source, "w", encoding="utf-8") as stream:
        sides = (np.split(words[side], ends[:-1]) for side in (left, right))
        for one, two in zip(*sides, strict=True):
            stream.write(f"{' '.join(one)}\t{' '.join(two)}\n")
    binarize_pairs(BinarizeOptions(pairs=[str(source)], output=folder, vocab_size=vocabulary))
    source.unlink()


def word(number: int) -> str:
    """A pronounceable word for each number."""
    syllables = ""
    number += 1
    while number:
        number, consonant = divmod(number, 14)
        number, vowel = divmod(number, 5)
        syllables += "bdfghklmnprstv"[consonant] + "aeiou"[vowel]
    return syllables


def pairs_per_second(step: Callable[[], int], warm: float, seconds: float) -> float:
    """Pairs that ``step`` says it did, per second, after a warm-up."""
    end = time.perf_counter() + warm
    while time.perf_counter() < end:
        step()
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        done += step()
    return done / (time.perf_counter() - begin)


def simile(args: argparse.Namespace) -> dict[str, Any]:
    """Ours at the full M: mining, loss and Adam of whole mega-batches."""
    from simile_plugin.encoder_training import (
        DENSE_STEPS,
        Trainer,
        TrainingConfig,
        keep_freed_memory,
    )

    keep_freed_memory()
    pairs, vocabulary = mapped(args.folder)
    config = TrainingConfig(
        steps=10_000_000, dim=DIM, batch_size=BATCH, megabatch=MEGABATCH, megabatch_anneal=1
    )
    trainer = Trainer(config, pairs, vocabulary, args.device)
    while trainer.step < DENSE_STEPS or len(trainer.queue):
        trainer.train_step()
    mining = [0.0]
    mine = trainer._mine

    def timed(rows: Any) -> Any:
        begin = time.perf_counter()
        mined = mine(rows)
        mining[0] += time.perf_counter() - begin
        return mined

    trainer._mine = timed  # type: ignore[method-assign]

    def megabatch() -> int:
        begin = trainer.step
        trainer.train_step()
        while len(trainer.queue):
            trainer.train_step()
        if args.device.startswith("cuda"):
            torch.cuda.synchronize(args.device)
        return (trainer.step - begin) * BATCH

    begin = time.perf_counter()
    rate = pairs_per_second(megabatch, 0, args.seconds)
    share = mining[0] / (time.perf_counter() - begin)
    return {"side": "simile", "pairs/s": rate, "mining": share, "vocabulary": vocabulary}


def sentence_transformers(args: argparse.Namespace) -> dict[str, Any]:
    """StaticEmbedding with one of its losses and Adam, on bags that are ready."""
    from simile_plugin.encoder import hide_broken_torchaudio

    hide_broken_torchaudio()
    peer = importlib.import_module("sentence_transformers")
    losses = importlib.import_module("sentence_transformers.losses")
    modules = importlib.import_module("sentence_transformers.models")
    tokenizers = importlib.import_module("tokenizers")
    pairs, vocabulary = mapped(args.folder)
    words = {str(piece): piece for piece in range(vocabulary)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="0"))
    static = modules.StaticEmbedding(tokenizer, embedding_dim=DIM)
    model = peer.SentenceTransformer(modules=[static], device="cpu")
    if args.loss == "mnr":
        loss, size = losses.MultipleNegativesRankingLoss(model), BATCH
    else:  # its mini-batched version slices padded features, which this module has not
        loss = losses.MegaBatchMarginLoss(model, use_mini_batched_version=False)
        size = BATCH * MEGABATCH
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    order = np.random.default_rng(1).permutation(len(pairs) - len(pairs) % size)
    place = [0]

    def step() -> int:
        place[0] = (place[0] + size) % len(order)
        rows = pairs.pair_rows(order[place[0] : place[0] + size])
        features = []
        for side in rows.T:
            ids, starts = pairs.bags(side)
            features.append(
                {"input_ids": torch.from_numpy(ids), "offsets": torch.from_numpy(starts)}
            )
        optimizer.zero_grad(set_to_none=True)
        loss(features, labels=None).backward()
        optimizer.step()
        return len(rows)

    rate = pairs_per_second(step, 2, args.seconds)
    return {"side": f"sentence-transformers {args.loss}", "pairs/s": rate}


def at_scale(args: argparse.Namespace) -> dict[str, Any]:
    """The published trainer's own step, at the full M, on its own objects."""
    if not args.clone:
        raise SystemExit("at-scale: --clone: expected the folder of the published trainer")
    sys.path.insert(0, args.clone)
    sys.modules["h5py"] = sys.modules[__name__]  # imported there and not used here
    models, pairing = (importlib.import_module(name) for name in ("models", "pairing"))
    pairs, vocabulary = mapped(args.folder)
    flags = argparse.Namespace(
        **{"gpu": 0, "dim": DIM, "lr": 1e-3, "dropout": 0.0, "pool": "mean", "zero_unk": 1},
        **{"batchsize": BATCH, "megabatch_size": MEGABATCH, "megabatch_anneal": 150, "delta": 0.4},
        **{"ngrams": 0, "share_encoder": 1, "share_vocab": 1, "scramble_rate": 0, "sp_model": None},
        **{"debug": 0, "save_interval": 0, "epochs": 1, "grad_clip": 5.0, "hidden_dim": 150},
    )
    data = [
        tuple(pairs.bags(np.array([sentence]))[0].astype("int32") for sentence in row)
        for row in pairs.pair_rows(np.arange(min(len(pairs), 3 * BATCH * MEGABATCH)))
    ]
    model = models.Averaging(data, flags, {str(i): i for i in range(vocabulary)}, None)
    model.curr_megabatch_size = MEGABATCH
    model.mb = models.utils.get_minibatches_idx(len(data), BATCH, shuffle=True)
    model.curr_idx, model.megabatch = 0, []
    model.train()

    def megabatch() -> int:
        steps = 0
        while steps < MEGABATCH:
            cost = pairing.compute_loss_one_batch(model)
            model.optimizer.zero_grad()
            cost.backward()
            model.optimizer.step()
            steps += 1
        return steps * BATCH

    return {"side": "at-scale", "pairs/s": pairs_per_second(megabatch, 0, args.seconds)}


def mapped(folder: str) -> tuple[Any, int]:
    """Pairs and vocabulary size of a folder."""
    from simile_plugin.encoder_training import open_binarized

    pairs, tokenizer = open_binarized(folder)
    return pairs, len(tokenizer)


def table(path: str) -> None:
    """Medians of the rounds, and ours over each of the others."""
    rates: dict[str, list[float]] = {}
    for line in Path(path).read_text().splitlines():
        record = json.loads(line)
        rates.setdefault(record["side"], []).append(record["pairs/s"])
    ours = statistics.median(rates["simile"])
    print("| trainer | pairs/s, median | lowest to highest | simile is faster by |")
    print("|---|---|---|---|")
    for side, values in rates.items():
        middle = statistics.median(values)
        spread = f"{min(values):,.0f} to {max(values):,.0f}"
        print(f"| {side} | {middle:,.0f} | {spread} | {ours / middle:.1f} |")


SIDES: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "simile": simile,
    "sentence-transformers": sentence_transformers,
    "at-scale": at_scale,
}

if __name__ == "__main__":
    main()

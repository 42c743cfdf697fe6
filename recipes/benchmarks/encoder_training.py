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
VOCABULARY, CHUNK = 30_000, 500_000  # pieces; pairs that are made at once


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


def make(folder: str, count: int) -> None:
    """A folder as `simile binarize-pairs` writes it: pieces by Zipf's law, half of them shared."""
    from simile_plugin.encoder import Preprocessing, Segmenter
    from simile_plugin.encoder_training import FolderWriter, Tokens, train_sentencepiece

    rng = np.random.default_rng(0)
    # Real pieces of made-up words: a folder is refused whose ids are not below its model's size.
    letters = rng.choice([*"abcdefghijklmnopqrstuvwxyz"], (4 * VOCABULARY, 6))
    words = ["".join(row) for row in letters]
    segmenter = Segmenter(train_sentencepiece(words, Preprocessing(), VOCABULARY), Preprocessing())
    Path(folder).mkdir(parents=True)
    writer = FolderWriter(Path(folder), "<u2")
    for start in range(0, count, CHUNK):
        lengths = rng.integers(5, 22, min(CHUNK, count - start))
        size = int(lengths.sum())
        left, other = VOCABULARY ** rng.random((2, size), dtype=np.float32)
        right = np.where(rng.random(size) < 0.5, left, other)
        # The sides of a pair follow each other.
        places = np.arange(size) + np.repeat(lengths.cumsum() - lengths, lengths)
        ids = np.empty(2 * size, dtype=np.uint16)
        for at, side in ((places, left), (places + np.repeat(lengths, lengths), right)):
            ids[at] = np.minimum(side, VOCABULARY - 1)
        hashes = rng.integers(0, 1 << 64, 2 * len(lengths), dtype=np.uint64)
        writer.add(Tokens(ids, lengths.repeat(2), hashes))
    writer.finish(segmenter, {"digest": "0" * 16, "synthetic": True})


def resident(kind: str) -> int:
    """Bytes of this process in memory (Linux): "VmRSS", of these "RssAnon" (own) and "RssFile"
    (mapped), all of now; "VmHWM", the most so far.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {kind}")


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
    from simile_plugin.encoder import keep_freed_memory
    from simile_plugin.encoder_training import (
        DENSE_STEPS,
        Trainer,
        TrainingConfig,
    )

    keep_freed_memory()
    before = resident("RssAnon")
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
    memory = (resident("RssAnon") - before) / 1e6  # all but the mapped pairs and the libraries
    figures = {"pairs/s": rate, "mining": share, "own memory, MB": memory}
    return {"side": "simile", "pairs": len(pairs), "vocabulary": vocabulary, **figures}


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

"""Memory and speed of binarized pairs; called by encoder_memory.sh, which says what it does."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from simile_plugin.encoder import Ints, Preprocessing, Segmenter
from simile_plugin.encoder_training import (
    FolderWriter,
    Pairs,
    Tokens,
    open_binarized,
    train_sentencepiece,
)

CHUNK = 500_000  # pairs written at once
MEAN_PIECES = 13
VOCABULARY, DIM = 30_000, 300
BATCH, MEGABATCH = 128, 60  # as in the papers


def resident(kind: str) -> int:
    """Bytes of this process in memory (Linux): "VmRSS", of these "RssAnon" (own) and "RssFile"
    (mapped), all of now; "VmHWM", the most so far.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {kind}")


def write(folder: Path, pairs: int) -> None:
    """A folder as `simile binarize-pairs` writes it: pieces by Zipf's law, Poisson lengths."""
    model = train_sentencepiece(["a short text", "of few words"], Preprocessing(), 40)
    rng = np.random.default_rng(1)
    writer = FolderWriter(folder, "<u2")
    for start in range(0, pairs, CHUNK):
        sentences = 2 * min(CHUNK, pairs - start)
        lengths = rng.poisson(MEAN_PIECES - 1, sentences) + 1
        draws = VOCABULARY ** rng.random(int(lengths.sum()), dtype=np.float32)
        hashes = rng.integers(0, 1 << 64, sentences, dtype=np.uint64)
        ids: Ints = np.minimum(draws, VOCABULARY - 1).astype(np.uint16)
        writer.add(Tokens(ids, lengths, hashes))
    writer.finish(Segmenter(model, Preprocessing()), {"digest": "0" * 16, "synthetic": True})


def draw(pairs: Pairs, batches: int) -> dict[str, float]:
    """The trainer's access pattern, without the trainer: random mega-batches of an epoch."""
    order = np.arange(len(pairs), dtype=np.uint32)
    np.random.default_rng(1).shuffle(order)
    size, pieces, peak = BATCH * MEGABATCH, 0, 0
    started = time.perf_counter()
    for index in range(batches):
        rows = pairs.pair_rows(order[index * size : (index + 1) * size])
        ids, _ = pairs.bags(rows.T.ravel())
        keys = pairs.hashes[rows]
        pieces += len(ids) + 0 * len(keys)
        peak = max(peak, resident("RssAnon"))
    seconds = time.perf_counter() - started
    return {"anonymous_bytes": peak, "pairs_per_s": batches * size / seconds}


def train(pairs: Pairs, steps: int) -> dict[str, float]:
    """Steps of the real trainer, with M at 60 from the first one."""
    # Here, for torch is large, and a child's largest size begins with that of its parent.
    from simile_plugin.encoder_training import Trainer, TrainingConfig

    config = TrainingConfig(
        steps=steps, dim=DIM, batch_size=BATCH, megabatch=MEGABATCH, megabatch_anneal=1
    )
    trainer = Trainer(config, pairs, VOCABULARY)
    peak, started = 0, time.perf_counter()
    for _ in range(steps):
        trainer.train_step()
        peak = max(peak, resident("RssAnon"))
    seconds = time.perf_counter() - started
    return {"anonymous_bytes": peak, "pairs_per_s": steps * BATCH / seconds}


def measure(folder: Path, what: str, count: int) -> None:
    """Print one JSON object: open the folder in this fresh process and use it."""
    before, started = resident("RssAnon"), time.perf_counter()
    pairs = open_binarized(folder)
    opened = time.perf_counter() - started
    found = draw(pairs, count) if what == "draw" else train(pairs, count)
    facts = {"pairs": len(pairs), "open_seconds": opened, "imports_bytes": before}
    print(json.dumps(facts | {"mapped_resident_bytes": resident("RssFile")} | found))


def in_fresh_process(*arguments: object) -> dict[str, float]:
    """What `measure` prints there."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def training_memory(pairs: int) -> None:
    """Write the synthetic pairs, draw from them, train on them, and state the memory."""
    with tempfile.TemporaryDirectory(prefix="simile-memory-") as name:
        folder = Path(name)
        started = time.perf_counter()
        write(folder, pairs)
        size = sum(path.stat().st_size for path in folder.iterdir())
        seconds = time.perf_counter() - started
        print(f"{pairs:,} synthetic pairs, {size / 1e9:.2f} GB on disk, written in {seconds:.0f} s")
        print(f"{'':<32}{'own memory':>12}{'imports':>10}{'mapped':>10}{'pairs/s':>12}{'open':>8}")
        rows = {"200 mega-batches of 60 x 128": ("draw", 200), "trainer, 180 steps": ("train", 180)}
        for title, (what, count) in rows.items():
            found = in_fresh_process("measure", folder, what, count)
            print(
                f"{title:<32}{found['anonymous_bytes'] / 1e6:>9.0f} MB"
                f"{found['imports_bytes'] / 1e6:>7.0f} MB"
                f"{found['mapped_resident_bytes'] / 1e6:>7.0f} MB"
                f"{found['pairs_per_s']:>12,.0f}{found['open_seconds']:>6.1f} s"
            )
            if found["anonymous_bytes"] > 2e9:
                raise SystemExit(f"{title}: more than 2 GB beyond the mapped file")


def binarize_speed(paths: list[str]) -> None:
    """`simile binarize-pairs` over real pairs, once and four times over: time and memory."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="simile-memory-") as name:
        model = Path(name, "first", "sentencepiece.model")
        binarize = [sys.executable, "-m", "simile_plugin", "binarize-pairs", "--json"]
        first = [*binarize, *paths, "--vocab-size", "8000", "--sample-sentences", "50000"]
        subprocess.run([*first, "--output", str(model.parent)], check=True, capture_output=True)
        for repeats in (1, 4):
            for workers in sorted({1, cores}):
                command = [*binarize, *paths * repeats, "--sentencepiece", str(model)]
                command += ["--workers", str(workers), "--output", f"{name}/{repeats}.{workers}"]
                started = time.perf_counter()
                process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
                assert process.stdout is not None
                pairs = json.loads(process.stdout.read())["pairs"]
                _, status, usage = os.wait4(process.pid, 0)
                if status:
                    raise SystemExit(f"{' '.join(command)}: failed")
                rate = pairs / (time.perf_counter() - started)
                print(
                    f"binarize-pairs, {pairs:>7,} pairs, workers: {workers}, with their start: "
                    f"{rate:>7,.0f} pairs/s, {1e6 * (usage.ru_utime + usage.ru_stime) / pairs:.1f} "
                    f"us of CPU a pair, largest process {usage.ru_maxrss / 1e3:.0f} MB"
                )


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("training").add_argument("pairs", type=int)
    commands.add_parser("binarize").add_argument("paths", nargs="+")
    inner = commands.add_parser("measure")
    inner.add_argument("folder", type=Path)
    inner.add_argument("what", choices=("draw", "train"))
    inner.add_argument("count", type=int)
    args = parser.parse_args()
    if args.command == "training":
        training_memory(args.pairs)
    elif args.command == "binarize":
        binarize_speed(args.paths)
    else:
        measure(args.folder, args.what, args.count)


if __name__ == "__main__":
    main()

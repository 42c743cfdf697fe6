"""Memory of training on binarized pairs; called by encoder_memory.sh, which says what it does."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from simile_plugin.encoder import Preprocessing, Segmenter
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
    # Real pieces of made-up words: a folder is refused whose ids are not below its model's size.
    rng = np.random.default_rng(1)
    letters = rng.choice([*"abcdefghijklmnopqrstuvwxyz"], (4 * VOCABULARY, 6))
    words = ["".join(row) for row in letters]
    model = train_sentencepiece(words, Preprocessing(), VOCABULARY)
    writer = FolderWriter(folder, "<u2")
    for start in range(0, pairs, CHUNK):
        sentences = 2 * min(CHUNK, pairs - start)
        lengths = rng.poisson(MEAN_PIECES - 1, sentences) + 1
        draws = VOCABULARY ** rng.random(int(lengths.sum()), dtype=np.float32)
        hashes = rng.integers(0, 1 << 64, sentences, dtype=np.uint64)
        ids = np.minimum(draws, VOCABULARY - 1).astype(np.uint16)
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
    pairs, _ = open_binarized(folder)
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
            found = in_fresh_process(count, "--measure", what, "--folder", folder)
            print(
                f"{title:<32}{found['anonymous_bytes'] / 1e6:>9.0f} MB"
                f"{found['imports_bytes'] / 1e6:>7.0f} MB"
                f"{found['mapped_resident_bytes'] / 1e6:>7.0f} MB"
                f"{found['pairs_per_s']:>12,.0f}{found['open_seconds']:>6.1f} s"
            )
            if found["anonymous_bytes"] > 2e9:
                raise SystemExit(f"{title}: more than 2 GB beyond the mapped file")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=int, help="how many to write and train on")
    inner = parser.add_argument_group("in a fresh process")
    inner.add_argument("--measure", choices=("draw", "train"), help="what to do with a folder")
    inner.add_argument("--folder", type=Path)
    args = parser.parse_args()
    if args.measure:
        measure(args.folder, args.measure, args.pairs)
    else:
        training_memory(args.pairs)


if __name__ == "__main__":
    main()

"""Times text -> vector, ours and its peers; called by encoder_text.sh, which says what it does."""

from __future__ import annotations

import argparse
import gc
import gzip
import importlib
import os
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from simile_plugin.encoder import (
    Encoder,
    Preprocessing,
    Segmenter,
    export_encoder,
    hide_broken_torchaudio,
    load_own_encoder,
    save_encoder,
)
from simile_plugin.encoder_training import train_sentencepiece
from simile_plugin.significance import markdown_table

TEXTS = (
    "newstest/de-en/*.en.gz",
    "europarl20k-de-en/train.en.gz",
    "multi30k/task1/train.en.gz",
    "tatoeba-de-en/train.en.gz",
)
PIECES, DIM = 30_000, 300  # the papers' sizes
ROUNDING = 1e-5  # 1 - cosine of our vector and a peer's
THEIR_BATCH = 1024  # sentence-transformers' own 32 is several times slower

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]


def texts(count: int) -> tuple[list[str], list[str], str]:
    """Two disjoint samples of distinct sentences, and where they are from."""
    root = os.environ.get("SIMILE_DATA")
    paths = sorted(path for part in TEXTS for path in Path(root).glob(part)) if root else []
    rng = random.Random(1)
    if paths:
        found = [line for path in paths for line in gzip.open(path, "rt", encoding="utf-8")]
        name = "news, Europarl, captions, Tatoeba"
    else:
        consonants, vowels = "bdfgklmnprst", "aeiou"
        syllables = [a + b for a in consonants for b in vowels]
        words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(40_000)]
        weights = [1 / (rank + 3) for rank in range(len(words))]  # Zipf
        found = [
            " ".join(rng.choices(words, weights, k=rng.randint(4, 25))).capitalize() + "."
            for _ in range(2 * count)
        ]
        name = "generated"
    sentences = sorted({line.strip() for line in found})
    rng.shuffle(sentences)
    return sentences[:count], sentences[count : 2 * count], name


def make_encoder(folder: Path, sentences: list[str]) -> Encoder:
    """Pieces trained on the sentences, random vectors: time does not depend on their values."""
    model = train_sentencepiece(sentences, Preprocessing(), PIECES)
    segmenter = Segmenter(model, Preprocessing())
    generator = torch.Generator().manual_seed(1)
    encoder = Encoder(torch.randn(len(segmenter), DIM, generator=generator), segmenter)
    save_encoder(folder, encoder)
    return encoder


def open_ours(work: Path, encoder_folder: Path) -> Embed:
    """`Encoder.embed_text`, from the disk."""
    encoder = load_own_encoder(encoder_folder)
    return lambda sentences: encoder.embed_text(sentences).numpy()


def open_sentence_transformers(work: Path, encoder_folder: Path) -> Embed:
    """sentence-transformers' encode() of a StaticEmbedding."""
    hide_broken_torchaudio()
    library = importlib.import_module("sentence_transformers")
    model = library.SentenceTransformer(str(work / "sentence-transformers"), device="cpu")
    return lambda sentences: model.encode(
        list(sentences), batch_size=THEIR_BATCH, show_progress_bar=False
    )


def open_model2vec(work: Path, encoder_folder: Path) -> Embed:
    """model2vec's encode()."""
    library = importlib.import_module("model2vec")
    model = library.StaticModel.from_pretrained(str(work / "model2vec"))
    return lambda sentences: model.encode(
        list(sentences), use_multiprocessing=torch.get_num_threads() > 1
    )


def check_same(name: str, ours: Vectors, theirs: Vectors) -> float:
    """Largest 1 - cosine of our vectors and theirs."""
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    if not (norms > 0).all():
        raise SystemExit(f"{name}: a zero vector among the texts")
    worst = float((1 - (ours.astype(np.float64) * theirs).sum(1) / norms).max())
    if worst > ROUNDING:
        raise SystemExit(f"{name}: 1 - cosine with ours is {worst:g}, expected rounding")
    return worst


def seconds(embed: Embed, sentences: list[str]) -> float:
    """Time of one call."""
    gc.collect()
    started = time.perf_counter()
    embed(sentences)
    return time.perf_counter() - started


def measure(
    systems: dict[str, Callable[[], Embed]], first: list[str], second: list[str], repeats: int
) -> dict[str, dict[str, float]]:
    """Least seconds: just loaded, on other texts afterwards, and on known texts."""
    times: dict[str, dict[str, list[float]]] = {
        name: {"cold": [], "other texts": [], "warm": []} for name in systems
    }
    for _ in range(repeats):
        for name, opened in systems.items():
            embed = opened()
            times[name]["cold"].append(seconds(embed, second))
            embed(second)
            times[name]["other texts"].append(seconds(embed, first))
            embed(first)
            times[name]["warm"].append(seconds(embed, first))
    return {
        name: {kind: min(values) for kind, values in rows.items()} for name, rows in times.items()
    }


def main() -> None:
    """Check, time, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--encoder", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    first, second, source = texts(args.sentences)
    folder = Path(args.encoder) if args.encoder else args.work / "encoder"
    if not (folder / "config.json").is_file():
        make_encoder(folder, first + second)
    encoder = load_own_encoder(folder)
    for name in ("sentence-transformers", "model2vec"):
        export_encoder(encoder, args.work / name, name)
    openers: dict[str, Callable[[Path, Path], Embed]] = {
        "ours": open_ours,
        "model2vec": open_model2vec,
        "sentence-transformers": open_sentence_transformers,
    }
    systems: dict[str, Callable[[], Embed]] = {
        name: partial(opened, args.work, folder) for name, opened in openers.items()
    }
    ours = systems["ours"]()(first)
    for name in ("model2vec", "sentence-transformers"):
        worst = check_same(name, ours, systems[name]()(first))
        print(f"{name}: 1 - cosine with our vectors at most {worst:.1e}")
    times = measure(systems, first, second, args.repeats)
    kinds = list(times["ours"])
    grid = [["microseconds a sentence", *kinds, *(f"ours faster, {kind}" for kind in kinds)]]
    for name, row in times.items():
        each = [f"{1e6 * row[kind] / len(first):.2f}" for kind in kinds]
        ratios = [f"{row[kind] / times['ours'][kind]:.1f} x" for kind in kinds]
        grid.append([name, *each, *ratios])
    words = sum(len(sentence.split()) for sentence in first) / len(first)
    print(
        f"{len(first)} sentences ({source}), {words:.1f} words each, {len(encoder.segmenter)} "
        f"pieces x {encoder.dim}, {args.threads} thread(s), {os.cpu_count()} CPU cores"
    )
    print(markdown_table(grid))


if __name__ == "__main__":
    main()

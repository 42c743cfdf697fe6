"""Train a BGT, MGT or ablation on pairs, and write its inference networks as encoder folders.

python train_bgt.py PAIRS.tsv --sentencepiece MODEL --variant bgt --output FOLDER

FOLDER/semantic is the sentence encoder; FOLDER/language-0 and -1 are those of the two languages,
where the variant has them. FOLDER/log.tsv has the means of every 50 updates, in nats a pair.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from bgt import PADDING, VARIANTS, Bgt, Sizes, kl_weight
from torch import Tensor

from simile_plugin.encoder import Preprocessing, Segmenter, save_encoder
from simile_plugin.files import InputError, as_script, read_bytes, read_rows

HEADS = 4
EVERY = 50  # updates between lines of the log
Pair = tuple[list[int], list[int]]


def read_pairs(path: str) -> list[tuple[str, str]]:
    """Read the sentence pairs of a file, two or more."""
    rows = read_rows(path, "PAIRS", "a sentence, a TAB and its translation")
    for row in rows:
        row.expect(2, what="a sentence, a TAB and its translation")
    pairs = [(row.cells[0], row.cells[1]) for row in rows]
    if len(pairs) < 2:
        raise InputError(f"PAIRS: {path} has {len(pairs)} pairs, expected 2 or more")
    return pairs


def known_pieces(segmenter: Segmenter, sentences: Sequence[str]) -> list[list[int]]:
    """Return the pieces of each sentence without unknown ones, which no encoder reads."""
    rows = (torch.tensor(row, dtype=torch.int64).numpy() for row in segmenter.encode(sentences))
    return [row[segmenter.known(row)].tolist() for row in rows]


def padded(rows: Sequence[list[int]], end: int) -> Tensor:
    """Return tokens (B, T) of sentences, each with its end, PADDING behind."""
    tokens = torch.full((len(rows), max(map(len, rows)) + 1), PADDING)
    for number, row in enumerate(rows):
        tokens[number, : len(row) + 1] = torch.tensor([*row, end])
    return tokens


def batches(
    pairs: Sequence[Pair], tokens: int, end: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of like length, at most so many tokens a side with padding, without end.

    A pair that is longer alone is a batch. Every epoch makes new batches in a new order.
    """
    rng = random.Random(seed)
    while True:
        length = [max(len(left), len(right)) + 1 for left, right in pairs]
        order = sorted(range(len(pairs)), key=lambda i: (length[i], rng.random()))
        groups: list[list[int]] = [[]]
        for i in order:
            if groups[-1] and (len(groups[-1]) + 1) * length[i] > tokens:
                groups.append([])
            groups[-1].append(i)
        rng.shuffle(groups)
        for group in groups:
            left, right = zip(*(pairs[i] for i in group), strict=True)
            yield padded(left, end), padded(right, end)


def train(model: Bgt, pairs: Sequence[Pair], args: argparse.Namespace) -> list[list[float]]:
    """Make args.updates updates of Adam with the schedule of Vaswani et al.; return the log."""
    rows, sums, start = [], torch.zeros(3), time.monotonic()
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-8)
    source = batches(pairs, args.tokens, model.sizes.pieces, args.seed)
    seen = 0
    for update in range(args.updates):
        step = update + 1
        rate = args.lr * min(step / args.warmup, (args.warmup / step) ** 0.5)
        for group in adam.param_groups:
            group["lr"] = rate
        sides = next(source)
        terms = model.losses(sides, update)
        weight = kl_weight(update, args.anneal)
        loss = (terms["nll"] + weight * terms["kl"] + terms["translation"]).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        adam.step()
        seen += len(sides[0])
        sums += torch.stack([terms[name].detach().sum() for name in ("nll", "kl", "translation")])
        if step % EVERY == 0 or step == args.updates:
            nll, kl, translation = (sums / seen).tolist()
            rows.append([step, nll, kl, translation, weight, time.monotonic() - start])
            print(
                "update {:.0f}: nll {:.1f}, KL {:.1f}, translation {:.1f}".format(*rows[-1]),
                flush=True,
            )
            sums, seen = torch.zeros(3), 0
    return rows


def check(args: argparse.Namespace, numbers: Iterable[str]) -> None:
    """Refuse numbers that cannot work."""
    for name in numbers:
        lowest = 0 if name == "updates" else 1  # 0 updates: random weights
        if (value := getattr(args, name)) < lowest:
            raise InputError(f"--{name}: got {value}, expected {lowest} or more")
    if args.dim % HEADS:
        raise InputError(f"--dim: got {args.dim}, expected a multiple of {HEADS}, the heads")
    if not args.lr > 0:
        raise InputError(f"--lr: got {args.lr}, expected a number above 0")


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, train, write the folders."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pairs", metavar="PAIRS", help="first language TAB second")
    parser.add_argument("--variant", choices=VARIANTS, default="bgt")
    parser.add_argument("--sentencepiece", required=True, metavar="MODEL", help="of both sides")
    parser.add_argument("--output", required=True, metavar="FOLDER")
    numbers = {"updates": 400, "tokens": 1500, "warmup": 100, "anneal": 1600, "dim": 64}
    numbers |= {"layers": 2, "seed": 1}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args(argv)
    check(args, numbers)
    torch.manual_seed(args.seed)
    proto = read_bytes(args.sentencepiece, "--sentencepiece")
    segmenter = Segmenter(proto, Preprocessing())
    sides = zip(*read_pairs(args.pairs), strict=True)
    left, right = (known_pieces(segmenter, side) for side in sides)
    # What is empty on a side would only teach that it ends.
    pairs = [pair for pair in zip(left, right, strict=True) if all(pair)]
    Path(args.output).mkdir(parents=True, exist_ok=True)
    sizes = Sizes(len(segmenter), args.dim, args.dim, args.layers, HEADS, 2 * args.dim)
    model = Bgt(sizes, args.variant)
    rows = train(model, pairs, args)
    facts = {"pairs": len(pairs), "updates": args.updates, "tokens": args.tokens, "seed": args.seed}
    networks = {"semantic": model.semantic}
    networks |= {f"language-{side}": network for side, network in enumerate(model.language)}
    for name, network in networks.items():
        save_encoder(Path(args.output, name), model.encoder(segmenter, network, facts))
    titles = "update\tnll\tkl\ttranslation\tkl_weight\tseconds"
    lines = ["\t".join(f"{value:.6g}" for value in row) for row in rows]
    Path(args.output, "log.tsv").write_text("\n".join([titles, *lines]) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())

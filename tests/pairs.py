"""Small generated pairs: every sentence says one thing in one of two ways."""

import random
from pathlib import Path

import numpy as np

from simile_plugin.encoder_training.pairs import Pairs

ANIMALS = "heron otter badger magpie lizard donkey".split()
ACTIONS = [
    ("watches", "looks at"),
    ("follows", "goes after"),
    ("finds", "comes across"),
    ("leaves", "walks away from"),
]
THINGS = [("boat", "vessel"), ("road", "street"), ("house", "home"), ("stone", "rock")]
PLACES = ["by the river", "in the fog", "before dawn", "near the mill", "at the fair"]


def write_pairs(path: Path, count: int, seed: int = 0) -> Path:
    """A TSV of count paraphrase pairs."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        animal, place = rng.choice(ANIMALS), rng.choice(PLACES)
        action, thing = rng.choice(ACTIONS), rng.choice(THINGS)
        adjective = rng.choice(["old", "small", "grey"])
        lines.append(
            f"The {adjective} {animal} {action[0]} a {thing[0]} {place}.\t"
            f"{place.capitalize()}, the {adjective} {animal} {action[1]} a {thing[1]}."
        )
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def random_pairs(count: int, vocab: int, shared: int, filler: int, seed: int = 0) -> Pairs:
    """Pairs that share ``shared`` rare pieces and have ``filler`` frequent ones of their own."""
    rng = np.random.default_rng(seed)
    half = vocab // 2
    zipf = 1 / (np.arange(half) + 2.0)
    sentences = []
    for _ in range(count):
        common = rng.integers(half, vocab, shared)
        for _ in range(2):
            own = rng.choice(half, filler, p=zipf / zipf.sum())
            sentences.append(np.concatenate([common, own]))
    return Pairs(
        ids=np.concatenate(sentences).astype(np.uint16),
        offsets=np.arange(2 * count + 1) * (shared + filler),
        hashes=np.arange(2 * count).astype(np.uint64),
        digest="0" * 16,
    )

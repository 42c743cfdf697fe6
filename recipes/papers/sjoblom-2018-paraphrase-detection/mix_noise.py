"""Mix clean and noisy pairs at a stated rate: how much noise does an encoder's training bear?

    python mix_noise.py --clean PAIRS --clean-share 0.8 --pairs N --output OUT

Sjöblom et al. 2018 train on Opusparcus down to where 80, 70 or 60 % of the pairs are paraphrases.
A noisy pair is the first sentence of one clean pair with the second of another.
"""

from __future__ import annotations

import argparse
import random
import sys

from simile_plugin.files import (
    InputError,
    as_script,
    atomic_write,
    read_rows,
    refuse_overwriting_input,
)

Pair = tuple[str, str]


def mix(clean: list[Pair], clean_share: float, pairs: int, seed: int) -> list[Pair]:
    """``pairs`` pairs in random order, round(clean_share * pairs) of them clean, each used once.

    Raises:
        InputError: if there are too few pairs.
    """
    rng = random.Random(seed)
    wanted = round(clean_share * pairs)
    if len(clean) < max(2, pairs):
        raise InputError(f"--clean: {pairs} pairs are wanted, but there are only {len(clean)}")
    mixed = rng.sample(clean, wanted)
    if pairs > wanted:
        mixed += rng.sample(_repaired(rng, clean), pairs - wanted)
    rng.shuffle(mixed)
    return mixed


def _repaired(rng: random.Random, pairs: list[Pair]) -> list[Pair]:
    """Every first sentence with the second sentence of the next pair in a random circle."""
    circle = rng.sample(pairs, len(pairs))
    return [(one[0], other[1]) for one, other in zip(circle, circle[1:] + circle[:1], strict=True)]


def read_pairs(path: str) -> list[Pair]:
    """The first two columns of a TSV."""
    rows = read_rows(path, "--clean")
    for row in rows:
        row.expect(2, what="sentence TAB paraphrase")
    return [(row.cells[0], row.cells[1]) for row in rows]


@as_script
def main() -> None:
    """Read the flags, write the mixture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--clean", required=True, metavar="PAIRS")
    parser.add_argument("--clean-share", type=float, required=True, metavar="SHARE", help="0 to 1")
    parser.add_argument("--pairs", type=int, required=True, metavar="N", help="to write")
    parser.add_argument("--output", required=True, metavar="OUT")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not 0 <= args.clean_share <= 1:
        raise InputError(f"--clean-share: got {args.clean_share}, expected 0 to 1")
    refuse_overwriting_input(args.output, [args.clean])
    mixed = mix(read_pairs(args.clean), args.clean_share, args.pairs, args.seed)
    with atomic_write(args.output) as stream:
        stream.writelines(f"{one}\t{other}\n" for one, other in mixed)


if __name__ == "__main__":
    sys.exit(main())

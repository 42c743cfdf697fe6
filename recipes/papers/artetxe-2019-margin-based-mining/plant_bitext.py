"""Hide parallel sentences among others: two texts and gold pairs in BUCC's layout.

    python plant_bitext.py --source S --target T --pairs N --distractors N --output PREFIX

S and T are line-parallel. N random lines are planted on both sides; the distractors of a side are
lines whose translation is on neither. PREFIX.source and PREFIX.target get "id TAB sentence" in
random order, PREFIX.gold "source id TAB target id". A sentence is used once.
"""

from __future__ import annotations

import argparse
import random
import sys

from simile_plugin.files import (
    InputError,
    as_script,
    atomic_write,
    read_parallel,
    refuse_overwriting_input,
)


def plant(
    source: list[str], target: list[str], pairs: int, distractors: int, seed: int
) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Source sentences, target sentences and gold pairs of sentences; random for a seed.

    Raises:
        InputError: if there are too few lines whose both sentences are distinct and not empty.
    """
    rng = random.Random(seed)
    seen_source, seen_target = set[str](), set[str]()
    usable = []
    for one, other in zip(source, target, strict=True):
        one, other = one.replace("\t", " ").strip(), other.replace("\t", " ").strip()
        if one and other and one not in seen_source and other not in seen_target:
            seen_source.add(one)
            seen_target.add(other)
            usable.append((one, other))
    wanted = pairs + 2 * distractors
    if len(usable) < wanted:
        raise InputError(
            f"--distractors: {pairs} pairs and {distractors} distractors on each side need "
            f"{wanted} lines, but only {len(usable)} have sentences that are there once"
        )
    chosen = rng.sample(usable, wanted)
    gold, rest = chosen[:pairs], chosen[pairs:]
    left = [one for one, _ in gold] + [one for one, _ in rest[:distractors]]
    right = [other for _, other in gold] + [other for _, other in rest[distractors:]]
    rng.shuffle(left)
    rng.shuffle(right)
    return left, right, gold


@as_script
def main() -> None:
    """Read the flags, write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--source", required=True, nargs="+", metavar="FILE")
    parser.add_argument("--target", required=True, nargs="+", metavar="FILE")
    parser.add_argument("--pairs", type=int, required=True, metavar="N", help="planted")
    parser.add_argument("--distractors", type=int, required=True, metavar="N", help="on each side")
    parser.add_argument("--output", required=True, metavar="PREFIX")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if len(args.source) != len(args.target) or args.pairs < 1 or args.distractors < 0:
        raise InputError("expected as many --source as --target files, --pairs of 1 or more")
    for name in ("source", "target", "gold"):
        refuse_overwriting_input(f"{args.output}.{name}", [*args.source, *args.target])
    source, target = [], []
    for one, other in zip(args.source, args.target, strict=True):
        lines = read_parallel([(one, "--source"), (other, "--target")])
        source += lines[0]
        target += lines[1]
    left, right, gold = plant(source, target, args.pairs, args.distractors, args.seed)
    id_left = {sentence: f"source-{i:07}" for i, sentence in enumerate(left, 1)}
    id_right = {sentence: f"target-{i:07}" for i, sentence in enumerate(right, 1)}
    for name, ids in (("source", id_left), ("target", id_right)):
        with atomic_write(f"{args.output}.{name}") as stream:
            stream.writelines(f"{number}\t{sentence}\n" for sentence, number in ids.items())
    with atomic_write(f"{args.output}.gold") as stream:
        stream.writelines(f"{id_left[one]}\t{id_right[other]}\n" for one, other in gold)


if __name__ == "__main__":
    sys.exit(main())

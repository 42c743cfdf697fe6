"""MBR choices by several utilities from prefixes of lists: a file each, and what each cost.

    python choices.py beam=FILE samples=FILE --encoder DIR --output FOLDER

writes FOLDER/NAME.UTILITY.WEIGHTS.N.txt, a line for each source up to the last with a list, and
prints CPU seconds. A learned reward is named by its content: learned-0a1b2c3d4e5f. Samples are
shuffled first, each list by itself with the same seed: fairseq prints them sorted by score, and the
first N of a sorted list are no N samples.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

from simile_plugin.encoder import load_encoder
from simile_plugin.files import InputError, atomic_write
from simile_plugin.nbest import NbestList, Utility, choose_all, expected_utilities, read_lists
from simile_plugin.reward import Reward
from simile_plugin.significance import text_table

SEED = 1
MARKS = str.maketrans(":,", "-+", " ")  # of a reward, as they are in the name of its file


def shuffled(found: NbestList) -> NbestList:
    """The candidates with their scores in an order that has nothing to do with the scores."""
    order = random.Random(SEED + found.sentence).sample(range(len(found.hyps)), len(found.hyps))
    return replace(
        found,
        hyps=tuple(found.hyps[i] for i in order),
        scores=tuple(found.scores[i] for i in order if found.scores),
        lprobs=tuple(found.lprobs[i] for i in order if found.lprobs),
    )


def main() -> None:
    """Choose by every utility at every size; one line for bad input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lists", nargs="+", metavar="NAME=FILE", help="samples=: are shuffled")
    parser.add_argument("--encoder", required=True, metavar="DIR")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--utilities", nargs="+", default=["sim", "simile", "bleu", "chrf", "half"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[8, 16, 32, 64, 128, 256])
    parser.add_argument("--weights", default="uniform")
    args = parser.parse_args()
    try:
        choose_by_each(args)
    except InputError as error:
        sys.exit(f"choices.py: error: {error}")


def choose_by_each(args: argparse.Namespace) -> None:
    """Write the choices, and print what each cost."""
    for spec in args.lists:
        if "=" not in spec:
            raise InputError(f"got {spec}, expected NAME=FILE")
    args.output.mkdir(parents=True, exist_ok=True)
    encoder = load_encoder(args.encoder)
    rows = [["lists", "utility", "weights", "N", "CPU s", "distinct"]]
    for name, path in (spec.split("=", 1) for spec in args.lists):
        lists = read_lists(path, name)
        lists = [shuffled(found) for found in lists] if name == "samples" else lists
        widest = max(len(found.hyps) for found in lists)
        for spec in args.utilities:
            utility = Utility(Reward(spec), encoder)
            title = utility.reward.identity.translate(MARKS)
            expected_utilities(lists[:1], utility)  # the first call of a process is slower
            for size in (size for size in args.sizes if size <= widest):
                some = [found.cut(size) for found in lists]
                start = time.process_time()
                values = expected_utilities(some, utility, weights=args.weights)
                seconds = time.process_time() - start
                target = args.output / f"{name}.{title}.{args.weights}.{size}.txt"
                lines = [""] * (some[-1].sentence + 1)
                for found, place in zip(some, choose_all(some, values), strict=True):
                    if place is not None:
                        lines[found.sentence] = found.hyps[place].replace("\n", " ")
                with atomic_write(target) as stream:
                    stream.writelines(f"{line}\n" for line in lines)
                distinct = sum(len({*found.hyps}) for found in some)
                row = [name, title, args.weights, str(size), f"{seconds:.2f}", f"{distinct:,}"]
                rows.append(row)
                print("  ".join(row), flush=True)
    print(text_table(rows))


if __name__ == "__main__":
    main()

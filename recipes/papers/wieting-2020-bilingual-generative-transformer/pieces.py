"""Sentence pairs for a BGT: a random sample with some held out, and their pieces for fairseq.

pieces.py split pairs.tsv --pairs 20000 --valid 500 --train train.tsv --held-out valid.tsv
pieces.py segment --train train.tsv --held-out valid.tsv --sentencepiece MODEL -s en -t de \\
    --output DIR

`segment` writes train.L and valid.L of both languages L, and dict.txt, every piece of the model.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from simile_plugin.encoder import Preprocessing, Segmenter
from simile_plugin.files import (
    InputError,
    as_script,
    atomic_write,
    check_outputs,
    read_bytes,
    read_rows,
)


def read_pairs(path: str, flag: str) -> list[tuple[str, str]]:
    """The two sentences of each line."""
    rows = read_rows(path, flag, "sentence TAB translation")
    for row in rows:
        row.expect(2, what="a sentence, a TAB and its translation")
    return [(row.cells[0], row.cells[1]) for row in rows]


def split(args: argparse.Namespace) -> None:
    """Write a sample of pairs, the first of them held out."""
    for flag, count in (("--pairs", args.pairs), ("--valid", args.valid)):
        if count < 1:
            raise InputError(f"{flag}: got {count}, expected a number above 0")
    check_outputs({"--train": args.train, "--held-out": args.held_out}, [args.source])
    pairs = read_pairs(args.source, "PAIRS")
    if len(pairs) < args.valid + 1:
        raise InputError(
            f"PAIRS: {args.source} has {len(pairs)} pairs, expected more than --valid {args.valid}"
        )
    drawn = random.Random(1).sample(pairs, min(args.pairs + args.valid, len(pairs)))
    for path, part in ((args.held_out, drawn[: args.valid]), (args.train, drawn[args.valid :])):
        with atomic_write(path) as stream:
            stream.writelines(f"{one}\t{other}\n" for one, other in part)


def segment(args: argparse.Namespace) -> None:
    """Write the pieces of both sides, and the dictionary."""
    languages = (args.source_lang, args.target_lang)
    if args.source_lang == args.target_lang:
        raise InputError(f"--target-lang: got '{args.target_lang}', which is --source-lang, too")
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    written = [f"{part}.{language}" for part in ("train", "valid") for language in languages]
    outputs = {"--output": [str(folder / name) for name in (*written, "dict.txt")]}
    check_outputs(outputs, [args.train, args.held_out, args.sentencepiece])
    segmenter = Segmenter(read_bytes(args.sentencepiece, "--sentencepiece"), Preprocessing())
    files = {"train": (args.train, "--train"), "valid": (args.held_out, "--held-out")}
    for name, file in files.items():
        sides = zip(*read_pairs(*file), strict=True)
        for language, sentences in zip(languages, sides, strict=True):
            with atomic_write(folder / f"{name}.{language}") as stream:
                for row in segmenter.encode(sentences):
                    stream.write(" ".join(segmenter.model.pieces[i] for i in row) + "\n")
    model = segmenter.model
    with atomic_write(folder / "dict.txt") as stream:
        for piece, kind in zip(model.pieces, model.types, strict=True):
            if kind not in (2, 3):  # unknown, control: fairseq has its own of these
                stream.write(f"{piece} 1\n")


@as_script
def main() -> None:
    """Read the flags, write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True)
    one = actions.add_parser("split")
    one.add_argument("source", metavar="PAIRS")
    one.add_argument("--pairs", type=int, required=True, help="that are trained on, at most")
    one.add_argument("--valid", type=int, default=500, help="that are held out")
    one.set_defaults(run=split)
    other = actions.add_parser("segment")
    other.add_argument("--sentencepiece", required=True, metavar="MODEL")
    other.add_argument("-s", "--source-lang", required=True)
    other.add_argument("-t", "--target-lang", required=True)
    other.add_argument("--output", required=True, metavar="DIR")
    other.set_defaults(run=segment)
    for action in (one, other):
        action.add_argument("--train", required=True, metavar="FILE")
        action.add_argument("--held-out", required=True, metavar="FILE")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())

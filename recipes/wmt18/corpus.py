"""Cleaning of bitext, and how many pairs are left beside the paper's counts.

corpus.py clean --src de --max-tokens 80 --exclude raw/test.de raw/test.en -- in/train out/train
corpus.py count --src de --paper paper.tsv --title "The paper's corpora" RAW-FOLDER
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from simile_plugin.files import InputError, as_script, atomic_write, read_lines, read_parallel

SPACE = re.compile(r"[\s\u200b]+")
INSIDE_WORDS = str.maketrans("", "", "\u00ad\ufeff")
SPLITS = ("train", "valid", "test")


def normalize(line: str) -> str:
    """NFC, without soft hyphens and byte order marks; runs of white space as one space."""
    return SPACE.sub(" ", unicodedata.normalize("NFC", line.translate(INSIDE_WORDS))).strip()


def fold(line: str) -> str:
    """What two lines must share to count as the same sentence: letters and digits, lower case."""
    return "".join(c for c in line.lower() if c.isalnum())


def clean(
    pairs: Iterable[tuple[str, str]],
    max_tokens: int = 0,
    max_ratio: float = 0,
    exclude: frozenset[str] = frozenset(),
    dedup: bool = False,
) -> Iterator[tuple[str, str] | str]:
    """Each pair, normalised, or the word for why it is left out.

    Tokens are words between spaces; a limit of 0 is none; the ratio is the longer side's tokens
    over the shorter's. `exclude` holds folded sentences: a pair with one of them is left out.
    """
    seen = set()
    for pair in pairs:
        source, target = normalize(pair[0]), normalize(pair[1])
        lengths = sorted((len(source.split()), len(target.split())))
        if not lengths[0]:
            yield "empty"
        elif max_tokens and lengths[1] > max_tokens:
            yield "too long"
        elif max_ratio and lengths[1] > max_ratio * lengths[0]:
            yield "odd lengths"
        elif exclude and (fold(source) in exclude or fold(target) in exclude):
            yield "in valid or test"
        elif dedup and (source, target) in seen:
            yield "duplicate"
        else:
            seen.add((source, target))
            yield source, target


def read_pairs(prefix: str, src: str) -> list[tuple[str, str]]:
    """The pairs of PREFIX.SRC and PREFIX.en.

    Raises:
        InputError: where the two have different numbers of lines, or are not UTF-8.
    """
    names = [f"{prefix}.{src}", f"{prefix}.en"]
    source, target = read_parallel([(name, "bitext") for name in names])
    return list(zip(source, target, strict=True))


def write_pairs(prefix: str, src: str, pairs: list[tuple[str, str]]) -> None:
    """Write PREFIX.SRC and PREFIX.en, each under a temporary name first."""
    for side, language in enumerate((src, "en")):
        with atomic_write(f"{prefix}.{language}") as stream:
            stream.writelines(pair[side] + "\n" for pair in pairs)


def run_clean(args: argparse.Namespace) -> None:
    """Clean one corpus and print what was left out."""
    excluded = set[str]()
    for name in args.exclude:
        excluded.update(fold(line) for line in read_lines(name, "--exclude"))
    pairs, reasons = [], dict[str, int]()
    given = read_pairs(args.source, args.src)
    results = clean(given, args.max_tokens, args.max_ratio, frozenset(excluded - {""}), args.dedup)
    for result in results:
        if isinstance(result, str):
            reasons[result] = reasons.get(result, 0) + 1
        else:
            pairs.append(result)
    if not pairs:
        raise InputError(f"{args.source}.{args.src}: no pair of {len(given)} is left: {reasons}")
    write_pairs(args.target, args.src, pairs)
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    print(f"{args.target}: {len(pairs)} of {len(given)} pairs (left out: {left_out or 'none'})")


def paper_counts(path: str, src: str) -> dict[str, int]:
    """Pairs of each split as the paper has them, from a table of language, split, pairs."""
    rows = (line.split("\t") for line in Path(path).read_text("utf-8").splitlines())
    return {row[1]: int(row[2]) for row in rows if row[0] == src}


def run_count(args: argparse.Namespace) -> None:
    """Print a table of pairs, here and in the paper."""
    paper = paper_counts(args.paper, args.src)
    print(f"{args.title}.\n")
    print(f"| {args.src}-en | pairs here | pairs in the paper |\n| :--- | ---: | ---: |")
    for split in SPLITS:
        pairs = read_pairs(f"{args.source}/{split}", args.src)
        print(f"| {split} | {len(pairs):,} | {paper[split]:,} |")


@as_script
def main() -> None:
    """Parse and run; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    for name, function in (("clean", run_clean), ("count", run_count)):
        action = actions.add_parser(name, help=function.__doc__)
        action.set_defaults(run=function)
        action.add_argument("--src", required=True, help="source language, the files' ending")
        action.add_argument("source", help="prefix of the files to read (count: their folder)")
        if name == "clean":
            action.add_argument("target", help="prefix of the files to write")
            action.add_argument("--max-tokens", type=int, default=0, help="words; 0: no limit")
            action.add_argument("--max-ratio", type=float, default=0, help="0: no limit")
            action.add_argument("--exclude", nargs="*", default=[], help="sentences to leave out")
            action.add_argument("--dedup", action="store_true", help="keep one of equal pairs")
        else:
            action.add_argument("--paper", required=True, help="table of the paper's counts")
            action.add_argument("--title", required=True, help="what the corpora are")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    raise SystemExit(main())

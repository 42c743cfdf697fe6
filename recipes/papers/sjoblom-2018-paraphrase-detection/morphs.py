"""Split words into morphs by Morfessor (Virpioja et al. 2013): another input for an encoder.

    python morphs.py train TEXT... --model MODEL
    python morphs.py segment TEXT --model MODEL --output OUT [--columns 1,2]

Sjöblom et al. 2018 train on words and on Morfessor's morphs. A space comes between the morphs of a
word; whatever is no letter stays as it is, so that TSV files can be segmented too. Evaluate an
encoder of morphs on segmented text. Needs the library (BSD licence): pip install morfessor
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable

from simile_plugin.files import (
    InputError,
    as_script,
    atomic_write,
    read_lines,
    refuse_overwriting_input,
)

WORD = re.compile(r"[^\W\d_]+")
Segment = Callable[[str], list[str]]  # a word in lower case -> its morphs


def train(lines: Iterable[str]) -> dict[str, list[str]]:
    """Word -> morphs, by Morfessor Baseline on the distinct words in lower case (types).

    Raises:
        InputError: if there is no word.
    """
    import morfessor

    words = Counter(word for line in lines for word in WORD.findall(line.lower()))
    if not words:
        raise InputError("TEXT: there is no word to learn morphs from")
    model = morfessor.BaselineModel()
    # Sorted: the order decides between equally good segmentations.
    model.load_data([(1, word) for word in sorted(words)])
    model.train_batch()
    return {word: list(morphs) for _, word, morphs in model.get_segmentations()}


def segmenter(segmentations: dict[str, list[str]]) -> Segment:
    """The most probable morphs of any word, also one that was not trained on."""
    import morfessor

    model = morfessor.BaselineModel()
    model.load_segmentations((1, word, morphs) for word, morphs in segmentations.items())
    known: dict[str, list[str]] = {}

    def segment(word: str) -> list[str]:
        if word not in known:
            known[word] = list(model.viterbi_segment(word)[0])
        return known[word]

    return segment


def segment_text(text: str, segment: Segment) -> str:
    """The text with a space between the morphs of each word; letters keep their case."""

    def split(match: re.Match[str]) -> str:
        word, lower = match[0], match[0].lower()
        morphs = segment(lower)
        if len(lower) != len(word):  # a few letters get longer in lower case
            return " ".join(morphs)
        ends = [sum(map(len, morphs[: i + 1])) for i in range(len(morphs))]
        return " ".join(word[end - len(morphs[i]) : end] for i, end in enumerate(ends))

    return WORD.sub(split, text)


def segment_line(line: str, segment: Segment, columns: set[int] | None) -> str:
    """The line with the chosen TAB-separated columns (from 0; None: all) segmented."""
    cells = line.split("\t")
    return "\t".join(
        segment_text(cell, segment) if columns is None or i in columns else cell
        for i, cell in enumerate(cells)
    )


def read_model(path: str) -> dict[str, list[str]]:
    """Morphs of words, a word a line.

    Raises:
        InputError: for an empty file.
    """
    found = {"".join(line.split()): line.split() for line in read_lines(path, "--model")}
    if not found:
        raise InputError(f"--model: {path} is empty; make it with `morphs.py train`")
    return found


@as_script
def main() -> None:
    """Read the flags, train or segment."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    learn = commands.add_parser("train")
    learn.add_argument("text", nargs="+", metavar="TEXT")
    learn.add_argument("--model", required=True, metavar="MODEL", help="to write; plain text")
    apply = commands.add_parser("segment")
    apply.add_argument("text", metavar="TEXT")
    apply.add_argument("--model", required=True, metavar="MODEL")
    apply.add_argument("--output", required=True, metavar="OUT")
    apply.add_argument(
        "--columns", metavar="LIST", help="of a TSV, from 1, as in 2,3 (default all)"
    )
    args = parser.parse_args()
    try:
        if args.command == "train":
            refuse_overwriting_input(args.model, args.text, "--model")
            found = train(line for path in args.text for line in read_lines(path, "TEXT"))
            with atomic_write(args.model) as stream:
                stream.writelines(" ".join(morphs) + "\n" for morphs in found.values())
            return
        refuse_overwriting_input(args.output, [args.text, args.model])
        segment, columns = segmenter(read_model(args.model)), None
        if args.columns:
            if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", args.columns):
                raise InputError(f"--columns: got {args.columns!r}, expected numbers as in 2,3")
            columns = {int(number) - 1 for number in args.columns.split(",")}
        with atomic_write(args.output) as stream:
            for line in read_lines(args.text, "TEXT"):
                stream.write(segment_line(line, segment, columns) + "\n")
    except ModuleNotFoundError as error:
        raise InputError(f"{error}; pip install morfessor") from error


if __name__ == "__main__":
    sys.exit(main())

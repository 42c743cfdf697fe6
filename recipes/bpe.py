"""Subword segmentation of bitext by sentencepiece, for the recipes.

bpe.py train --vocab-size 5000 --model nmt.model train.de train.en
bpe.py encode --model nmt.model < train.de > train.bpe.de
"""

from __future__ import annotations

import argparse
import re
import sys

import sentencepiece

from simile_plugin.files import InputError, atomic_write


def train(files: list[str], model: str, vocab_size: int) -> None:
    """Train a joint BPE model; the file appears only when it is whole.

    Raises:
        InputError: for text of which no such model can be made.
    """
    try:
        with atomic_write(model, "wb") as stream:
            sentencepiece.SentencePieceTrainer.train(
                input=",".join(files),
                model_writer=stream,
                vocab_size=vocab_size,
                model_type="bpe",
                character_coverage=1.0,
                minloglevel=1,
            )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2].strip() or "there is no text in it"
        if bound := re.search(r"Vocabulary size .*(vs|<=) (\d+)", reason):
            reason = f"expected at {'most' if bound[1] == '<=' else 'least'} {bound[2]} pieces"
        raise InputError(f"--vocab-size {vocab_size} of {' '.join(files)}: {reason}") from error


def encode(model: str) -> None:
    """Segment standard input line by line; only LF ends a line.

    Raises:
        InputError: for a line that is not UTF-8.
    """
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input:{number}: not UTF-8 (byte {error.start}); convert it"
            ) from error
        pieces = processor.encode(text, out_type=str)
        sys.stdout.buffer.write((" ".join(pieces) + "\n").encode())


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["train", "encode"])
    parser.add_argument("--model", required=True, help="sentencepiece model to write or use")
    parser.add_argument("--vocab-size", type=int, default=8000, help="pieces (default 8000)")
    parser.add_argument("files", nargs="*", help="text to train on")
    args = parser.parse_intermixed_args()  # files may stand after the flags
    try:
        if args.action == "train":
            train(args.files, args.model, args.vocab_size)
        else:
            encode(args.model)
    except InputError as error:
        sys.exit(f"bpe.py: error: {error}")


if __name__ == "__main__":
    main()

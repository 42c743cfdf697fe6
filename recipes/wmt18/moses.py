"""The paper's segmentation: Moses' tokens (sacremoses), joint BPE by subword-nmt.

moses.py train --language de --vocab-size 40000 --model bpe/model train.de train.en
moses.py encode --language de --model bpe/model < train.de > train.bpe.de

The first file of `train` is in --language, the second is English. The way back is fairseq's:
fairseq-generate --remove-bpe --tokenizer moses.
"""

from __future__ import annotations

import argparse
import io
import sys
from typing import TextIO

from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from simile_plugin.files import atomic_write, read_lines


def tokenize(lines: list[str], language: str) -> list[str]:
    """Moses' tokens of each line, separated by spaces; & and the like as Moses escapes them."""
    tokenizer = MosesTokenizer(language)
    return [tokenizer.tokenize(line, return_str=True) for line in lines]


def train(files: list[str], language: str, model: str, operations: int) -> None:
    """Learn joint BPE; the file appears only when it is whole."""
    if len(files) != 2:
        raise ValueError(f"train: got {len(files)} files, expected the two sides of the bitext")
    text = [
        token
        for name, code in zip(files, (language, "en"), strict=True)
        for token in tokenize(read_lines(name, "bitext"), code)
    ]
    with atomic_write(model) as stream:
        learn_bpe(io.StringIO("\n".join(text) + "\n"), stream, operations)


def encode(source: TextIO, target: TextIO, language: str, model: str) -> None:
    """Segment a stream line by line; only LF ends a line."""
    with open(model, encoding="utf-8") as stream:
        bpe = BPE(stream)
    tokenizer = MosesTokenizer(language)
    for line in source:
        tokens = tokenizer.tokenize(line.rstrip("\r\n"), return_str=True)
        target.write(bpe.segment(tokens) + "\n")


def main() -> int:
    """Parse and run; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["train", "encode"])
    parser.add_argument("--model", required=True, help="codes to write or use")
    parser.add_argument("--language", required=True, help="cs, de, ru, tr or en")
    parser.add_argument("--vocab-size", type=int, default=40000, help="merge operations")
    parser.add_argument("files", nargs="*", help="the two sides to train on")
    args = parser.parse_intermixed_args()
    try:
        if args.action == "train":
            train(args.files, args.language, args.model, args.vocab_size)
        else:
            with (
                open(0, encoding="utf-8", newline="\n", closefd=False) as source,
                open(1, "w", encoding="utf-8", newline="\n", closefd=False) as target,
            ):
                encode(source, target, args.language, args.model)
    except (ValueError, OSError) as error:
        print(f"moses.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

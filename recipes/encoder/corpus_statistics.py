"""How good would paraphrases of a corpus be? Its statistics, as Table 2 of ParaNMT has them.

corpus_statistics.py --sentencepiece MODEL [--score-column 3 | --encoder DIR] NAME=PAIRS.tsv...

Of each corpus (a TSV of pairs, plain, .gz or .zst): length in words, entropy of words and pieces in
nats, paraphrase score, pairs; standard deviations are in parentheses. Length and entropy are of the
first column of a random sample of 100,000 pairs, as in Wieting and Gimpel (2018, section 5). The
paper's other two rows need Wikipedia (document frequencies) and a constituency parser.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sentencepiece

from simile_plugin.encoder import Preprocessing, load_encoder
from simile_plugin.encoder_training import TsvInput
from simile_plugin.evaluation import similarities
from simile_plugin.files import InputError, finite_number
from simile_plugin.statistics import markdown_table

PREPARED = Preprocessing()  # lowercased, punctuation split off


@dataclass(frozen=True)
class Pair:
    """One line: its sentences, and the paraphrase score (NaN where none is asked for)."""

    left: str
    right: str
    score: float = math.nan


def entropy(tokens: Iterable[str]) -> float:
    """-sum p log p over the distinct tokens, in nats."""
    counts = Counter(tokens)
    total = counts.total()
    return -math.fsum(n / total * math.log(n / total) for n in counts.values())


def sample(path: str, size: int, score_column: int | None, seed: int) -> tuple[list[Pair], int]:
    """A uniform sample of the pairs of a file, and how many there are (reservoir sampling).

    Raises:
        InputError: for a line without two columns or without a score in its column.
    """
    generator, kept, count = random.Random(seed), list[Pair](), 0
    for block in TsvInput([path]).blocks():
        for number, line in block.lines(lambda number, reason: None):
            cells = line.split("\t")
            column = 1 if score_column is None else score_column - 1
            score = finite_number(cells[column]) if score_column and column < len(cells) else None
            if len(cells) < 2 or (score_column and score is None):
                wanted = "two columns" if len(cells) < 2 else f"a score in column {score_column}"
                raise InputError(f"{path}:{number}: {len(cells)} columns, expected {wanted}")
            count += 1
            place = len(kept) if len(kept) < size else generator.randrange(count)
            if place < size:
                pair = Pair(cells[0], cells[1], math.nan if score is None else score)
                kept[place : place + 1] = [pair]
    if not kept:
        raise InputError(f"{path}: no pairs in it")
    return kept, count


def spread(values: Sequence[float]) -> str:
    """Mean, and the standard deviation (of the population) in parentheses."""
    return f"{statistics.fmean(values):.2f} ({statistics.pstdev(values):.2f})"


def describe(
    pairs: Sequence[Pair], count: int, pieces: sentencepiece.SentencePieceProcessor
) -> dict[str, str]:
    """Row -> what stands in it, for one corpus."""
    words = [PREPARED.apply(pair.left).split(" ") for pair in pairs]
    segmented = (pieces.encode(" ".join(own), out_type=str) for own in words)
    found = {
        "length, words": spread([len(own) for own in words]),
        "entropy of words": f"{entropy(word for own in words for word in own):.2f}",
        "entropy of pieces": f"{entropy(piece for own in segmented for piece in own):.2f}",
    }
    if not math.isnan(pairs[0].score):
        found["paraphrase score"] = spread([pair.score for pair in pairs])
    return {**found, "sampled of pairs": f"{len(pairs):,} of {count:,}"}


def main() -> int:
    """Parse and run; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="+", metavar="NAME=PAIRS")
    parser.add_argument("--sentencepiece", required=True, metavar="MODEL", help="of the pieces")
    score = parser.add_mutually_exclusive_group()
    score.add_argument("--score-column", type=int, metavar="N", help="from 1; 3 of ParaNMT's file")
    score.add_argument("--encoder", metavar="DIR", help="the score is the cosine of the sides")
    parser.add_argument("--sample", type=int, default=100_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        for flag, value in (("--sample", args.sample), ("--score-column", args.score_column)):
            if value is not None and value < 1:
                raise InputError(f"{flag}: got {value}, expected 1 or more")
        try:
            pieces = sentencepiece.SentencePieceProcessor(model_file=args.sentencepiece)
        except RuntimeError as error:
            where = f"--sentencepiece: {args.sentencepiece}"
            raise InputError(f"{where}: not a sentencepiece model") from error
        encoder = load_encoder(args.encoder) if args.encoder else None
        columns: dict[str, dict[str, str]] = {}
        for name, _, path in (corpus.partition("=") for corpus in args.corpora):
            if not name or not path or name in columns:
                found = " ".join(args.corpora)
                raise InputError(f"got {found}, expected NAME=PAIRS..., each name once")
            pairs, count = sample(path, args.sample, args.score_column, args.seed)
            if encoder is not None:
                lefts, rights = [p.left for p in pairs], [p.right for p in pairs]
                sims = similarities(encoder, lefts, rights).tolist()
                pairs = [Pair(p.left, p.right, sim) for p, sim in zip(pairs, sims, strict=True)]
            columns[name] = describe(pairs, count, pieces)
    except (InputError, OSError) as error:
        print(f"corpus_statistics.py: error: {error}", file=sys.stderr)
        return 2
    rows = next(iter(columns.values()))
    print(markdown_table([["", *columns], *([row, *(own[row] for own in columns.values())]
                                            for row in rows)]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

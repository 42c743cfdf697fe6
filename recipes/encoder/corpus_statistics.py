"""How good would paraphrases of a corpus be? Its statistics, as Table 2 of ParaNMT has them.

corpus_statistics.py --sentencepiece MODEL [--score-column 3 | --encoder DIR] NAME=PAIRS.tsv...

Of each corpus (a TSV of pairs, plain, .gz or .zst): length in words (each letter of a script
without spaces is one), entropy of words and pieces in nats, paraphrase score, pairs; standard
deviations are in parentheses. Length and entropy are of the first column of a random sample of
100,000 pairs, as in Wieting and Gimpel (2018, section 5). The paper's other two rows need Wikipedia
(document frequencies) and a constituency parser.
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
from functools import partial

import sentencepiece

from simile_plugin.encoder import Preprocessing, load_encoder, split_words
from simile_plugin.encoder_training import BadLines, TsvInput
from simile_plugin.evaluation import similarities
from simile_plugin.files import InputError, as_script, finite_number
from simile_plugin.significance import markdown_table

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
    return math.fsum(n / total * math.log(total / n) for n in counts.values())


def sample(
    path: str, size: int, score_column: int | None, seed: int, bad: BadLines
) -> tuple[list[Pair], int]:
    """A uniform sample of the pairs of a file, and how many there are (reservoir sampling).

    `bad` collects the lines that filter-pairs skips too: not UTF-8, a side that is missing or
    empty, no finite number in the score's column.

    Raises:
        InputError: where no line is left.
    """
    generator, kept, count = random.Random(seed), list[Pair](), 0
    for block in TsvInput([path]).blocks():
        for number, line in block.lines(partial(bad.add, path)):
            score: float | None = math.nan
            reason = None
            cells = line.split("\t")
            if len(cells) < 2:
                reason = "no second column"
            elif not all(map(str.strip, cells[:2])):
                reason = "empty side"
            elif score_column is not None:
                cell = cells[score_column - 1] if score_column <= len(cells) else ""
                score = finite_number(cell)
                reason = None if score is not None else f"no score in column {score_column}"
            if score is None or reason is not None:
                bad.add(path, number, reason or "")
                continue
            count += 1
            place = len(kept) if len(kept) < size else generator.randrange(count)
            if place < size:
                kept[place : place + 1] = [Pair(cells[0], cells[1], score)]
    if not kept:
        raise InputError(f"{path}: no pairs in it" + (f"; {bad.summary()}" if bad.total else ""))
    return kept, count


def spread(values: Sequence[float]) -> str:
    """Mean, and the standard deviation (of the population) in parentheses."""
    return f"{statistics.fmean(values):.2f} ({statistics.pstdev(values):.2f})"


def describe(
    pairs: Sequence[Pair], count: int, pieces: sentencepiece.SentencePieceProcessor
) -> dict[str, str]:
    """Row -> what stands in it, for one corpus."""
    prepared = [PREPARED.apply(pair.left) for pair in pairs]
    words = [split_words(sentence) for sentence in prepared]
    segmented = (pieces.encode(sentence, out_type=str) for sentence in prepared)
    found = {
        "length, words": spread([len(own) for own in words]),
        "entropy of words": f"{entropy(word for own in words for word in own):.2f}",
        "entropy of pieces": f"{entropy(piece for own in segmented for piece in own):.2f}",
    }
    if not math.isnan(pairs[0].score):
        found["paraphrase score"] = spread([pair.score for pair in pairs])
    return {**found, "sampled of pairs": f"{len(pairs):,} of {count:,}"}


@as_script
def main() -> None:
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
    named = [corpus.partition("=")[::2] for corpus in args.corpora]
    if not all(map(all, named)) or len(dict(named)) < len(named):
        found = " ".join(args.corpora)
        raise InputError(f"got {found}, expected NAME=PAIRS..., each name once")
    for name, path in named:
        bad = BadLines()
        pairs, count = sample(path, args.sample, args.score_column, args.seed, bad)
        if bad.total:
            print(f"warning: {bad.summary()}", file=sys.stderr)
        if encoder is not None:
            lefts, rights = [p.left for p in pairs], [p.right for p in pairs]
            sims = similarities(encoder, lefts, rights).tolist()
            pairs = [Pair(p.left, p.right, sim) for p, sim in zip(pairs, sims, strict=True)]
        columns[name] = describe(pairs, count, pieces)
    rows = next(iter(columns.values()))
    print(markdown_table([["", *columns], *([row, *(own[row] for own in columns.values())]
                                            for row in rows)]))  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())

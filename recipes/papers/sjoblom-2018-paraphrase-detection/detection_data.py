"""Pairs for paraphrase detection: graded files read, split, mixed with noise.

python detection_data.py split LABELLED --output OUT       # OUT.{train,test}.tsv, OUT.pairs.tsv
python detection_data.py noise PAIRS --percent 80 --count N --output OUT.tsv
python detection_data.py nearest PAIRS --count N --output OUT   # OUT.{train,test}.tsv

split: halves that share no sentence, of text1, text2, 0 or 1; OUT.pairs.tsv has the paraphrases of
the training half. noise: N pairs, of which a share is right and the others are paired wrongly, as
the paper trains on lists of which 80, 70 or 60 % are paraphrases. nearest: labelled
halves of pairs that are all paraphrases: each first sentence stands there again, with the most
similar sentence (tf-idf) of another pair, which is assumed to be no paraphrase of it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import InputError, as_script, atomic_write, read_rows

PARAPHRASE, OTHER = 3.0, 2.0  # lowest grade of a paraphrase, highest one of a pair that is none
LABEL = ("label", "grade", "score")
Pair = tuple[str, str]


def read_labelled(path: str, flag: str) -> tuple[list[Pair], NDArray[np.bool_]]:
    """Read lines of text1, text2, grade, or with an id before them, and what is a paraphrase (n,).

    A header may say that the grade stands in another column. Grades of 0 and 1 alone are classes;
    of others, 3 and more is a paraphrase, 2 and less is none, and what lies between is left out
    (Opusparcus: two people gave 2 and 3). Marks after a grade (TurkuNLP: 4<i) do not count.

    Raises:
        InputError: naming file:line, for a wrong number of columns or a grade outside 0 to 4; for a
            file without pairs of both classes.
    """
    rows = read_rows(path, flag, "lines of text1, text2, grade")
    count = len(rows[0].cells)
    rows[0].expect(3, 4, "text1, text2, grade, or an id before them")
    named = rows[0].find(LABEL)
    at = named[0] if named else count - 1
    one, other = [column for column in range(count) if column != at][-2:]
    pairs, grades = [], []
    for row in rows[1:] if named else rows:
        row.expect(count, count, f"{count} as in the first line")
        row.cells[at] = row.cells[at].rstrip("<>isn ")
        pairs.append((row.cells[one], row.cells[other]))
        grades.append(row.number(at, "grade", 0, 4))
    classes = set(grades) <= {0, 1}
    if not classes and 0 in grades:
        where = (rows[1:] if named else rows)[grades.index(0)].where
        raise InputError(f"{where}: got grade 0, expected 1 to 4 (or 0 and 1 in the whole file)")
    lowest, highest = (1.0, 0.0) if classes else (PARAPHRASE, OTHER)
    kept = [i for i, grade in enumerate(grades) if grade >= lowest or grade <= highest]
    labels = np.array([grades[i] >= lowest for i in kept], dtype=bool)
    if len(set(labels.tolist())) < 2:
        raise InputError(
            f"{flag}: {path}: {labels.sum()} of its {len(labels)} pairs are paraphrases, expected "
            f"pairs of both classes (grades from {lowest:g} on against grades to {highest:g})"
        )
    return [pairs[i] for i in kept], labels


def sentence_groups(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    """Number (n,) the groups of pairs that share a sentence, over any chain of them."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    number: dict[str, int] = {}
    ends = [[number.setdefault(pair[side], len(number)) for pair in pairs] for side in (0, 1)]
    edges = coo_array((np.ones(len(pairs)), ends), shape=(len(number), len(number)))
    _, groups = connected_components(edges, directed=False)
    return np.asarray(groups[ends[0]], dtype=np.int64)


def halves(pairs: Sequence[Pair], seed: int) -> NDArray[np.bool_]:
    """Choose about half of the pairs (n,) for the test; no sentence stands on both sides."""
    from sklearn.model_selection import GroupShuffleSplit

    groups = sentence_groups(pairs)
    if len(set(groups.tolist())) < 2:
        raise InputError("PAIRS: all pairs share sentences with each other; give more pairs")
    _, test = next(
        GroupShuffleSplit(1, test_size=0.5, random_state=seed).split(pairs, None, groups)
    )
    chosen = np.zeros(len(pairs), dtype=bool)
    chosen[test] = True
    return chosen


def mix(pairs: list[Pair], percent: int, count: int, seed: int) -> list[Pair]:
    """Draw pairs, so many percent of them as they are, the others paired with each other's ends."""
    rng = random.Random(seed)
    if not 0 <= percent <= 100:
        raise InputError(f"--percent: got {percent}, expected 0 to 100")
    if not 1 <= count <= len(pairs):
        raise InputError(
            f"--count: got {count}, expected 1 to {len(pairs)}, the pairs that are there"
        )
    drawn = rng.sample(pairs, count)
    right = round(percent / 100 * count)
    wrong = drawn[right:]
    return drawn[:right] + [
        (pair[0], other[1]) for pair, other in zip(wrong, [*wrong[1:], *wrong[:1]], strict=True)
    ]


def nearest(pairs: Sequence[Pair]) -> list[Pair]:
    """Pair each first sentence with the most similar second sentence of another pair, by tf-idf."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    weigh = TfidfVectorizer().fit([text for pair in pairs for text in pair])
    left, right = (weigh.transform([pair[side] for pair in pairs]) for side in (0, 1))
    similar = (left @ right.T).toarray()
    similar[np.arange(len(pairs)), np.arange(len(pairs))] = -1
    return [(pair[0], pairs[at][1]) for pair, at in zip(pairs, similar.argmax(1), strict=True)]


def read_pairs(path: str) -> list[Pair]:
    """Read the first two columns."""
    rows = read_rows(path, "PAIRS")
    for row in rows:
        row.expect(2, what="sentence TAB paraphrase")
    return [(row.cells[0], row.cells[1]) for row in rows]


def write(path: str, rows: Sequence[Sequence[object]]) -> None:
    """Write a whole file of columns."""
    with atomic_write(path) as stream:
        stream.writelines("\t".join(map(str, row)) + "\n" for row in rows)


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("split", "noise", "nearest"))
    parser.add_argument("pairs", metavar="PAIRS")
    parser.add_argument("--output", required=True)
    parser.add_argument("--percent", type=int, default=100, help="of right pairs (%(default)s)")
    parser.add_argument("--count", type=int, default=1000, help="pairs to draw (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    if args.command == "noise":
        write(args.output, mix(read_pairs(args.pairs), args.percent, args.count, args.seed))
    elif args.command == "nearest":
        drawn = mix(read_pairs(args.pairs), 100, args.count, args.seed)
        middle = len(drawn) // 2
        for name, half in (("train", drawn[:middle]), ("test", drawn[middle:])):
            rows = [(*pair, 1) for pair in half] + [(*pair, 0) for pair in nearest(half)]
            write(f"{args.output}.{name}.tsv", rows)
    else:
        pairs, labels = read_labelled(args.pairs, "PAIRS")
        test = halves(pairs, args.seed)
        for name, side in (("train", ~test), ("test", test)):
            chosen = np.flatnonzero(side)
            write(f"{args.output}.{name}.tsv", [(*pairs[i], int(labels[i])) for i in chosen])
        write(f"{args.output}.pairs.tsv", [pairs[i] for i in np.flatnonzero(labels & ~test)])


if __name__ == "__main__":
    sys.exit(main())

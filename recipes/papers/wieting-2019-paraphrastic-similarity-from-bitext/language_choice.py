"""Which language is the best to learn from? Similarity of English against shared pieces.

    python language_choice.py LANGUAGE=ENCODER=FOREIGN,ENGLISH ... --sts DIR...

After Wieting et al. 2019, "Simple and Effective Paraphrastic Similarity from Parallel
Translations", section 4.2: for each language one encoder was trained on its bitext with English
(the same amount of it). Printed: the encoder's mean Pearson on the English STS folders, how many
pieces the two sides of the bitext share, and Spearman's rank correlation of the two over the
languages. The overlap of a sentence pair is |S & T| / |S | T| of its sets of known pieces, and the
mean over the pairs is taken; this measure is ours.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from simile_plugin.encoder import Tokenizer, load_encoder
from simile_plugin.evaluation import evaluate_sts, read_sts
from simile_plugin.files import InputError, as_script, read_parallel
from simile_plugin.significance import correlation, spearman

MOST_FOR_EXACT = 8  # 8! orders


def piece_overlap(pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> float:
    """Mean of |S & T| / |S | T| over sentence pairs, in [0, 1]; pairs without pieces are left out.

    Raises:
        InputError: if no pair has a piece.
    """
    shares = []
    for left, right in pairs:
        one, other = set(left), set(right)
        if one | other:
            shares.append(len(one & other) / len(one | other))
    if not shares:
        raise InputError("FOREIGN,ENGLISH: no sentence has a known piece, expected some")
    return sum(shares) / len(shares)


def known_pieces(segmenter: Tokenizer, sentences: Sequence[str]) -> list[list[int]]:
    """The pieces of each sentence without the unknown one, which different words have."""
    rows = [np.array(row, dtype=np.int64) for row in segmenter.encode(sentences)]
    return [row[segmenter.known(row)].tolist() for row in rows]


def exact_p(x: np.ndarray, y: np.ndarray) -> float:
    """Two-sided p of Spearman's correlation: the share of all orders of y at least as extreme."""
    orders = np.array(list(itertools.permutations(y)))
    found = correlation("spearman", np.broadcast_to(x, orders.shape), orders)
    return float((np.abs(found) >= abs(spearman(x, y)) - 1e-9).mean())


@as_script
def main() -> int:
    """Read the flags, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("language", nargs="+", metavar="LANGUAGE=ENCODER=FOREIGN,ENGLISH")
    parser.add_argument("--sts", nargs="+", required=True, metavar="DIR")
    args = parser.parse_args()
    report = compare(args.language, args.sts)
    print(f"{'language':<10}{'STS':>7}{'shared pieces':>15}")
    for name, row in report["languages"].items():
        print(f"{name:<10}{row['sts']:7.1f}{row['overlap']:15.3f}")
    p = "" if report["p"] is None else f", p = {report['p']:.3f} (exact, two-sided)"
    print(f"Spearman over {len(report['languages'])} languages: {report['spearman']:.2f}{p}")
    return 0


def compare(specs: Sequence[str], folders: Sequence[str]) -> dict:
    """Figures of each language and their correlation.

    Raises:
        InputError: for a malformed or repeated language, an encoder without pieces, or fewer than
            three languages.
    """
    sets = {folder: read_sts(folder) for folder in folders}
    languages: dict[str, dict[str, float]] = {}
    for spec in specs:
        parts = spec.split("=")
        files = parts[2].split(",") if len(parts) == 3 else []
        if len(files) != 2 or parts[0] in languages:
            raise InputError(
                f"LANGUAGE: got {spec!r}, expected LANGUAGE=ENCODER=FOREIGN,ENGLISH, each "
                "language once"
            )
        encoder = load_encoder(parts[1])
        foreign, english = read_parallel([(files[0], "FOREIGN"), (files[1], "ENGLISH")])
        segmenter = getattr(encoder, "segmenter", None)
        if segmenter is None:
            raise InputError(f"LANGUAGE: {parts[1]} has no pieces of one vocabulary to be shared")
        overlap = piece_overlap(
            zip(known_pieces(segmenter, foreign), known_pieces(segmenter, english), strict=True)
        )
        years = [evaluate_sts(encoder, name, part).mean_pearson for name, part in sets.items()]
        languages[parts[0]] = {"sts": sum(years) / len(years), "overlap": overlap}
    if len(languages) < 3:
        raise InputError(f"LANGUAGE: got {len(languages)} languages, expected 3 or more")
    x = np.array([row["overlap"] for row in languages.values()])
    y = np.array([row["sts"] for row in languages.values()])
    found = spearman(x, y)
    exact = len(x) <= MOST_FOR_EXACT and not math.isnan(found)
    p = exact_p(x, y) if exact else None
    return {"languages": languages, "spearman": found, "p": p}


if __name__ == "__main__":
    sys.exit(main())

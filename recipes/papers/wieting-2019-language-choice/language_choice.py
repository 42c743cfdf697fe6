"""Which language is the best to learn English similarity from? Shared pieces against STS.

python language_choice.py LANGUAGE=PAIRS=ENCODER... ... --sts FOLDER...

Wieting et al. 2019, "Simple and Effective Paraphrastic Similarity from Parallel Translations",
section 4.2. PAIRS has English TAB LANGUAGE; encoders were trained on as many pairs of each
language, with another seed each. Printed are the mean Pearson on the STS folders, the overlap of
pieces, and Spearman's correlation of the two over the languages.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from simile_plugin.encoder import Preprocessing, Segmenter, load_encoder
from simile_plugin.encoder_training import train_sentencepiece
from simile_plugin.evaluation import StsSet, evaluate_sts, read_sts
from simile_plugin.files import InputError, as_script, read_rows
from simile_plugin.significance import Floats, correlation, markdown_table, spearman

MOST_FOR_EXACT = 8  # 8! orders


def used_pieces(sentences: Sequence[str], size: int) -> set[str]:
    """Return the pieces that a text has under a model of its own, of at most so many pieces."""
    preprocessing = Preprocessing()
    segmenter = Segmenter(train_sentencepiece(sentences, preprocessing, size), preprocessing)
    ids = {piece for row in segmenter.encode(sentences) for piece in row}
    return {segmenter.model.pieces[i] for i in ids}


def piece_overlap(english: set[str], foreign: set[str]) -> float:
    """Return the share of the English pieces that the other language has, too (footnote 10)."""
    return len(english & foreign) / len(english)


def exact_p(x: Floats, y: Floats) -> float:
    """Two-sided p of Spearman's correlation: the share of all orders of y at least as extreme."""
    orders = np.array(list(itertools.permutations(y)))
    found = correlation("spearman", np.broadcast_to(x, orders.shape), orders)
    return float((np.abs(found) >= abs(spearman(x, y)) - 1e-9).mean())


def read_language(spec: str) -> tuple[str, str, list[str]]:
    """Return language, file of pairs and encoders of LANGUAGE=PAIRS=ENCODER[,ENCODER...]."""
    parts = spec.split("=")
    if len(parts) != 3 or not all(parts):
        raise InputError(f"LANGUAGE: got '{spec}', expected LANGUAGE=PAIRS=ENCODER[,ENCODER...]")
    return parts[0], parts[1], parts[2].split(",")


def mean_sts(encoders: Sequence[str], sets: dict[str, list[StsSet]]) -> list[float]:
    """Return of each encoder the mean Pearson x 100 over the folders."""
    loaded = [load_encoder(folder) for folder in encoders]
    return [
        float(
            np.mean([evaluate_sts(encoder, name, part).mean_pearson for name, part in sets.items()])
        )
        for encoder in loaded
    ]


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, print the table and the correlation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("language", nargs="+", metavar="LANGUAGE=PAIRS=ENCODER,...")
    parser.add_argument("--sts", nargs="+", required=True, metavar="FOLDER")
    parser.add_argument("--pieces", type=int, default=4000, help="of each language's own model")
    args = parser.parse_args(argv)
    specs = [read_language(spec) for spec in args.language]
    if len({name for name, _, _ in specs}) != len(specs) or len(specs) < 3:
        raise InputError(f"LANGUAGE: got {len(specs)}, expected 3 or more, each once")
    sets = {folder: read_sts(Path(folder)) for folder in args.sts}
    grid, x, y = [["language", "shared pieces", "STS", "by seed"]], [], []
    for name, path, encoders in specs:
        rows = read_rows(path, "PAIRS", "English, a TAB and its translation")
        for row in rows:
            row.expect(2, what="English, a TAB and its translation")
        english, foreign = (
            used_pieces([row.cells[i] for row in rows], args.pieces) for i in (0, 1)
        )
        scores = mean_sts(encoders, sets)
        x.append(piece_overlap(english, foreign))
        y.append(float(np.mean(scores)))
        each = " ".join(f"{score:.1f}" for score in scores)
        grid.append([name, f"{x[-1]:.3f}", f"{y[-1]:.1f}", each])
    print(markdown_table(grid))
    found = spearman(np.array(x), np.array(y))
    p = ""
    if len(x) <= MOST_FOR_EXACT and not math.isnan(found):
        p = f", p = {exact_p(np.array(x), np.array(y)):.3f} (exact, two-sided)"
    print(f"\nSpearman over {len(x)} languages: {found:.2f}{p}")


if __name__ == "__main__":
    sys.exit(main())

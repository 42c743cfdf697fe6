"""Correlation of an encoder with human similarity: SemEval STS folders in the official layout."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from simile_plugin.encoder import RewardEncoder, cosine
from simile_plugin.evaluation.sentence_metrics import without_rounding
from simile_plugin.files import InputError, read_rows
from simile_plugin.significance import pearson, spearman

INPUT = re.compile(r"(STS(?:20\d\d)?)\.input\.(.+)\.txt")
STS_B = (
    "7 or more as in STS-B (the score in the 5th, the sentences in the 6th and 7th), or sentence, "
    "sentence, score, or a header with sentence1, sentence2, score"
)
NAMES = (  # of GLUE and SICK
    ("sentence1", "sentence_a"),
    ("sentence2", "sentence_b"),
    ("score", "relatedness_score", "similarity_score", "label"),
)
LOWEST, HIGHEST = 0, 5


@dataclass(frozen=True)
class StsSet:
    """One STS set: pairs that have a gold score (0 to 5)."""

    name: str
    left: list[str]
    right: list[str]
    gold: NDArray[np.float64]


@dataclass(frozen=True)
class StsScores:
    """Correlations of an STS folder, in percent; NaN where they are not defined.

    Attributes:
        pearson, spearman: of each set.
        mean_pearson, mean_spearman: unweighted means over the sets (the papers' convention).
        all_pearson, all_spearman: over all pairs of the folder at once.
        pairs: number of pairs.
        constant: names of the sets whose scores are all equal: no correlation there.
    """

    folder: str
    pearson: dict[str, float]
    spearman: dict[str, float]
    mean_pearson: float
    mean_spearman: float
    all_pearson: float
    all_spearman: float
    pairs: int
    constant: list[str]


def read_sts(folder: str | Path, flag: str = "--sts") -> list[StsSet]:
    """Read the STS sets of a folder in SemEval's layout, or the one set of a file.

    A folder holds STS.input.X.txt and STS.gs.X.txt (2016: STS2016.input.X.txt), sentence TAB
    sentence and a score a line; pairs with an empty gold are skipped. A file is STS-B's (genre,
    file, year, id, score, sentence, sentence) or sentence, sentence, score.

    Raises:
        InputError: naming the file (and line), for a folder without a set, a missing gold file,
            differing line counts, a line without TAB or a gold score that is no number.
    """
    root = Path(folder)
    if root.is_file():
        return [_read_sts_file(root, flag)]
    matches = (INPUT.fullmatch(path.name) for path in root.iterdir()) if root.is_dir() else ()
    inputs = sorted((match for match in matches if match), key=lambda match: match[2])
    if not inputs:
        raise InputError(
            f"{flag}: {root}: no STS.input.*.txt there, expected an STS folder, or an STS-B file"
        )
    names = [match[2] for match in inputs]
    return [
        # Two years in a folder can have sets of the same name.
        _read_set(root, match, name if names.count(name) == 1 else f"{match[1]} {name}", flag)
        for match, name in zip(inputs, names, strict=True)
    ]


def _read_set(root: Path, match: re.Match[str], name: str, flag: str) -> StsSet:
    path = root / match[0]
    gold_path = root / f"{match[1]}.gs.{match[2]}.txt"
    if not gold_path.is_file():
        raise InputError(f"{flag}: {path} has no gold scores, expected {gold_path}")
    rows, scores = read_rows(path, flag), read_rows(gold_path, flag)
    if len(rows) != len(scores):
        raise InputError(
            f"{flag}: {path} has {len(rows)} lines but {gold_path} has {len(scores)}; "
            "they must be parallel"
        )
    left, right, gold = [], [], []
    for row, score in zip(rows, scores, strict=True):
        if score.cells[0].strip():
            row.expect(2, what="sentence TAB sentence")
            left.append(row.cells[0])
            right.append(row.cells[1])
            gold.append(score.number(0, "gold score", LOWEST, HIGHEST))
    return _checked_set(name, left, right, gold, f"{flag}: {gold_path}")


def _read_sts_file(path: Path, flag: str) -> StsSet:
    """Read named columns, GLUE's ten, STS-B's (licences may follow), or a file of three."""
    left, right, gold = [], [], []
    rows = read_rows(path, flag)
    named = [column for names in NAMES for column in rows[0].find(names)[:1]]
    for row in rows[1:] if len(named) == len(NAMES) else rows:
        if len(named) == len(NAMES):
            first, second, score = named
            row.expect(max(named) + 1)
        elif len(row.cells) >= 7:
            first, second, score = (7, 8, 9) if len(row.cells) == 10 else (5, 6, 4)
        else:
            row.expect(3, 3, STS_B)
            first, second, score = 0, 1, 2
        left.append(row.cells[first])
        right.append(row.cells[second])
        gold.append(row.number(score, "gold score", LOWEST, HIGHEST))
    return _checked_set(path.stem, left, right, gold, f"{flag}: {path}")


def _checked_set(
    name: str, left: list[str], right: list[str], gold: list[float], where: str
) -> StsSet:
    if len(gold) < 2:
        raise InputError(f"{where}: {len(gold)} gold scores, expected 2 or more")
    return StsSet(name, left, right, np.array(gold))


def similarities(
    encoder: RewardEncoder, left: Sequence[str], right: Sequence[str]
) -> NDArray[np.float64]:
    """Return SIM of each pair of sentences, (n,), rounded by `without_rounding`."""
    sims: torch.Tensor = cosine(encoder.embed_text(left), encoder.embed_text(right))
    return without_rounding(sims.cpu().numpy().astype(np.float64))


def evaluate_sts(encoder: RewardEncoder, folder: str | Path, sets: Sequence[StsSet]) -> StsScores:
    """Correlate SIM with the gold scores of the sets of a folder."""
    sims = [similarities(encoder, part.left, part.right) for part in sets]
    return correlate_sts(folder, sets, sims)


def correlate_sts(
    folder: str | Path, sets: Sequence[StsSet], scores: Sequence[NDArray[np.float64]]
) -> StsScores:
    """Correlate any scores, an array (n,) a set, with the gold scores of the sets of a folder."""
    pairs = list(zip(sets, scores, strict=True))
    by_pearson = {part.name: 100 * pearson(values, part.gold) for part, values in pairs}
    by_spearman = {part.name: 100 * spearman(values, part.gold) for part, values in pairs}
    every_score = np.concatenate(scores)
    every_gold = np.concatenate([part.gold for part in sets])
    return StsScores(
        folder=str(folder),
        pearson=by_pearson,
        spearman=by_spearman,
        mean_pearson=float(np.mean(list(by_pearson.values()))),
        mean_spearman=float(np.mean(list(by_spearman.values()))),
        all_pearson=100 * pearson(every_score, every_gold),
        all_spearman=100 * spearman(every_score, every_gold),
        pairs=len(every_gold),
        constant=[name for name, value in by_pearson.items() if math.isnan(value)],
    )

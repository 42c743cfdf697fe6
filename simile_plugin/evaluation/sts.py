"""How well an encoder ranks sentence pairs: SemEval STS folders in the official layout."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from simile_plugin.encoder import RewardEncoder, cosine
from simile_plugin.files import InputError, read_lines

INPUT = re.compile(r"(STS(?:20\d\d)?)\.input\.(.+)\.txt")

SPEED_SENTENCES, SPEED_BATCH = 128_000, 128  # of the papers


@dataclass(frozen=True)
class StsSet:
    """One STS set: pairs that have a gold score (0 to 5)."""

    name: str
    left: list[str]
    right: list[str]
    gold: NDArray[np.float64]


@dataclass(frozen=True)
class StsScores:
    """Correlations of one STS folder, in percent; NaN where they are not defined.

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
        ValueError: naming the file (and line), for a folder without a set, a missing gold file,
            differing line counts, a line without TAB or a gold score that is no number.
    """
    root = Path(folder)
    if root.is_file():
        return [_read_sts_file(root, flag)]
    found = (INPUT.fullmatch(path.name) for path in root.iterdir()) if root.is_dir() else ()
    inputs = sorted((match for match in found if match), key=lambda match: match[2])
    if not inputs:
        raise InputError(
            f"{flag}: {root}: no STS.input.*.txt there, expected an STS folder, or an STS-B file"
        )
    return [_read_set(root, match, flag) for match in inputs]


def _read_set(root: Path, match: re.Match[str], flag: str) -> StsSet:
    path, name = root / match[0], match[2]
    gold_path = root / f"{match[1]}.gs.{name}.txt"
    if not gold_path.is_file():
        raise InputError(f"{flag}: {path} has no gold scores, expected {gold_path}")
    lines, scores = read_lines(path, flag), read_lines(gold_path, flag)
    if len(lines) != len(scores):
        raise InputError(
            f"{flag}: {path} has {len(lines)} lines but {gold_path} has {len(scores)}; "
            "they must be parallel"
        )
    left, right, gold = [], [], []
    for number, (line, score) in enumerate(zip(lines, scores, strict=True), 1):
        if not score.strip():
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise InputError(f"{flag}: {path}:{number}: no TAB, expected sentence TAB sentence")
        left.append(columns[0])
        right.append(columns[1])
        gold.append(_gold(score, f"{flag}: {gold_path}:{number}"))
    return _checked_set(name, left, right, gold, f"{flag}: {gold_path}")


def _read_sts_file(path: Path, flag: str) -> StsSet:
    """STS-B's columns, of which later ones name a licence, or sentence, sentence, score."""
    left, right, gold = [], [], []
    for number, line in enumerate(read_lines(path, flag), 1):
        columns = line.split("\t")
        if len(columns) >= 7:
            score, one, other = columns[4:7]
        elif len(columns) == 3:
            one, other, score = columns
        else:
            raise InputError(
                f"{flag}: {path}:{number}: {len(columns)} columns, expected 7 or more as in STS-B "
                "(the score in the 5th, the sentences in the 6th and 7th), or sentence, sentence, "
                "score"
            )
        left.append(one)
        right.append(other)
        gold.append(_gold(score, f"{flag}: {path}:{number}"))
    return _checked_set(path.stem, left, right, gold, f"{flag}: {path}")


def _gold(score: str, where: str) -> float:
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: got {score!r}, expected a number")
    return value


def _checked_set(
    name: str, left: list[str], right: list[str], gold: list[float], where: str
) -> StsSet:
    if len(gold) < 2:
        raise InputError(f"{where}: {len(gold)} gold scores, expected 2 or more")
    return StsSet(name, left, right, np.array(gold))


def pearson(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Pearson correlation in [-1, 1]; NaN if a side is constant."""
    x, y = x - x.mean(), y - y.mean()
    norms = float(np.sqrt((x * x).sum() * (y * y).sum()))
    # Cosines come from float32: what varies less than its rounding is constant.
    if norms == 0 or np.abs(x).max() < 1e-7 or np.abs(y).max() < 1e-7:
        return math.nan
    return float(np.clip((x * y).sum() / norms, -1, 1))


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts + 1) / 2)[inverse]


def spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Spearman correlation: Pearson of the ranks; NaN if a side is constant."""
    return pearson(x, y) if math.isnan(pearson(x, y)) else pearson(ranks(x), ranks(y))


def similarities(
    encoder: RewardEncoder, left: Sequence[str], right: Sequence[str]
) -> NDArray[np.float64]:
    """SIM of each pair of sentences, (n,)."""
    sims: torch.Tensor = cosine(encoder.embed_text(left), encoder.embed_text(right))
    return sims.cpu().numpy().astype(np.float64)


def evaluate_sts(encoder: RewardEncoder, folder: str | Path, sets: Sequence[StsSet]) -> StsScores:
    """Correlate SIM with the gold scores of the sets of one folder."""
    sims = [similarities(encoder, part.left, part.right) for part in sets]
    return correlate_sts(folder, sets, sims)


def correlate_sts(
    folder: str | Path, sets: Sequence[StsSet], scores: Sequence[NDArray[np.float64]]
) -> StsScores:
    """Correlate any scores, an array (n,) a set, with the gold scores of the sets of one folder."""
    found = list(zip(sets, scores, strict=True))
    by_pearson = {part.name: 100 * pearson(values, part.gold) for part, values in found}
    by_spearman = {part.name: 100 * spearman(values, part.gold) for part, values in found}
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


@dataclass(frozen=True)
class EncodingSpeed:
    """How fast an encoder turns text into vectors, segmentation included.

    Attributes:
        cpu_seconds: of the process; on a busy machine the fairer figure.
    """

    sentences: int
    batch: int
    seconds: float
    cpu_seconds: float
    device: str
    threads: int

    @property
    def per_second(self) -> float:
        """Sentences a second."""
        return self.sentences / self.seconds


def measure_speed(
    embed: Callable[[Sequence[str]], torch.Tensor],
    sentences: Sequence[str],
    total: int = SPEED_SENTENCES,
    batch: int = SPEED_BATCH,
    progress: Callable[[int], object] | None = None,
) -> EncodingSpeed:
    """Time an encoder's ``embed_text`` on the papers' protocol: 128,000 sentences, 128 at a time.

    The sentences are repeated, in order, until there are enough; one batch runs untimed before.
    progress is called with the number of sentences just encoded.

    Raises:
        ValueError: without sentences.
    """
    if not sentences:
        raise InputError("--speed: the file has no sentences")
    repeated = [sentences[i % len(sentences)] for i in range(total)]
    vectors = embed(repeated[:batch])
    start, cpu = time.perf_counter(), time.process_time()
    for first in range(0, total, batch):
        vectors = embed(repeated[first : first + batch])
        if progress:
            progress(len(vectors))
    vectors.cpu()  # waits for a GPU
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return EncodingSpeed(total, batch, seconds, cpu, str(vectors.device), torch.get_num_threads())

"""Correlation of metrics with people's judgements of single segments, as in WMT's metrics tasks.

SIM and SIMILE of an encoder stand beside sentence BLEU, chrF and METEOR on the same segments.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation.probe import reward_scores
from simile_plugin.evaluation.sentence_metrics import (
    Metrics,
    check_direction,
    differences,
    without_rounding,
)
from simile_plugin.files import InputError, Row, read_rows
from simile_plugin.reward import Reward, Scorer
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    KINDS,
    SEED,
    Estimate,
    Floats,
    bootstrap_correlations,
    estimate,
)

# Header names of a column, the preferred first: WMT's, and MLQE-PE's, whose post-edit is a
# reference that was made from the hypothesis.
NAMES = {
    "hypothesis": ("hypothesis", "hyp", "mt"),
    "reference": ("reference", "ref", "post_edit"),
    "human score": ("human_z", "da_z_mean", "z_mean", "human", "z", "score"),
}
NAME_THE_COLUMNS = "name the columns with --judgement-columns"
SOURCE_NAMES = ("source", "src", "original")
MQM_MARK = re.compile(r"</?v>")  # around the words of an error, in the files of MQM
MOST = 1e100  # of a human score: squares of larger ones are infinite
FEWEST = 4  # segments: the standard error of Fisher's z, 1 / sqrt(n - 3), is infinite for three


@dataclass(frozen=True)
class Judgements:
    """Segments of a file with a human score each: higher is better, on any scale.

    Attributes:
        srcs: the sources, where the header names a column of them.
        score_column: of the file, from 1; 0 where there is none.
    """

    path: str
    hyps: list[str]
    refs: list[str]
    human: Floats
    srcs: Sequence[str] = ()
    score_column: int = 0


@dataclass(frozen=True)
class Quality:
    """Correlations with human judgements, in percent.

    Attributes:
        segments: number of segments of each file.
        files: file -> kind of correlation -> metric -> estimate.
        mean: kind -> metric -> estimate of the unweighted mean over the files.
        difference: kind -> "SIMILE - BLEU" and its like -> estimate of the difference of the
            means, by the same resamples on both sides.
    """

    segments: dict[str, int]
    files: dict[str, dict[str, dict[str, Estimate]]]
    mean: dict[str, dict[str, Estimate]]
    difference: dict[str, dict[str, Estimate]]


def read_judgements(path: str, columns: Sequence[str] | None = None) -> Judgements:
    """Read a TSV (or .tsv.gz) of hypothesis, reference and human score.

    MQM's marks of errors (<v>, </v>) are no text of the translation: they are left out, and
    standard error says so.

    Args:
        columns: hypothesis, reference and score, each the name of a column in the header or its
            number from 1. Without them the header must hold names of NAMES.

    Raises:
        InputError: naming file and line, for a column that is not there, a line with too few
            columns, a score that is no finite number, fewer than FEWEST segments, or scores that
            are all the same.
    """
    rows = read_rows(path, "--judgements")
    header = rows[0]
    where = _find_columns(header, columns)
    if not columns or _is_header(rows[0], where[2]):
        del rows[0]
    for row in rows:
        row.expect(max(where) + 1)
    human = [row.number(where[2], "human score") for row in rows]
    for row, score in zip(rows, human, strict=True):
        if abs(score) > MOST:
            row.number(where[2], "human score", -MOST, MOST)  # raises
    if len(human) < FEWEST:
        raise InputError(
            f"--judgements: {path}: {len(human)} judged segments, expected {FEWEST} or more"
        )
    if len(set(human)) == 1:
        raise InputError(
            f"--judgements: {path}: the human score of every segment is {human[0]:g}, expected "
            "scores that differ; is it the right column?"
        )
    text_columns = [*where[:2], *header.find(SOURCE_NAMES)[:1]]
    texts = [[row.cells[column] for row in rows] for column in text_columns]
    hyps, refs, *more = _without_mqm_marks(texts, f"--judgements: {path}")
    srcs = more[0] if more else []
    return Judgements(str(path), hyps, refs, np.array(human), srcs, where[2] + 1)


def _without_mqm_marks(texts: list[list[str]], where: str) -> list[list[str]]:
    marked = sum(any(map(MQM_MARK.search, row)) for row in zip(*texts, strict=True))
    if not marked:
        return texts
    print(
        f"{where}: warning: {marked} segments have MQM's marks of errors (<v>, </v>), and are read "
        "without them",
        file=sys.stderr,
    )
    return [[MQM_MARK.sub("", text) for text in column] for column in texts]


def _is_header(row: Row, column: int) -> bool:
    """Return True where the score is no number; NaN counts as a number, and is refused as data."""
    try:
        float(row.cells[column] if column < len(row.cells) else "0")
    except ValueError:
        return True
    return False


def _find_columns(header: Row, columns: Sequence[str] | None) -> list[int]:
    """Return the columns of hypothesis, reference and score."""
    where = []
    for position, (role, known) in enumerate(NAMES.items()):
        wanted = [columns[position].strip()] if columns else known
        # Without a header a cell of line 1 may well be a number, such as the score.
        number = columns and wanted[0].isdecimal() and int(wanted[0]) > 0
        places = [int(wanted[0]) - 1] if number else header.find(wanted)
        if not places:
            raise InputError(
                f"{header.where}: no column {' or '.join(map(repr, wanted))} for the {role} in the "
                f"header {header.cells!r}; {header.other_separator or NAME_THE_COLUMNS}"
            )
        where.append(places[0])
    return where


def metric_scores(metrics: Metrics, judgements: Judgements) -> dict[str, Floats]:
    """Return sentence scores (n,) of every metric: SIM and SIMILE as in training, BLEU, chrF, ...

    Raises:
        InputError: for a reward of sources where there are none, and for human scores of which
            low ones are good (:func:`check_direction`).
    """
    hyps, refs = judgements.hyps, judgements.refs
    ours = metrics.of_encoders(hyps, refs, judgements.srcs or None)
    surface = metrics.of_surface(hyps, refs)
    where = f"--judgements: {judgements.path}"
    check_direction(ours | surface, judgements.human, where, judgements.score_column)
    return ours | surface | _of_rewards(metrics, judgements)


def _of_rewards(metrics: Metrics, judgements: Judgements) -> dict[str, Floats]:
    """Return the scores of each --reward, by its spec; of several encoders "SPEC of NAME"."""
    scores = {}
    hyps = [[hyp] for hyp in judgements.hyps]
    srcs = judgements.srcs or [""] * len(hyps)
    for spec in metrics.rewards:
        reward = Reward(spec)
        if reward.needs_sources and not judgements.srcs:
            raise InputError(
                f"{judgements.path}: no column of sources in its header, which --reward {spec} "
                "reads; expected source (or src)"
            )
        encoders: Mapping[str, RewardEncoder | None] = metrics.encoders
        if not reward.needs_encoder:
            encoders = {"": None}
        for name, encoder in encoders.items():
            scorer = Scorer(reward, encoder, metrics.alpha, metrics.tokenize)
            values = reward_scores(scorer)(hyps, judgements.refs, srcs)
            suffix = f" of {name}" if len(encoders) > 1 else ""
            scores[spec + suffix] = without_rounding(values[:, 0])
    return scores


def evaluate_judgements(
    metrics: Metrics,
    files: Sequence[Judgements],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
) -> Quality:
    """Correlate every metric with the human scores of each file, and average over the files.

    Intervals are 95% percentile intervals over bootstrap resamples of the segments within each
    file, the same draws for every metric; file k is drawn with seed + k.

    Raises:
        InputError: for no file, and as :func:`metric_scores`.
    """
    scores = [metric_scores(metrics, part) for part in files]
    return correlate(scores, files, resamples, seed)


def correlate(
    scores: Sequence[dict[str, Floats]],
    files: Sequence[Judgements],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
) -> Quality:
    """Correlate given scores, a dict a file, with people, as :func:`evaluate_judgements`."""
    if not files:
        raise InputError("got no file of judgements, expected one or more")
    resampled = [
        bootstrap_correlations(values, part.human, resamples, seed + number)
        for number, (values, part) in enumerate(zip(scores, files, strict=True))
    ]
    mean = {name: np.mean([part[name] for part in resampled], axis=0) for name in resampled[0]}
    return Quality(
        segments={part.path: len(part.human) for part in files},
        files={part.path: _by_kind(values) for part, values in zip(files, resampled, strict=True)},
        mean=_by_kind(mean),
        difference=_by_kind(differences(mean)),
    )


def _by_kind(values: Mapping[str, Floats]) -> dict[str, dict[str, Estimate]]:
    """Metric -> (kinds, 1 + R), turned into kind -> metric -> estimate."""
    return {
        kind: {name: estimate(rows[number]) for name, rows in values.items()}
        for number, kind in enumerate(KINDS)
    }

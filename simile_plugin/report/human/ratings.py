"""Read the answers of annotators and unblind them: means, tests, and how far annotators agree."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simile_plugin import significance
from simile_plugin.files import InputError, finite_number, read_rows
from simile_plugin.report.human.sheets import ITEM, RATING
from simile_plugin.report.human.study import SCALE, Study
from simile_plugin.significance import Floats, Interval

DELIMITERS = "\t;,"  # what spreadsheets write


@dataclass(frozen=True)
class Answers:
    """One annotator's ratings: item number -> 0..5, of a whole sheet every item of the study."""

    path: str
    annotator: int
    ratings: dict[int, int]


@dataclass(frozen=True)
class RatedSystem:
    """The mean rating of a system, 0 to 5, with its 95% interval, and that of each annotator."""

    name: str
    mean: float
    interval: Interval
    by_annotator: list[float]


@dataclass(frozen=True)
class RatedPair:
    """Two systems: second minus first, and the sentences where the second is better or worse.

    Attributes:
        p_holm: p_value after Holm over all pairs of systems.
    """

    first: str
    second: str
    difference: float
    p_value: float
    p_holm: float
    better: int
    equal: int
    worse: int


@dataclass(frozen=True)
class Agreement:
    """Measures of agreement between annotators; None where undefined, see `agreement`."""

    alpha: float | None
    pearson: float | None
    equal: float | None


@dataclass(frozen=True)
class Ratings:
    """An unblinded study.

    Attributes:
        study: its fingerprint.
        annotators: files of their answers.
        sentences: those whose outputs all annotators have rated, of `drawn`.
    """

    study: str
    annotators: list[str]
    sentences: int
    drawn: int
    items: int
    systems: list[RatedSystem]
    pairs: list[RatedPair]
    agreement: Agreement
    resamples: int
    seed: int


def read_answers(
    path: str, study: Study, flag: str = "--answers", partial: bool = False
) -> Answers:
    """Read a filled-in sheet (TSV, CSV) or what the HTML form saved; the order of rows is free.

    partial: items without a rating are left out.

    Raises:
        InputError: naming file:line for a rating that is missing, double, or not in 0..5, for an
            item of another study, and for rows of more than one sheet.
    """
    header, *rows = read_rows(path, flag, "a filled-in sheet", delimiters=DELIMITERS, quoted=True)
    columns = [*header.find([ITEM]), *header.find([RATING])]
    if len(columns) < 2:
        raise InputError(
            f"{header.where}: no columns '{ITEM}' and '{RATING}'; expected a filled-in sheet or "
            "the answers that the form saved"
        )
    sheet = 0
    ratings: dict[int, int] = {}
    lines: dict[int, int] = {}
    for line, row in enumerate(rows, start=2):
        where = row.where
        if not any(row.cells):
            continue
        if len(row.cells) <= max(columns):
            raise InputError(
                f"{where}: the line ends before its rating; expected 0 to {max(SCALE)}"
            )
        item, rating = (row.cells[column] for column in columns)
        annotator, number = _parse_item(item, study, where)
        sheet = sheet or annotator
        if annotator != sheet:
            raise InputError(
                f"{where}: an item of sheet {annotator} among those of sheet {sheet}; give each "
                "annotator's answers as a file of their own"
            )
        if number in lines:
            raise InputError(f"{where}: item {item} is also on line {lines[number]}; keep one")
        lines[number] = line
        if rating or not partial:
            ratings[number] = _parse_rating(rating, item, where)
    for number in range(1, len(study.items) + 1) if not partial else ():
        if number not in ratings:
            raise InputError(
                f"{flag}: {path}:{1 + len(rows)}: the file ends without item "
                f"{study.item_id(sheet or 1, number)} ({len(ratings)} of {len(study.items)} items "
                "are there); every item needs a rating, or give --partial"
            )
    return Answers(path, sheet, ratings)


def _parse_item(text: str, study: Study, where: str) -> tuple[int, int]:
    """Return the numbers of the sheet and of the item."""
    parts = text.split("-")
    if len(parts) != 3 or not all(re.fullmatch(r"\d{1,18}", part) for part in parts[1:]):
        raise InputError(
            f"{where}: got item '{text[:60]}'; expected a name like {study.item_id(1, 1)}"
        )
    if parts[0] != study.fingerprint:
        raise InputError(
            f"{where}: item {text} belongs to study {parts[0]}, but the key is of study "
            f"{study.fingerprint}; give the key that was written with this sheet"
        )
    annotator, number = map(int, parts[1:])
    if not (1 <= annotator <= study.settings.annotators and 1 <= number <= len(study.items)):
        raise InputError(
            f"{where}: got item '{text}', but the study has {study.settings.annotators} sheets of "
            f"{len(study.items)} items"
        )
    return annotator, number


def _parse_rating(text: str, item: str, where: str) -> int:
    if not text:
        raise InputError(f"{where}: item {item} has no rating; expected 0 to {max(SCALE)}")
    value = finite_number(text.replace(",", "."))
    if value is None or value not in SCALE:
        raise InputError(
            f"{where}: item {item} has the rating '{text}'; expected a whole number from 0 to "
            f"{max(SCALE)}"
        )
    return int(value)


def compare_ratings(
    study: Study,
    answers: Sequence[Answers],
    resamples: int = significance.BOOTSTRAP_RESAMPLES,
    seed: int = significance.SEED,
) -> Ratings:
    """Unblind: mean of each system, paired bootstrap over sentences, agreement of annotators.

    mean(s) = 1/|T| sum_t 1/|A| sum_a rating(a, output of s for t)

    Of each pair of systems the sentences are counted that people rate `better`, `equal` and
    `worse` in the second, by the mean of the annotators. Of partial answers the sentences count
    whose outputs all annotators have rated.

    Raises:
        InputError: for no answers, two files of one sheet, or no sentence that all have rated.
    """
    if not answers:
        raise InputError("--answers: got no file; expected one for each annotator")
    ordered = sorted(answers, key=lambda sheet: sheet.annotator)
    for sheet, other in itertools.pairwise(ordered):
        if sheet.annotator == other.annotator:
            raise InputError(
                f"--answers: {sheet.path} and {other.path} are both answers to sheet "
                f"{sheet.annotator}; give one of them, or each annotator a sheet of their own"
            )
    table = _by_system(study, ordered)  # name -> (A, T)
    of = {n: significance.mean_statistics(table[n].mean(0)[None]) for n in study.systems}
    drawn = significance.bootstrap([*of.values()], resamples, seed)
    draws = dict(zip(of, drawn, strict=True))

    pairs = list(itertools.combinations(study.systems, 2))
    p_values = [significance.paired_p_value(of[a], of[b], (draws[a], draws[b])) for a, b in pairs]
    adjusted = significance.holm(p_values)
    numbers = [n for n in range(1, 1 + len(study.items)) if all(n in a.ratings for a in ordered)]
    by_item = np.array([[sheet.ratings[n] for n in numbers] for sheet in ordered])
    return Ratings(
        study=study.fingerprint,
        annotators=[answer.path for answer in ordered],
        sentences=next(iter(table.values())).shape[1],
        drawn=study.settings.sentences,
        items=len(study.items),
        systems=[
            RatedSystem(
                name,
                float(table[name].mean()),
                significance.interval(of_system),
                table[name].mean(1).tolist(),
            )
            for name, of_system in draws.items()
        ],
        pairs=[
            _rated_pair((a, b), (table[a], table[b]), p_value, p_holm)
            for (a, b), p_value, p_holm in zip(pairs, p_values, adjusted, strict=True)
        ],
        agreement=agreement(by_item.astype(np.float64)),
        resamples=resamples,
        seed=seed,
    )


def mean_ratings(study: Study, answers: Sequence[Answers]) -> dict[tuple[int, str], float]:
    """Return (line from 1, translation) -> mean rating over the annotators who rated the item."""
    means = {}
    for number, item in enumerate(study.items, start=1):
        if values := [sheet.ratings[number] for sheet in answers if number in sheet.ratings]:
            means[item.line, item.translation] = sum(values) / len(values)
    return means


def _by_system(study: Study, answers: Sequence[Answers]) -> dict[str, Floats]:
    """Return each system's ratings, (annotators, sentences), sentences in the order of lines."""
    lines = sorted({item.line for item in study.items})
    columns = {line: column for column, line in enumerate(lines)}
    table = {name: np.full((len(answers), len(lines)), np.nan) for name in study.systems}
    for number, item in enumerate(study.items, start=1):
        for name in item.systems:
            for row, answer in enumerate(answers):
                table[name][row, columns[item.line]] = answer.ratings.get(number, np.nan)
    whole = ~np.isnan(np.stack(list(table.values()))).any(axis=(0, 1))
    if not whole.any():
        raise InputError("--answers: no sentence has all its outputs rated by all annotators")
    return {name: ratings[:, whole] for name, ratings in table.items()}


def _rated_pair(
    names: tuple[str, str], ratings: tuple[Floats, Floats], p_value: float, p_holm: float
) -> RatedPair:
    first, second = ratings
    by_sentence = second.mean(0) - first.mean(0)
    difference = float(second.mean() - first.mean())
    better = int((by_sentence > significance.TIE).sum())
    worse = int((by_sentence < -significance.TIE).sum())
    return RatedPair(
        *names,
        difference=difference,
        p_value=p_value,
        p_holm=p_holm,
        better=better,
        equal=len(by_sentence) - better - worse,
        worse=worse,
    )


def agreement(ratings: Floats) -> Agreement:
    """Measure how far annotators agree; None where it is undefined.

    `alpha` is Krippendorff's with the interval distance (1 is perfect, 0 is chance), `pearson` the
    mean over pairs of annotators, `equal` the share of equal ratings of items by two annotators.

    alpha = 1 - D_o / D_e;  D_o: mean squared difference of two ratings of one item,
    D_e: of any two of all ratings, whichever their items (Krippendorff 2011)

    Args:
        ratings: (annotators, items), none missing.
    """
    annotators, items = ratings.shape
    if annotators < 2:
        return Agreement(None, None, None)
    pairs = list(itertools.combinations(range(annotators), 2))
    within = np.array([ratings[a] - ratings[b] for a, b in pairs])
    observed = float((within**2).mean())
    total = annotators * items
    # mean over ordered pairs of different ratings: (2 n sum x^2 - 2 (sum x)^2) / (n (n - 1))
    squares = float((ratings**2).sum())
    expected = 2 * (total * squares - float(ratings.sum()) ** 2) / (total * (total - 1))
    pearson = np.mean([significance.pearson(ratings[a], ratings[b]) for a, b in pairs])
    return Agreement(
        alpha=1 - observed / expected if expected > significance.TIE else None,
        pearson=None if np.isnan(pearson) else float(pearson),
        equal=float((within == 0).mean()),
    )

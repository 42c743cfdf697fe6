"""Answers of annotators, unblinded: means, tests, and how far annotators agree."""

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
    """One annotator's ratings: item number -> 0..5, every item of the study."""

    path: str
    annotator: int
    ratings: dict[int, int]


@dataclass(frozen=True)
class SystemRatings:
    """Mean rating of a system over sentences and annotators, with a 95% interval over sentences.

    Attributes:
        by_annotator: mean rating by each annotator, in the order of the answers.
    """

    name: str
    mean: float
    interval: Interval
    by_annotator: tuple[float, ...]


@dataclass(frozen=True)
class RatedPair:
    """Second system minus first: mean difference, p-value, sentences better, equal and worse.

    A sentence counts as one of the three by the mean of its annotators.
    """

    first: str
    second: str
    difference: float
    p_value: float
    better: int
    equal: int
    worse: int


@dataclass(frozen=True)
class Agreement:
    """How far annotators agree; None where it is undefined (one annotator, or all ratings equal).

    Attributes:
        alpha: Krippendorff's alpha with the interval distance; 1 is perfect, 0 is chance.
        pearson: mean correlation of two annotators' ratings over pairs of annotators.
        equal: share of items and pairs of annotators with equal ratings.
    """

    alpha: float | None
    pearson: float | None
    equal: float | None


@dataclass(frozen=True)
class HumanResult:
    """What people said.

    Attributes:
        annotators: files of answers.
        items: distinct translations; equal outputs were rated once.
    """

    study: str
    annotators: tuple[str, ...]
    sentences: int
    items: int
    systems: tuple[SystemRatings, ...]
    pairs: tuple[RatedPair, ...]
    agreement: Agreement
    resamples: int
    seed: int


def read_answers(path: str, study: Study, flag: str = "--answers") -> Answers:
    """Read a filled-in sheet (TSV, CSV) or what the HTML form saved; the order of rows is free.

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
    annotators: dict[str, int] = {}
    ratings: dict[int, int] = {}
    seen: dict[int, int] = {}
    for place, row in enumerate(rows, start=2):
        where = row.where
        if not any(row.cells):
            continue
        if len(row.cells) <= max(columns):
            raise InputError(
                f"{where}: the line ends before its rating; expected 0 to {max(SCALE)}"
            )
        item, rating = (row.cells[column] for column in columns)
        annotator, number = _parse_item(item, study, where)
        annotators.setdefault(annotator, place)
        if len(annotators) > 1:
            first, second = annotators
            raise InputError(
                f"{where}: an item of sheet {second} among those of sheet {first}; give each "
                "annotator's answers as a file of their own"
            )
        if number in seen:
            raise InputError(f"{where}: item {item} is also on line {seen[number]}; keep one")
        seen[number] = place
        ratings[number] = _parse_rating(rating, item, where)
    for number in range(1, len(study.items) + 1):
        if number not in ratings:
            name = study.item_id(int(next(iter(annotators), "1")), number)
            raise InputError(
                f"{flag}: {path}:{1 + len(rows)}: the file ends without item {name} "
                f"({len(ratings)} of {len(study.items)} items are there); every item needs a rating"
            )
    return Answers(path, int(next(iter(annotators))), ratings)


def _parse_item(text: str, study: Study, where: str) -> tuple[str, int]:
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
    if not (
        1 <= int(parts[1]) <= study.settings.annotators and 1 <= int(parts[2]) <= len(study.items)
    ):
        raise InputError(
            f"{where}: got item '{text}', but the study has {study.settings.annotators} sheets of "
            f"{len(study.items)} items"
        )
    return str(int(parts[1])), int(parts[2])


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


def analyse_ratings(
    study: Study,
    answers: Sequence[Answers],
    resamples: int = significance.BOOTSTRAP_RESAMPLES,
    seed: int = significance.SEED,
) -> HumanResult:
    """Unblind: mean of each system, paired bootstrap over sentences, agreement of annotators.

    mean(s) = 1/|T| sum_t 1/|A| sum_a rating(a, output of s for t)

    Raises:
        InputError: for no answers, or two files of one sheet.
    """
    if not answers:
        raise InputError("--answers: got no file; expected one for each annotator")
    by_sheet: dict[int, str] = {}
    for own in answers:
        if own.annotator in by_sheet:
            raise InputError(
                f"--answers: {by_sheet[own.annotator]} and {own.path} are both answers to sheet "
                f"{own.annotator}; give one of them, or each annotator a sheet of their own"
            )
        by_sheet[own.annotator] = own.path
    ordered = sorted(answers, key=lambda own: own.annotator)
    table = _by_system(study, ordered)  # name -> (A, T)
    statistics = [significance.mean_statistics(table[n].mean(0)[None]) for n in study.systems]
    draws = significance.bootstrap(statistics, resamples, seed)
    systems = [
        SystemRatings(
            name,
            float(table[name].mean()),
            significance.interval(row),
            tuple(table[name].mean(1).tolist()),
        )
        for name, row in zip(study.systems, draws, strict=True)
    ]
    places = {name: row for row, name in enumerate(study.systems)}
    pairs = [
        _rated_pair(a, b, table, draws[places[a]], draws[places[b]])
        for a, b in itertools.combinations(study.systems, 2)
    ]
    by_item = np.array([[own.ratings[n + 1] for n in range(len(study.items))] for own in ordered])
    return HumanResult(
        study.fingerprint,
        tuple(own.path for own in ordered),
        study.settings.sentences,
        len(study.items),
        tuple(systems),
        tuple(pairs),
        agreement(by_item.astype(np.float64)),
        resamples,
        seed,
    )


def mean_ratings(study: Study, answers: Sequence[Answers]) -> dict[tuple[int, str], float]:
    """(line from 1, translation) -> mean rating over the annotators, of every rated item."""
    return {
        (item.line, item.translation): sum(own.ratings[n] for own in answers) / len(answers)
        for n, item in enumerate(study.items, start=1)
    }


def _by_system(study: Study, answers: Sequence[Answers]) -> dict[str, Floats]:
    """Ratings of each system: (annotators, sentences), sentences in the order of their lines."""
    lines = sorted({item.line for item in study.items})
    columns = {line: column for column, line in enumerate(lines)}
    table = {name: np.full((len(answers), len(lines)), np.nan) for name in study.systems}
    for number, item in enumerate(study.items, start=1):
        for name in item.systems:
            for row, own in enumerate(answers):
                table[name][row, columns[item.line]] = own.ratings[number]
    return table


def _rated_pair(
    first: str, second: str, table: dict[str, Floats], first_draws: Floats, second_draws: Floats
) -> RatedPair:
    by_sentence = table[second].mean(0) - table[first].mean(0)
    difference = float(table[second].mean() - table[first].mean())
    p_value = significance.bootstrap_p_value(
        first_draws, second_draws, difference, len(by_sentence)
    )
    better = int((by_sentence > significance.TIE).sum())
    worse = int((by_sentence < -significance.TIE).sum())
    equal = len(by_sentence) - better - worse
    return RatedPair(first, second, difference, p_value, better, equal, worse)


def agreement(ratings: Floats) -> Agreement:
    """Agreement of annotators: Krippendorff's alpha (interval), Pearson, share of equal ratings.

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
    alpha = 1 - observed / expected if expected > significance.TIE else None
    pearson = np.mean([significance.pearson(ratings[a], ratings[b]) for a, b in pairs])
    return Agreement(
        alpha, None if np.isnan(pearson) else float(pearson), float((within == 0).mean())
    )

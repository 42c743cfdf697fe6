"""What do people say? Mean ratings, tests and agreement from the answers of annotators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.report.answer import (
    Answer,
    Figure,
    after_holm,
    count,
    make_table,
    optional,
    p_defined,
    p_text,
    p_told,
)
from simile_plugin.report.human.ratings import Agreement, RatedPair, Ratings, compare_ratings
from simile_plugin.report.inputs.options import LEVEL
from simile_plugin.significance import Bar, interval_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs


def ask(inputs: Inputs) -> Answer:
    """Unblind the answers."""
    return answer_ratings(compare_ratings(*inputs.human, inputs.test.resamples, inputs.test.seed))


def answer_ratings(data: Ratings) -> Answer:
    """Show the mean rating of each system, differences, agreement."""
    people = count(len(data.annotators), "annotator")
    rated, bars = [], []
    for system in data.systems:
        low, high = system.interval.low, system.interval.high
        means = [f"{mean:.2f}" for mean in system.by_annotator]
        rated.append([system.name, f"{system.mean:.2f}", f"{(high - low) / 2:.2f}", *means])
        bars.append(Bar(system.name, system.mean, low, high, system.by_annotator))
    pairs = [
        [
            f"{pair.second} - {pair.first}",
            f"{pair.difference:+.2f}",
            p_text(pair.p_holm, data.resamples, len(data.pairs)),
            *map(str, (pair.better, pair.equal, pair.worse)),
        ]
        for pair in data.pairs
    ]
    lacking = data.drawn - data.sentences
    left = f" of {data.drawn} (the others are not yet rated by all)" if lacking else ""
    sentences = f"{count(data.sentences, 'sentence')}{left}"
    chart = interval_chart("Mean rating of every system", {"Rating, 0 to 5": bars})
    defined = p_defined(data.sentences, data.resamples) + after_holm(len(data.pairs))
    caption = "Mean rating with its 95% interval; small circles are single annotators."
    annotators = raters(data.annotators)
    return Answer(
        "human",
        "Human ratings",
        "How close people, who did not know whose translation they saw, found each to the "
        "reference.",
        f"Ratings by {people} of {sentences}, study {data.study}",
        [
            make_table(["System", "Rating", "±", *annotators], rated),
            Figure(chart, caption),
            make_table(["Difference", "Rating", "p", "Better", "Equal", "Worse"], pairs),
        ],
        asdict(data),
        sentences=[_sentence(data.pairs[-1], people, data.resamples, len(data.pairs))],
        notes=[
            _agreement(data.agreement, len(data.annotators)),
            f"ratings from 0 (another meaning) to 5 (the same meaning, well formed) of "
            f"{data.sentences} sentences; ±: bootstrap over the sentences, {data.resamples:,} "
            f"resamples, seed {data.seed}; p: {defined}",
        ],
    )


def raters(paths: Sequence[str]) -> list[str]:
    """Name annotators by their files, numbered where the names are not distinct."""
    names = [Path(path).stem for path in paths]
    several = len(set(names)) < len(names)
    return [f"{name} ({i + 1})" if several else name for i, name in enumerate(names)]


def _sentence(pair: RatedPair, people: str, draws: int, tests: int) -> str:
    """Tell what people say of the last two systems, of so many pairs that are compared."""
    first, second, difference = pair.first, pair.second, pair.difference
    chance = p_told(pair.p_holm, draws, tests)
    if pair.p_holm < LEVEL and difference:
        better, worse = (second, first) if difference > 0 else (first, second)
        size = f"{abs(difference):.2f}"
        return f"People ({people}) rate {better} {size} points of 5 above {worse} ({chance})."
    return (
        f"People ({people}) see no clear difference between {second} and {first}: "
        f"{difference:+.2f} points of 5 ({chance})."
    )


def _agreement(of: Agreement, annotators: int) -> str:
    if of.equal is None:
        return "agreement: one annotator, so none can be computed"
    alpha, pearson = (optional(value, ".2f", "undefined") for value in (of.alpha, of.pearson))
    return (
        f"agreement of {annotators} annotators: Krippendorff's alpha (interval) {alpha}, mean "
        f"Pearson of two {pearson}, equal ratings {of.equal:.0%}"
    )

"""What do people say? Mean ratings, tests and agreement from the answers of annotators."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from simile_plugin.report.answer import Answer, Figure, count, make_table, p_text, p_told
from simile_plugin.report.human.ratings import HumanResult, analyse_ratings
from simile_plugin.report.inputs.settings import LEVEL
from simile_plugin.significance import Bar, interval_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

NEEDS = (("human",),)
ASKED_BY = ("human",)
PICTURED = False


def ask(inputs: Inputs) -> Answer:
    """The answers, unblinded."""
    found = analyse_ratings(*inputs.human, inputs.test.resamples, inputs.test.seed)
    return answer_ratings(found)


def answer_ratings(result: HumanResult) -> Answer:
    """Mean rating of each system, differences, agreement."""
    people = range(len(result.annotators))
    rated = [
        [
            system.name,
            f"{system.mean:.2f}",
            f"{(system.interval.high - system.interval.low) / 2:.2f}",
            *(f"{mean:.2f}" for mean in system.by_annotator),
        ]
        for system in result.systems
    ]
    pairs = [
        [
            f"{pair.second} - {pair.first}",
            f"{pair.difference:+.2f}",
            p_text(pair.p_value),
            *(str(number) for number in (pair.better, pair.equal, pair.worse)),
        ]
        for pair in result.pairs
    ]
    bars = [
        Bar(s.name, s.mean, s.interval.low, s.interval.high, s.by_annotator) for s in result.systems
    ]
    chart = interval_chart("Mean rating of every system", {"Rating, 0 to 5": bars})
    caption = "Mean rating with its 95% interval; small circles are single annotators."
    return Answer(
        "human",
        "Human ratings",
        "How close people, who did not know whose translation they saw, found each to the "
        "reference.",
        f"Ratings by {count(len(people), 'annotator')} of {count(result.sentences, 'sentence')}, "
        f"study {result.study}",
        [
            make_table(["System", "Rating", "±", *(f"Annotator {i + 1}" for i in people)], rated),
            Figure(chart, caption),
            make_table(["Difference", "Rating", "p", "Better", "Equal", "Worse"], pairs),
        ],
        asdict(result),
        sentences=[_sentence(result)],
        notes=_notes(result),
    )


def _sentence(found: HumanResult) -> str:
    """What people say of the last two systems."""
    pair = found.pairs[-1]
    people = count(len(found.annotators), "annotator")
    chance = p_told(pair.p_value)
    if pair.p_value < LEVEL and pair.difference:
        better, worse = pair.second, pair.first
        if pair.difference < 0:
            better, worse = worse, better
        size = f"{abs(pair.difference):.2f}"
        return f"People ({people}) rate {better} {size} points of 5 above {worse} ({chance})."
    return (
        f"People ({people}) see no clear difference between {pair.second} and {pair.first}: "
        f"{pair.difference:+.2f} points of 5 ({chance})."
    )


def _notes(result: HumanResult) -> list[str]:
    """Agreement in words, and how the numbers were made."""
    found = result.agreement
    if found.equal is None:
        agreement = "agreement: one annotator, so none can be computed"
    else:
        alpha = "undefined" if found.alpha is None else f"{found.alpha:.2f}"
        pearson = "undefined" if found.pearson is None else f"{found.pearson:.2f}"
        agreement = (
            f"agreement of {len(result.annotators)} annotators: Krippendorff's alpha (interval) "
            f"{alpha}, mean Pearson of two {pearson}, equal ratings {found.equal:.0%}"
        )
    return [
        agreement,
        f"ratings from 0 (another meaning) to 5 (the same meaning, well formed) of "
        f"{result.sentences} sentences; ± and p: bootstrap over the sentences, "
        f"{result.resamples:,} resamples, seed {result.seed} (p: the tail of the direction seen)",
        f"answers: {', '.join(result.annotators)}",
    ]

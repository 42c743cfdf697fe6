"""How much of a difference is length? What BLEU is made of, and scores at equal length."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from simile_plugin.report.answer import Answer, Cell, Part, make_table, p_text, signed
from simile_plugin.report.comparison import ORDERS, Comparison, Difference
from simile_plugin.report.inputs.options import LEVEL
from simile_plugin.report.questions.results import pairs_of, titles

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs


def ask(inputs: Inputs) -> Answer:
    """Take the scores of the results apart."""
    return answer_length(inputs.comparison)


def answer_length(data: Comparison) -> Answer:
    """Show brevity penalty and precisions of every system, and differences at equal length."""
    made_of = [
        [
            system.name,
            f"{system.length_ratio.value:.3f}",
            f"{system.brevity_penalty:.3f}",
            *(f"{precision:.1f}" for precision in system.precisions),
            f"{system.chrf_precision:.1f}",
            f"{system.chrf_recall:.1f}",
        ]
        for system in data.systems
    ]
    head = ["System", "Length", "BLEU: penalty", *(f"{n + 1}-grams" for n in range(ORDERS))]
    parts: list[Part] = [make_table([*head, "chrF: precision", "recall"], made_of)]
    named, draws = titles(data), data.test.resamples
    pairs = pairs_of(data)
    rows = [[pair, *(_cell(c, draws) for c in compared.values())] for pair, compared in pairs]
    facts = [
        {"pair": pair, **{metric: asdict(c.same_length) for metric, c in compared.items()}}
        for pair, compared in pairs
    ]
    if rows:
        parts.append(make_table(["At the baseline's length", *named.values()], rows))
    without = ("files", "scores")  # which the results have
    return Answer(
        "length",
        "How much of it is length?",
        "Longer outputs raise BLEU by its brevity penalty, and recall in chrF and SIM, without a "
        "word chosen better.",
        "Length: what BLEU and chrF are made of, and differences at the baseline's length",
        parts,
        {
            "systems": [
                {key: value for key, value in asdict(system).items() if key not in without}
                for system in data.systems
            ],
            "same_length": facts,
        },
        notes=[
            "differences at the baseline's length, in brackets as they are. BLEU: the system's "
            "precisions with the baseline's brevity penalty; chrF: its precisions in as many "
            "character n-grams as the baseline has; a mean over sentences: the intercept of the "
            "sentences' differences over their differences in length",
            "p: the share of the resamples on the other side, of each comparison by itself (of few "
            "sentences too low)",
        ],
    )


def _cell(comparison: Difference, draws: int) -> Cell:
    level = comparison.same_length
    shown = f"{level.difference:+.2f} (p {p_text(level.p_value, draws)})"
    text = f"{shown} [{comparison.difference:+.2f}]"
    return signed(level.difference, level.p_value < LEVEL, text)

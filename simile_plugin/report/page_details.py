"""Sections of the page about costs, n-best size, words, examples and signs of gaming."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from simile_plugin.report.page import PageSection
from simile_plugin.report.page_parts import (
    Cell,
    Group,
    Html,
    folded,
    heading,
    join,
    marked,
    notes,
    paragraph,
    picture,
    table,
)
from simile_plugin.report.results_table import HEADINGS

if TYPE_CHECKING:
    from simile_plugin.report.costs import CostsResult
    from simile_plugin.report.examples import Example, ExamplesResult
    from simile_plugin.report.gaming import GamingResult
    from simile_plugin.report.lexical import LexicalCell, LexicalResult
    from simile_plugin.report.nbest import NbestResult
    from simile_plugin.report.quality import QualityResult
    from simile_plugin.statistics import Grid

# The analyses that draw import matplotlib, so each is imported where its picture is wanted.


def page_costs(found: CostsResult) -> PageSection:
    """Figure 11: how finely each cost tells candidates apart."""
    from simile_plugin.report.costs import NAMES, costs_figure

    header = ["Measure", *(NAMES.get(cost, cost) for cost in found.costs)]
    lines = [
        ("Mean cost of a candidate", "mean"),
        ("Standard deviation", "std"),
        ("Skew", "skew"),
        ("Mean cost of the model's best", "first_cost"),
        ("Mean of the lowest cost of each list", "oracle_cost"),
        ("Pairs of a list that differ in cost", "above_zero_share"),
        ("Mean difference of such a pair", "mean_difference"),
        ("Median difference of a pair", "median_difference"),
        ("Skew of the differences", "difference_skew"),
    ]
    rows: list[Group] = []
    for title, name in lines:
        values = [getattr(cost, name) for cost in found.costs.values()]
        rows.append([[title, *(_number(value, name.endswith("share")) for value in values)]])
    parts = [
        picture(costs_figure(found), "Costs of candidates, and differences within lists.", "costs"),
        table(header, rows),
    ]
    if found.only_bleu_equal is not None:
        parts.append(
            paragraph(
                f"{found.only_bleu_equal:.1%} of all pairs cost the same under BLEU and not under "
                "SIMILE."
            )
        )
    counted = f"{found.sentences:,} lists, {found.candidates:,} candidates, {found.pairs:,} pairs"
    parts.append(notes([f"{found.file}: {counted}", *found.notes, *_signed(found.signatures)]))
    return PageSection(
        "costs",
        "Cost distributions and partial credit",
        "What the candidates of one source cost under either reward before fine-tuning: a cost "
        "that is equal for two candidates teaches nothing about them.",
        join(parts),
    )


def _number(value: float | None, share: bool = False) -> Cell:
    if value is None:
        return Cell("")
    return Cell(f"{value:.1%}" if share else f"{value:.4f}", value)


def _signed(signatures: dict[str, str]) -> list[str]:
    return [f"{names}: {text}" for names, text in signatures.items()]


def page_nbest(found: NbestResult) -> PageSection:
    """Figure 13: scores by number of candidates."""
    from simile_plugin.report.nbest import nbest_figure

    points = [(name, point) for name, line in found.points.items() for point in line]
    if found.baseline is not None:
        points.insert(0, ("MLE", found.baseline))
    metrics = list(points[0][1].scores)
    groups: list[Group] = []
    for name, point in points:
        cells = [Cell(f"{point.mean(metric):.2f}") for metric in metrics]
        groups.append([[name, str(point.n or ""), str(len(point.files)), *cells]])
    header = ["System", "N", "Seeds", *(HEADINGS.get(metric, metric) for metric in metrics)]
    parts = [
        picture(nbest_figure(found), "Test scores by the number of candidates N.", "nbest"),
        table(header, groups),
        notes([f"{found.sentences:,} sentences", *found.notes, *_signed(found.signatures)]),
    ]
    return PageSection(
        "nbest",
        "Size of the n-best list",
        "Test scores of systems that were trained with more and with fewer candidates a sentence.",
        join(parts),
    )


def page_lexical(found: LexicalResult) -> PageSection:
    """Table 70: differences of word F1."""
    from simile_plugin.report.lexical import lexical_figure

    titles = {"frequency": "By how often a word is in the references", "pos": "By part of speech"}
    parts = [
        picture(
            lexical_figure(found),
            f"Word F1 of {found.second_name} minus {found.first_name}.",
            "lexical",
        )
    ]
    several = len(found.language_pairs) > 1
    for kind, rows in found.tables.items():
        parts.append(heading(titles.get(kind, kind)))
        if several:
            header = ["Words", *found.language_pairs, "Average"]
            averages = [Cell("" if row.average is None else f"{row.average:+.2f}") for row in rows]
            groups: list[Group] = [
                [
                    [
                        row.bucket,
                        *(_difference(row.cells.get(lp)) for lp in found.language_pairs),
                        last,
                    ]
                ]
                for row, last in zip(rows, averages, strict=True)
            ]
            parts.append(table(header, groups, "Difference of F1, percent."))
        for pair in found.language_pairs:
            header = ["Words", "In references", found.first_name, found.second_name, "Difference"]
            groups = [
                [[row.bucket, *_lexical_cells(row.cells[pair])]]
                for row in rows
                if pair in row.cells
            ]
            caption = f"{pair}: F1 in percent, with the 95% interval of the difference."
            parts.append(table(header, groups, caption))
    files = [f"compare-mt's own report of {lp}: {at}" for lp, at in found.html_folders.items()]
    parts.append(notes([*found.notes, *files]))
    return PageSection(
        "lexical",
        "Which words are translated better",
        "F1 of word choice by how frequent the word is and by part of speech, for two systems.",
        join(parts),
    )


def _difference(cell: LexicalCell | None) -> Cell:
    if cell is None or cell.difference is None:
        return Cell("")
    return Cell(f"{cell.difference:+.2f}", cell.difference, _side(cell))


def _side(cell: LexicalCell) -> str:
    """Coloured where the interval leaves out zero."""
    return "good" if cell.low > 0 else "bad" if cell.high < 0 else ""


def _lexical_cells(cell: LexicalCell) -> list[Cell | str]:
    told = f"{cell.difference:+.2f} [{cell.low:+.2f}, {cell.high:+.2f}]"
    return [
        f"{cell.ref_count:,}",
        f"{cell.first_f1:.2f}",
        f"{cell.second_f1:.2f}",
        Cell(told, cell.difference, _side(cell)),
    ]


def page_examples(found: ExamplesResult) -> PageSection:
    """Tables 71 and 72: sentences where the metrics disagree most, to read and to filter."""
    kinds = {
        "bleu": "BLEU sees more of a difference than SIM",
        "sim": "SIM sees more of a difference than BLEU",
    }
    options = "".join(f'<option value="{k}">{escape(words)}</option>' for k, words in kinds.items())
    bar = Html(
        '<div class="filter js"><input type="search" placeholder="words in the sentences" '
        'aria-label="words in the sentences"><select aria-label="which examples">'
        f'<option value="">all examples</option>{options}</select><output></output></div>'
    )
    articles = [
        _article(found, example, kind, kinds[kind])
        for kind, examples in (("bleu", found.by_bleu), ("sim", found.by_sim))
        for example in examples
    ]
    body = Html(f"<div>{join([bar, *articles])}</div>")
    ranked = (
        f"ranked by |BLEU difference| - |SIM difference| over the {found.different:,} of "
        f"{found.sentences:,} sentences whose outputs differ; "
        "marked: words that the other output does not have in that place"
    )
    return PageSection(
        "examples",
        "Examples",
        f"Sentences on which {found.first_name} and {found.second_name} differ most by one metric "
        "and least by the other: read these to judge the metrics themselves.",
        join([body, notes([ranked, *found.notes, *_signed(found.signatures)])]),
    )


def _article(found: ExamplesResult, example: Example, kind: str, words: str) -> Html:
    first, second = marked(example.first, example.second)
    rows = [("Source", escape(example.source))] if example.source is not None else []
    rows.append(("Reference", escape(example.ref)))
    for place, (name, text) in enumerate(((found.first_name, first), (found.second_name, second))):
        scores = f"BLEU {example.bleu[place]:.1f}, SIM {example.sim[place]:.1f}"
        rows.append((name, f'{text or "(empty)"} <span class="scores">{scores}</span>'))
    listed = "".join(f'<dt>{escape(title)}</dt><dd dir="auto">{text}</dd>' for title, text in rows)
    differences = f"BLEU {example.delta_bleu:+.1f}, SIM {example.delta_sim:+.1f}"
    return Html(
        f'<article data-kind="{kind}"><h4>Line {example.line}: {differences} ({escape(words)})</h4>'
        f"<dl>{listed}</dl></article>"
    )


def page_quality(found: QualityResult) -> PageSection:
    """Tables 65 and 66: which metric agrees with people."""
    from simile_plugin.evaluation import KINDS
    from simile_plugin.report import quality

    caption = "Means with their 95% intervals; small circles are single years or language pairs."
    parts = [picture(quality.quality_figure(found), caption, "quality")]
    if found.sts is not None:
        parts.append(_grid_table(quality.sts_grid(found.sts), quality.STS_TITLE))
        parts.append(_grid_table(quality.difference_grid({"pearson": found.sts.difference})))
        sets = [_grid_table(quality.folder_grid(part), part.folder) for part in found.sts.folders]
        parts.append(folded("Every set of every folder", join(sets)))
        parts += [notes(quality.constant_lines(part)) for part in found.sts.folders]
    if found.judgements is not None:
        tables = [_grid_table(quality.judgement_grid(found.judgements, kind)) for kind in KINDS]
        parts += [heading("Judgements of translations"), tables[0]]
        parts.append(_grid_table(quality.difference_grid(found.judgements.difference)))
        parts.append(folded("The same by other correlations", join(tables[1:])))
    parts.append(notes(quality.legend(found)))
    return PageSection(
        "quality",
        "How good are the metrics?",
        "Correlation of the reward and of other metrics with what people say about sentence pairs "
        "and about translations.",
        join(parts),
    )


def _grid_table(grid: Grid, caption: str = "") -> Html:
    header, *rows = grid
    return table(header, [[row] for row in rows], caption)


def page_gaming(found: GamingResult) -> PageSection:
    """Signs that a reward rises and translations do not get better."""
    from simile_plugin.report.gaming import gaming_figure

    header = ["System", "Length", "Repeated 4-grams", "Distinct tokens", "of references'", "Copies"]
    groups: list[Group] = []
    for one in found.systems:
        copied = "" if one.copied is None else f"{one.copied:.1%}"
        numbers = [f"{one.length_ratio:.3f}", f"{one.repeated:.2%}", f"{one.distinct:,.0f}"]
        groups.append([[one.name, *numbers, f"{one.distinct_ratio:.1%}", copied]])
    parts = [paragraph(warning, "warning") for warning in found.warnings]
    if not found.warnings:
        parts.append(paragraph("No warning: every sign is inside of its band, or no reward rose."))
    if groups:
        parts.append(table(header, groups))
    parts.append(notes(_outside([(one.name, one.outside) for one in found.systems])))
    svg = gaming_figure(found)
    if svg:
        parts.append(picture(svg, "Reward, BLEU and length while training.", "gaming"))
    parts += _epochs(found)
    parts.append(notes([found.band, *found.notes]))
    return PageSection(
        "gaming",
        "Is the reward being gamed?",
        "Length, repetition and copies: what goes wrong when a model finds outputs that the reward "
        "likes and a reader does not.",
        join(parts),
    )


def _epochs(found: GamingResult) -> Sequence[Html]:
    tables = []
    header = ["Update", "Trained reward", "BLEU", "Length", "Distinct candidates"]
    for name, epochs in found.epochs.items():
        groups: list[Group] = [
            [
                [
                    f"{one.update:,}",
                    _plain(one.reward, 4),
                    _plain(one.bleu, 2),
                    _plain(one.length_ratio, 3),
                    _plain(one.distinct, 3),
                ]
            ]
            for one in epochs
        ]
        told = notes(_outside([(f"update {one.update:,}", one.outside) for one in epochs]))
        body = join([table(header, groups), told])
        tables.append(folded(f"Every validation of {name}", body) if groups else Html(""))
    return tables


def _outside(signs: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    return [f"{name}, outside of the band: {'; '.join(what)}" for name, what in signs if what]


def _plain(value: float | None, digits: int) -> Cell:
    return Cell("" if value is None else f"{value:.{digits}f}", value)

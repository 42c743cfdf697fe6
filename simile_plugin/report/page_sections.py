"""A section of the page for each question: the analyses' numbers as tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence

from simile_plugin.report import human_ratings
from simile_plugin.report.curves import Curves
from simile_plugin.report.curves_figure import TITLES
from simile_plugin.report.human_ratings import HumanResult
from simile_plugin.report.page import PageSection
from simile_plugin.report.page_parts import (
    Bar,
    Cell,
    Group,
    Html,
    Row,
    code,
    folded,
    heading,
    interval_chart,
    join,
    notes,
    picture,
    table,
)
from simile_plugin.report.provenance import InputFile, Training
from simile_plugin.report.results import Comparison, Results, Score, SystemScores
from simile_plugin.report.results_table import HEADINGS, MARKS, legend, p_values

MOST_BARS = 30  # more rows than these are a table, not a picture


def page_results(results: Results) -> PageSection:
    """Scores of all systems, their intervals, their differences from the baselines."""
    metrics = list(results.systems[0].scores)
    parts = [_score_table(results, metrics)]
    if len(results.systems) > 1:
        parts.append(_difference_table(results, metrics))
    if len(results.systems) <= MOST_BARS:
        for metric in metrics:
            name = HEADINGS.get(metric, metric)
            caption = f"{name} with its 95% interval. {_seen(results)}"
            bars = [_bar(system.name, system.scores[metric]) for system in results.systems]
            chart = picture(interval_chart(bars, name), caption, f"results-{metrics.index(metric)}")
            parts.append(chart if metric == metrics[0] else folded(f"The same for {name}", chart))
    parts.append(notes(legend(results)))
    return PageSection(
        "results",
        "Results",
        "Scores of every system on the whole test set, and which differences are more than the "
        "luck of its sentences.",
        join(parts),
        opened=True,
    )


def _seen(results: Results) -> str:
    """How to read the intervals, and what else is drawn."""
    lines = []
    if any(len(system.files) > 1 for system in results.systems):
        lines.append("Small circles are single seeds.")
    if len(results.systems) > 1:
        lines.append("Paired tests can tell systems apart whose intervals overlap.")
    return " ".join(lines)


def _bar(name: str, score: Score) -> Bar:
    assert score.interval is not None
    points = score.seeds if len(score.seeds) > 1 else ()
    return Bar(name, score.value, score.interval.low, score.interval.high, points)


def _score_table(results: Results, metrics: Sequence[str]) -> Html:
    extra = list(results.systems[0].columns)
    names = [HEADINGS.get(metric, metric) for metric in metrics]
    groups: list[Group] = []
    for system in results.systems:
        scores = [system.scores[metric] for metric in metrics]
        ratio = f"{system.length_ratio.value:.3f}"
        columns = [Cell(f"{system.columns[title].value:.2f}") for title in extra]
        cells = [Cell(_with_marks(score, results.baselines), score.value) for score in scores]
        rows: list[Row] = [[system.name, str(len(system.files)), *cells, ratio, *columns]]
        for i in range(len(system.files) if len(system.files) > 1 else 0):
            rows.append(_seed_row(system, i, metrics, extra))
        groups.append(rows)
    return table(["System", "Seeds", *names, "Length", *extra], groups)


def _seed_row(
    system: SystemScores, i: int, metrics: Sequence[str], extra: Sequence[str]
) -> list[Cell | str]:
    columns = [system.columns[title].seeds for title in extra]
    return [
        f"seed {i + 1}",
        "",
        *(f"{system.scores[metric].seeds[i]:.2f}" for metric in metrics),
        f"{system.length_ratio.seeds[i]:.3f}",
        *(f"{seeds[i]:.2f}" if len(seeds) > 1 else "" for seeds in columns),
    ]


def _with_marks(score: Score, baselines: Sequence[str]) -> str:
    better = {c.baseline for c in score.against if c.clear and c.difference > 0}
    marks = "".join(m for m, base in zip(MARKS, baselines, strict=False) if base in better)
    assert score.interval is not None
    half = (score.interval.high - score.interval.low) / 2
    return f"{score.value:.2f} ±{half:.2f} {marks}".rstrip()


def _difference_table(results: Results, metrics: Sequence[str]) -> Html:
    groups: list[Group] = []
    for system in results.systems:
        for i, comparison in enumerate(system.scores[metrics[0]].against):
            found = [system.scores[metric].against[i] for metric in metrics]
            cells = [_difference_cell(one) for one in found]
            groups.append([[f"{system.name} - {comparison.baseline}", *cells]])
    header = ["Difference", *(HEADINGS.get(metric, metric) for metric in metrics)]
    return table(header, groups, "Coloured: p < 0.05.")


def _difference_cell(found: Comparison) -> Cell:
    style = "" if not found.clear else "good" if found.difference > 0 else "bad"
    return Cell(f"{found.difference:+.2f} ({p_values(found)})", found.difference, style)


def page_curves(curves: Curves, svg: str) -> PageSection:
    """Validation costs by update."""
    parts = [picture(svg, "Both validation costs by update, lower is better.", "curves")]
    for cost, systems in curves.costs.items():
        groups: list[Group] = []
        for name, curve in systems.items():
            mean = curve.mean
            best = min(range(len(mean)), key=mean.__getitem__)
            numbers = [f"{mean[0]:.4f}", f"{mean[best]:.4f}", f"{curve.updates[best]:,}"]
            groups.append([[name, str(len(curve.seeds)), *numbers, f"{mean[-1]:.4f}"]])
        header = ["System", "Seeds", "First", "Lowest", "At update", "Last"]
        parts.append(table(header, groups, f"{TITLES[cost]} on the validation set"))
    parts.append(notes(curves.notes))
    return PageSection(
        "curves",
        "Validation curves",
        "Expected BLEU cost and expected SIMILE cost at each validation: whether training on one "
        "reward lowers both.",
        join(parts),
    )


def page_ratings(found: HumanResult) -> PageSection:
    """What people said."""
    bars = [
        Bar(s.name, s.mean, s.interval.low, s.interval.high, s.by_annotator) for s in found.systems
    ]
    caption = "Mean rating with its 95% interval; small circles are single annotators."
    grids = [human_ratings.rating_grid(found), human_ratings.pair_grid(found)]
    tables = [table(header, [[row] for row in rows]) for header, *rows in grids]
    parts = [*tables[:1], picture(interval_chart(bars, "rating, 0 to 5"), caption, "human")]
    files = [f"answers: {', '.join(found.annotators)}; study {found.study}"]
    parts += [*tables[1:], notes([*human_ratings.agreement_lines(found), *files])]
    return PageSection(
        "human",
        "Human ratings",
        "How close people, who did not know whose translation they saw, found each to the "
        "reference.",
        join(parts),
    )


def page_provenance(
    files: Sequence[InputFile],
    trainings: Sequence[Training],
    facts: Sequence[str],
    command: str,
    limit: int = 60,
) -> PageSection:
    """What was compared and how: files, trainings, the command."""
    parts = [heading("Command"), code(command)] if command else []
    parts.append(notes(facts))
    rows: list[Group] = [
        [[f.role, Cell(f.path, style="text"), f"{f.lines:,}", f.digest]] for f in files
    ]
    listed = table(["Role", "File", "Lines", "SHA-256"], rows)
    parts += [
        heading("Files"),
        listed if len(rows) <= limit else folded(f"{len(rows)} files", listed),
    ]
    if trainings:
        parts += [heading("Trainings, as their logs tell"), _trainings(trainings)]
    return PageSection(
        "made",
        "How this was made",
        "The command, the files and their digests, and the settings of the trainings: enough to "
        "do it again.",
        join(parts),
    )


def _trainings(trainings: Sequence[Training]) -> Html:
    groups: list[Group] = []
    for one in trainings:
        shown = [
            one.settings.get(name, "") for name in ("criterion", "reward", "seed", "max-update")
        ]
        groups.append([[one.name, *(Cell(value) for value in shown), one.first, one.last]])
    header = ["System", "Criterion", "Reward", "Seed", "Updates", "First line", "Last line"]
    details = [
        folded(
            f"All known settings of {one.name}, {one.path}",
            code(" ".join(f"--{name} {value}" for name, value in one.settings.items())),
        )
        for one in trainings
        if one.settings
    ]
    return join([table(header, groups), *details])

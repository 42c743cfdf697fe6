"""The results table as text, markdown and TSV."""

from __future__ import annotations

from collections.abc import Sequence

from simile_plugin.report.results import LEVEL, Comparison, Results, Score, SystemScores
from simile_plugin.statistics import Grid, markdown_table, text_table

HEADINGS = {"bleu": "BLEU", "sim": "SIM", "simile": "SIMILE", "chrf": "chrF"}
MARKS = ("‡", "†")  # better than the first baseline, than the second
UNKNOWN_LIMIT = 0.05


def format_results(results: Results) -> str:
    """The tables and their legend for a terminal."""
    heading = f"Results on {results.sentences:,} sentences of {results.reference}"
    tables = [text_table(grid) for grid in _grids(results)]
    return "\n\n".join([heading, *tables, "\n".join(legend(results))]) + "\n"


def render_markdown(results: Results) -> str:
    """The same in markdown."""
    heading = f"## Results on {results.sentences:,} sentences of `{results.reference}`"
    tables = [markdown_table(grid) for grid in _grids(results)]
    notes = "\n".join(f"- {line}" for line in legend(results))
    return "\n\n".join([heading, *tables, notes]) + "\n"


def _grids(results: Results) -> list[Grid]:
    return [score_grid(results)] + ([difference_grid(results)] if len(results.systems) > 1 else [])


def score_grid(results: Results) -> Grid:
    """System, seeds, a column a metric, length ratio, columns from elsewhere; a line a seed."""
    metrics = list(results.systems[0].scores)
    extra = list(results.systems[0].columns)
    grid = [
        ["System", "Seeds", *(HEADINGS.get(metric, metric) for metric in metrics), "Length", *extra]
    ]
    for system in results.systems:
        seeds = len(system.files)
        scores = [system.scores[metric] for metric in metrics]
        tails = [_tail(score, results.baselines) for score in scores]
        others = [system.columns[title] for title in extra]
        grid.append(
            [
                system.name,
                str(seeds),
                *(f"{score.value:.2f}{tail}" for score, tail in zip(scores, tails, strict=True)),
                f"{system.length_ratio.value:.3f}",
                *(f"{column.value:.2f}" for column in others),
            ]
        )
        for i in range(seeds if seeds > 1 else 0):
            own = [f"{s.seeds[i]:.2f}{' ' * len(t)}" for s, t in zip(scores, tails, strict=True)]
            elsewhere = [f"{c.seeds[i]:.2f}" if len(c.seeds) > 1 else "" for c in others]
            ratio = f"{system.length_ratio.seeds[i]:.3f}"
            grid.append([f"  seed {i + 1}", "", *own, ratio, *elsewhere])
    return grid


def _tail(score: Score, baselines: Sequence[str]) -> str:
    """Half of the interval, and the marks, in a width that is the same down a column."""
    better = {c.baseline for c in score.against if c.clear and c.difference > 0}
    marks = "".join(m for m, base in zip(MARKS, baselines, strict=False) if base in better)
    assert score.interval is not None
    half = (score.interval.high - score.interval.low) / 2
    return f" ±{half:.2f} {marks:<{len(baselines)}}"


def difference_grid(results: Results) -> Grid:
    """A line a pair of systems: difference and p-value under each metric."""
    metrics = list(results.systems[0].scores)
    grid = [["Difference", *(HEADINGS.get(metric, metric) for metric in metrics)]]
    for system in results.systems:
        for i, comparison in enumerate(system.scores[metrics[0]].against):
            cells = [system.scores[metric].against[i] for metric in metrics]
            grid.append(
                [
                    f"{system.name} - {comparison.baseline}",
                    *(f"{cell.difference:+.2f} ({p_values(cell)})" for cell in cells),
                ]
            )
    return grid


def p_values(comparison: Comparison) -> str:
    """The p-value of a difference, or both of them: "p 0.012", "p 0.012, 0.020"."""
    found = [comparison.p_value, comparison.p_randomisation]
    shown = [("<0.001" if p < 0.0005 else f"{p:.3f}") for p in found if p is not None]
    return "p " + ", ".join(shown)


def legend(results: Results) -> list[str]:
    """What the marks, intervals and numbers mean, with signatures."""
    marks = ", ".join(
        f"{mark} better than {base}" for mark, base in zip(MARKS, results.baselines, strict=False)
    )
    lines = []
    if len(results.systems) > 1:
        tails = {
            "bootstrap": " (the tail of the direction seen)",
            "both": "; p of the bootstrap's tail in the direction seen, then of the randomisation",
        }
        lines.append(
            f"{marks}: p < {LEVEL}, {results.test.describe()}{tails.get(results.test.kind, '')}"
        )
    lines.append(
        f"±: half of the 95% interval over {results.test.resamples:,} resamples of the sentences"
    )
    if any(len(system.files) > 1 for system in results.systems):
        lines.append(
            "several seeds: the mean of their scores; the tests vary the sentences and take the "
            "trained models as given, so look at the seeds' own scores too"
        )
    if results.unknown_share > UNKNOWN_LIMIT:
        lines.append(
            f"warning: the encoder does not know {results.unknown_share:.0%} of the pieces, which "
            "count as nothing in SIM; is it an encoder of this language and script?"
        )
    lines.append("Length: tokens of the outputs over tokens of the references")
    return lines + [f"{names}: {text}" for names, text in results.signatures.items()]


def render_tsv(results: Results) -> str:
    """Full numbers for a spreadsheet: a line a system (seed "mean"), then a line a seed."""
    metrics = list(results.systems[0].scores)
    header = ["system", "seed", "file"]
    for metric in metrics:
        header += [metric, f"{metric}_low", f"{metric}_high"]
        header += [
            f"{metric}_{what}_{b}" for b in results.baselines for what in _comparison(results)
        ]
    header += ["length_ratio", *results.systems[0].columns]
    lines = [header]
    for system in results.systems:
        lines.append([system.name, "mean", "", *_mean_cells(results, system)])
        for i, path in enumerate(system.files):
            cells = [system.name, str(i + 1), path]
            for metric in metrics:
                own = f"{system.scores[metric].seeds[i]:.6f}"
                cells += [own, *[""] * (2 + len(_comparison(results)) * len(results.baselines))]
            cells.append(f"{system.length_ratio.seeds[i]:.6f}")
            columns = system.columns.values()
            lines.append(cells + [f"{c.seeds[i]:.6f}" if len(c.seeds) > 1 else "" for c in columns])
    return "".join("\t".join(line) + "\n" for line in lines)


def _comparison(results: Results) -> tuple[str, ...]:
    """What the TSV says of a pair of systems under one metric."""
    return ("minus", "p", "p2") if results.test.kind == "both" else ("minus", "p")


def _mean_cells(results: Results, system: SystemScores) -> list[str]:
    cells = []
    for score in system.scores.values():
        assert score.interval is not None
        cells += [f"{x:.6f}" for x in (score.value, score.interval.low, score.interval.high)]
        against = {comparison.baseline: comparison for comparison in score.against}
        for base in results.baselines:
            found = against.get(base)
            numbers = (found.difference, found.p_value, found.p_randomisation) if found else ()
            width = len(_comparison(results))
            cells += [f"{x:.6f}" for x in numbers if x is not None] or [""] * width
    return cells + [f"{c.value:.6f}" for c in (system.length_ratio, *system.columns.values())]

"""Resampling tests and intervals, correlations, tables of text, charts.

Numbers in, numbers or text out; knows nothing of translations.
"""

from simile_plugin.significance.charts import (
    COLORS,
    INK,
    Bar,
    Chart,
    Line,
    Panel,
    interval_chart,
    line_chart,
)
from simile_plugin.significance.correlations import (
    KINDS,
    Estimate,
    bootstrap_correlations,
    correlation,
    estimate,
    pearson,
    spearman,
)
from simile_plugin.significance.resampling import (
    BOOTSTRAP_RESAMPLES,
    SEED,
    TIE,
    Floats,
    Interval,
    SentenceStatistics,
    bootstrap,
    bootstrap_p_value,
    holm,
    interval,
    mean_statistics,
    resample_counts,
    sacrebleu_p_value,
)
from simile_plugin.significance.tables import markdown_table, text_table, without_nan

__all__ = [
    "BOOTSTRAP_RESAMPLES",
    "COLORS",
    "INK",
    "KINDS",
    "SEED",
    "TIE",
    "Bar",
    "Chart",
    "Estimate",
    "Floats",
    "Interval",
    "Line",
    "Panel",
    "SentenceStatistics",
    "bootstrap",
    "bootstrap_correlations",
    "bootstrap_p_value",
    "correlation",
    "estimate",
    "holm",
    "interval",
    "interval_chart",
    "line_chart",
    "markdown_table",
    "mean_statistics",
    "pearson",
    "resample_counts",
    "sacrebleu_p_value",
    "spearman",
    "text_table",
    "without_nan",
]

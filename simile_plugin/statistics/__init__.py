"""Resampling tests and intervals, correlations, tables of text, charts.

Numbers in, numbers or text out; knows nothing of translations.
"""

from simile_plugin.statistics.charts import COLORS, DASHES, INK, MARKERS, STYLE, render_svg
from simile_plugin.statistics.correlations import (
    CONSTANT,
    KINDS,
    Estimate,
    bootstrap_correlations,
    correlation,
    estimate,
    pearson,
    spearman,
)
from simile_plugin.statistics.resampling import (
    BOOTSTRAP_RESAMPLES,
    RANDOMISATION_TRIALS,
    SEED,
    TIE,
    Floats,
    Interval,
    SentenceStatistics,
    bootstrap,
    bootstrap_p_value,
    interval,
    mean_statistics,
    randomisation_p_values,
    resample_counts,
)
from simile_plugin.statistics.tables import Grid, markdown_table, text_table, without_nan

__all__ = [
    "BOOTSTRAP_RESAMPLES",
    "COLORS",
    "CONSTANT",
    "DASHES",
    "INK",
    "KINDS",
    "MARKERS",
    "RANDOMISATION_TRIALS",
    "SEED",
    "STYLE",
    "TIE",
    "Estimate",
    "Floats",
    "Grid",
    "Interval",
    "SentenceStatistics",
    "bootstrap",
    "bootstrap_correlations",
    "bootstrap_p_value",
    "correlation",
    "estimate",
    "interval",
    "markdown_table",
    "mean_statistics",
    "pearson",
    "randomisation_p_values",
    "render_svg",
    "resample_counts",
    "spearman",
    "text_table",
    "without_nan",
]

"""Resampling tests and intervals, tables of text, charts: numbers in, numbers or text out."""

from simile_plugin.statistics.charts import COLORS, DASHES, INK, MARKERS, STYLE, render_svg
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
from simile_plugin.statistics.tables import Grid, markdown_table, text_table

__all__ = [
    "BOOTSTRAP_RESAMPLES",
    "COLORS",
    "DASHES",
    "INK",
    "MARKERS",
    "RANDOMISATION_TRIALS",
    "SEED",
    "STYLE",
    "TIE",
    "Floats",
    "Grid",
    "Interval",
    "SentenceStatistics",
    "bootstrap",
    "bootstrap_p_value",
    "interval",
    "markdown_table",
    "mean_statistics",
    "randomisation_p_values",
    "render_svg",
    "resample_counts",
    "text_table",
]

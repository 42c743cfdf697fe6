"""Questions asked of finished systems, one module each, over files that any system can write."""

from simile_plugin.report.curves_figure import FILE_STYLE, check_picture_path
from simile_plugin.report.quality import (
    FEWEST_RESAMPLES,
    analyse_quality,
    format_quality,
    short_names,
)
from simile_plugin.report.report_inputs import Inputs
from simile_plugin.report.report_sections import Section

__all__ = [
    "FEWEST_RESAMPLES",
    "FILE_STYLE",
    "Inputs",
    "Section",
    "analyse_quality",
    "check_picture_path",
    "format_quality",
    "short_names",
]

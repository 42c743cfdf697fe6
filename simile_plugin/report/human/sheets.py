"""What annotators fill in: one sheet each, as TSV for a spreadsheet and as an HTML form.

The form is one file that works without a network. Sentences stand in it as escaped text only; its
script reads nothing but the names and states of radio buttons.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from simile_plugin.files import atomic_write
from simile_plugin.report.human.study import SCALE, Study
from simile_plugin.report.render.html import fill_template

RATING = "rating"
ITEM = "item"
# A cell that begins so is a formula to a spreadsheet.
FORMULA_STARTS = ("=", "+", "-", "@")


def write_sheets(study: Study, folder: str) -> list[str]:
    """Write sheet.A.tsv and sheet.A.html for each annotator A; return their paths."""
    paths = []
    for annotator in range(1, study.settings.annotators + 1):
        for ending, render in (("tsv", render_tsv), ("html", render_form)):
            paths.append(str(Path(folder) / f"sheet.{annotator}.{ending}"))
            with atomic_write(paths[-1]) as stream:
                stream.write(render(study, annotator))
    return paths


def render_tsv(study: Study, annotator: int) -> str:
    """Render a sheet for a spreadsheet: item, rating to fill in, source if shown, sentences, scale.

    The scale stands beside the first items, a rating a line.
    """
    with_source = any(item.source is not None for item in study.items)
    stream = io.StringIO()
    writer = csv.writer(stream, dialect="excel-tab", lineterminator="\n")
    writer.writerow(
        [ITEM, RATING, *(["source"] if with_source else []), "reference", "translation", "scale"]
    )
    scale = [f"{rating}: {meaning}" for rating, meaning in sorted(SCALE.items(), reverse=True)]
    for row, number in enumerate(study.order(annotator)):
        item = study.items[number - 1]
        texts = [*([item.source or ""] if with_source else []), item.reference, item.translation]
        told = scale[row] if row < len(scale) else ""
        writer.writerow([study.item_id(annotator, number), "", *map(_inert, texts), told])
    return stream.getvalue()


def _inert(text: str) -> str:
    """Return text that no spreadsheet takes for a formula, and that looks as it does."""
    return f"\u200b{text}" if text.startswith(FORMULA_STARTS) else text


def render_form(study: Study, annotator: int) -> str:
    """Render a sheet as one HTML file that keeps its state, and saves answers as TSV."""
    items = [
        (study.item_id(annotator, number), study.items[number - 1])
        for number in study.order(annotator)
    ]
    sheet = f"{study.fingerprint}-{annotator}"
    return fill_template(
        Path(__file__).parent / "form", sheet=sheet, annotator=annotator, items=items, scale=SCALE
    )

"""Questions asked of finished systems, over files that any system can write.

`Inputs` reads what the flags of `simile report` name, each file once. `choose_questions` says what
they ask, `ask` gives an `Answer` a question (questions/ has a module each), and the renderers show
it: `render_text`, `render_markdown`, `render_tsv`, `report_page`. The last part is for ratings by
people. Nothing here waits for torch before an answer needs it.
"""

from simile_plugin.report.answer import UNSPACED, Answer, Cell, Table, make_table
from simile_plugin.report.human.ratings import analyse_ratings, read_answers
from simile_plugin.report.human.sheets import write_sheets
from simile_plugin.report.human.study import DrawSettings, draw_study, key_text, read_key
from simile_plugin.report.inputs import Inputs
from simile_plugin.report.inputs.folder import LAYOUT
from simile_plugin.report.inputs.provenance import describe_report
from simile_plugin.report.inputs.settings import PairedTest, choose_pair
from simile_plugin.report.inputs.systems import (
    LINE_KINDS,
    PLAIN,
    parse_named_files,
    read_sentences,
    read_sources,
    read_systems,
)
from simile_plugin.report.questions import (
    NAMES,
    ask,
    ask_for_page,
    choose_questions,
    find_question,
)
from simile_plugin.report.questions.human import answer_ratings
from simile_plugin.report.questions.probe import analyse_probe, answer_probe
from simile_plugin.report.questions.quality import (
    QualityResult,
    analyse_quality,
    format_quality,
    short_names,
)
from simile_plugin.report.render.markdown import render_markdown, render_tsv
from simile_plugin.report.render.page import render_page, report_page
from simile_plugin.report.render.text import render_text

__all__ = [
    "LAYOUT",
    "LINE_KINDS",
    "NAMES",
    "PLAIN",
    "UNSPACED",
    "Answer",
    "Cell",
    "DrawSettings",
    "Inputs",
    "PairedTest",
    "QualityResult",
    "Table",
    "analyse_probe",
    "analyse_quality",
    "analyse_ratings",
    "answer_probe",
    "answer_ratings",
    "ask",
    "ask_for_page",
    "choose_pair",
    "choose_questions",
    "describe_report",
    "draw_study",
    "find_question",
    "format_quality",
    "key_text",
    "make_table",
    "parse_named_files",
    "read_answers",
    "read_key",
    "read_sentences",
    "read_sources",
    "read_systems",
    "render_markdown",
    "render_page",
    "render_text",
    "render_tsv",
    "report_page",
    "short_names",
    "write_sheets",
]

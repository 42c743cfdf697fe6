"""Questions asked of finished systems, over files that any system can write.

`Inputs` reads what the options of `simile report` name, each file once. `choose_questions` says
what they ask, `ask` gives an `Answer` a question (questions/ has a module each), and the renderers
show it: `render_text`, `render_markdown`, `report_page`. The last part is for ratings by people.
Nothing here waits for torch before an answer needs it.
"""

from simile_plugin.report.answer import Answer, Cell, Table, make_table
from simile_plugin.report.fitted_reward import format_fit
from simile_plugin.report.human.ratings import compare_ratings, read_answers
from simile_plugin.report.human.sheets import write_sheets
from simile_plugin.report.human.study import DrawSettings, draw_study, key_text, read_key
from simile_plugin.report.inputs import Inputs, ReportOptions
from simile_plugin.report.inputs.options import choose_pair
from simile_plugin.report.probe import analyse_probe, answer_probe
from simile_plugin.report.quality import answer_quality, short_names
from simile_plugin.report.questions import ask, ask_for_page, choose_questions
from simile_plugin.report.questions.human import answer_ratings
from simile_plugin.report.render.page import render_page, report_page
from simile_plugin.report.render.provenance import describe_report
from simile_plugin.report.render.text import render_markdown, render_text

__all__ = [
    "Answer",
    "Cell",
    "DrawSettings",
    "Inputs",
    "ReportOptions",
    "Table",
    "analyse_probe",
    "answer_probe",
    "answer_quality",
    "answer_ratings",
    "ask",
    "ask_for_page",
    "choose_pair",
    "choose_questions",
    "compare_ratings",
    "describe_report",
    "draw_study",
    "format_fit",
    "key_text",
    "make_table",
    "read_answers",
    "read_key",
    "render_markdown",
    "render_page",
    "render_text",
    "report_page",
    "short_names",
    "write_sheets",
]

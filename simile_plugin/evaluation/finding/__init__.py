"""Finding a paraphrase of a query in a document, as a span of its words.

Task and measures are those of paraphrase span detection (setup 1: it is always there, setup 2: it
may be missing); the search is ours and needs no training data of the task.
"""

from simile_plugin.evaluation.finding.measures import (
    Finding,
    by_query_length,
    evaluate_finding,
    tune_missing,
)
from simile_plugin.evaluation.finding.questions import Question, Span, read_squad, squad
from simile_plugin.evaluation.finding.search import find_spans, make_search

__all__ = [
    "Finding",
    "Question",
    "Span",
    "by_query_length",
    "evaluate_finding",
    "find_spans",
    "make_search",
    "read_squad",
    "squad",
    "tune_missing",
]

"""Where does a document say what a query says: the best span of words, and how well that goes."""

from simile_plugin.contrib.finding.measures import by_query_length, evaluate_finding, tune_missing
from simile_plugin.contrib.finding.questions import Question, Span, read_squad, squad
from simile_plugin.contrib.finding.search import find_spans, make_search

__all__ = [
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

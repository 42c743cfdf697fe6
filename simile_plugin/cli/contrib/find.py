"""`simile contrib find`: where does a document say what a query says?"""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING, Any

from simile_plugin.cli._types import add_device, file_name, real_number, whole_number
from simile_plugin.files import InputError, check_outputs, check_standard_input

if TYPE_CHECKING:
    from simile_plugin.contrib.finding import Question, Span

HELP = "find the paraphrase of a query in a document: the best span of words"

DESCRIPTION = """\
Paraphrase span detection without training data of the task. Of each query the span of the document
whose cosine with it is highest, of at most --longest words:
  span      every span, exact and fast, by an encoder of kind sp or word with --split-punctuation
  sentence  the best sentence, by the same cosine
  tfidf     the best sentence, by tf-idf of character 2- to 4-grams within words
A span that scores below --threshold says that the document does not hold the query; --tune chooses
the threshold with the highest F1 on a file that knows the answers. A query, or a document, of which
no token is known is missing, too. In scripts without spaces a word of a span is what stands between
two marks; exact match and F1 count letters there.

Queries are lines of --queries, each looked for in every file of --documents; or questions in the
layout of SQuAD (--squad: context, question, answers, is_impossible). Where the answers are known,
exact match and F1 over words are printed, by length of the query, beside the best that a choice of
whole sentences can reach (oracle).
"""

EPILOG = """\
examples:
  simile contrib find ENCODER --queries claims.txt --documents report.txt minutes.txt
  simile contrib find ENCODER --squad test.json --tune dev.json --method sentence
  simile contrib find ENCODER --squad test.json --output found.json     # SQuAD's layout again
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile contrib find`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("encoder", type=file_name, metavar="ENCODER", help="encoder folder")
    add("--queries", type=file_name, metavar="FILE", help="a query a line")
    text = "a document each"
    add("--documents", action="extend", nargs="+", type=file_name, metavar="FILE", help=text)
    add("--squad", type=file_name, metavar="FILE", help="queries and documents as JSON of SQuAD")
    methods = ("span", "sentence", "tfidf")
    add("--method", choices=methods, default="span", help="what is chosen (default: span)")
    text = "words of a span at most (default %(default)s)"
    add("--longest", type=whole_number(1, 1000), default=40, metavar="N", help=text)
    text = "below this score a query is missing (default: never)"
    add("--threshold", type=real_number(), metavar="SCORE", help=text)
    text = "SQuAD file with answers and missing ones: chooses the threshold"
    add("--tune", type=file_name, metavar="FILE", help=text)
    text = "write what was found in SQuAD's layout"
    add("--output", type=file_name, metavar="FILE", help=text)
    add_device(parser)
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Search, measure, write; exit status 0. Errors are raised as InputError or OSError."""
    import json

    from simile_plugin.contrib.finding import read_squad, squad
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import atomic_write
    from simile_plugin.significance import without_nan

    _check(args)
    questions = read_squad(args.squad, "--squad") if args.squad else _texts(args)
    dev = read_squad(args.tune, "--tune") if args.tune else []
    if any(question.answers is None for question in dev):
        raise InputError(f"--tune: {args.tune}: has questions without answers or is_impossible")
    encoder = load_encoder(args.encoder, usable_device(args.device))
    found, threshold = _search(args, encoder, questions, dev)
    report: dict[str, Any] = {"encoder": encoder.fingerprint, "threshold": threshold}
    report |= _measure(questions, found, threshold)
    if args.output:
        with atomic_write(args.output) as stream:
            json.dump(squad(questions, found, threshold), stream, indent=1)
    if "all" not in report:
        report["found"] = _rows(questions, found, threshold)
    if args.json:
        print(json.dumps(without_nan(report), indent=2))
    elif "all" in report:
        _print(report)
    else:
        _lines(questions, report["found"])
    return 0


def _check(args: argparse.Namespace) -> None:
    if bool(args.squad) == bool(args.queries) or bool(args.queries) != bool(args.documents):
        raise InputError(
            "--queries: expected --queries FILE with --documents FILE..., or --squad FILE alone"
        )
    if args.tune and args.threshold is not None:
        raise InputError("--tune: chooses the threshold; leave out --threshold")
    files = [(args.squad, "--squad"), (args.queries, "--queries"), (args.tune, "--tune")]
    files += [(path, "--documents") for path in args.documents or ()]
    check_standard_input(files)
    check_outputs({"--output": args.output}, [args.encoder, *(path for path, _ in files)])


def _texts(args: argparse.Namespace) -> list[Question]:
    """Every query in every document; its id is the line of the query and the document's file."""
    from simile_plugin.contrib.finding import Question
    from simile_plugin.files import read_bytes, read_lines, refuse_twice, split_lines

    lines = enumerate(read_lines(args.queries, "--queries"), start=1)
    queries = [(number, line) for number, line in lines if line.strip()]
    if not queries:
        raise InputError(f"--queries: {args.queries}: has no text; expected a query a line")
    refuse_twice(args.documents, "--documents")
    documents: dict[str, str] = {}
    for path in args.documents:
        data = read_bytes(path, "--documents")
        split_lines(data, path, "--documents")  # refuses what is no text
        # Places are those of the file's characters: a CR stays, a byte order mark is a space.
        documents[path] = re.sub("^\ufeff", " ", data.decode())
        if not documents[path].strip():
            raise InputError(f"--documents: {path}: has no text")
    return [
        Question(f"{number}:{path}", query, document, title=path)
        for number, query in queries
        for path, document in documents.items()
    ]


def _search(
    args: argparse.Namespace, encoder: Any, questions: list[Question], dev: list[Question]
) -> tuple[list[Span], float]:
    """The answers, and the threshold."""
    from simile_plugin.contrib.finding import find_spans, make_search, tune_missing
    from simile_plugin.files import Progress

    documents = [*dict.fromkeys(question.document for question in (*questions, *dev))]
    search = make_search(args.method, encoder, documents, args.longest)
    with Progress(len(questions) + len(dev), " questions") as bar:
        found = find_spans(questions, search, bar.update)
        tuned = find_spans(dev, search, bar.update)
    if dev:
        return found, tune_missing(dev, tuned)
    return found, -math.inf if args.threshold is None else args.threshold


def _measure(questions: list[Question], found: list[Span], threshold: float) -> dict[str, Any]:
    """Figures of all questions whose answers are known, and of each class of length."""
    from dataclasses import asdict

    from simile_plugin.contrib.finding import by_query_length, evaluate_finding

    places = [i for i, question in enumerate(questions) if question.answers is not None]
    if not places:
        return {}
    known, own = [questions[i] for i in places], [found[i] for i in places]
    classes = {
        name: evaluate_finding([known[i] for i in some], [own[i] for i in some], threshold)
        for name, some in by_query_length(known).items()
    }
    return {
        "all": asdict(evaluate_finding(known, own, threshold)),
        "by_words_of_query": {name: asdict(one) for name, one in classes.items()},
    }


def _print(report: dict[str, Any]) -> None:
    from simile_plugin.significance import text_table

    grid = [["words of the query", "questions", "exact", "F1", "said missing", "oracle"]]
    for name, one in {"all": report["all"], **report["by_words_of_query"]}.items():
        cells = [f"{one[key]:.1f}" for key in ("exact", "f1", "said_missing")]
        oracle = "/".join(f"{value:.1f}" for value in one["oracle"])
        grid.append([name, f"{one['questions']:,}", *cells, oracle])
    print(f"encoder {report['encoder']}, threshold {report['threshold']:.4f}")
    print(f"{report['all']['missing']:,} queries are not in their document\n\n{text_table(grid)}\n")
    print("oracle: exact and F1 of the best choice of one whole sentence")


def _rows(questions: list[Question], found: list[Span], threshold: float) -> list[dict[str, Any]]:
    """Return an object a question, where no answer is known; missing ones have no text."""
    rows = []
    for question, span in zip(questions, found, strict=True):
        text = span.text(question.document, threshold)
        name = question.title or question.id
        row = {"query": question.query, "document": name, "missing": not text}
        rows.append(row | {"score": span.score, "start": span.start, "text": text})
    return rows


def _lines(questions: list[Question], rows: list[dict[str, Any]]) -> None:
    """A line a question: score, document, first character, text; the best documents first."""
    asked: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for question, row in zip(questions, rows, strict=True):
        line = question.id.partition(":")[0] if question.title else ""  # a query may repeat
        asked.setdefault((line, question.query), []).append(row)
    for (_, query), some in asked.items():
        print(query)
        there = [row for row in some if not row["missing"]]
        for row in sorted(there, key=lambda row: -row["score"]):
            text = " ".join(row["text"].split())
            print(f"  {row['score']:.3f}\t{row['document']}:{row['start']}\t{text}")
        if all(row["score"] == -math.inf for row in some):
            print("  no known token")
        elif not there:
            print("  not found")

"""Find the paraphrase of a query in a document, without training data of the task.

Of each query the span of the document whose cosine with it is highest, of at most --longest words:
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

  python find.py ENCODER --queries claims.txt --documents report.txt minutes.txt
  python find.py ENCODER --squad test.json --tune dev.json --method sentence
  python find.py ENCODER --squad test.json --output found.json     # SQuAD's layout again
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from measures import by_query_length, evaluate_finding, tune_missing
from questions import Question, Span, read_squad, squad
from search import LONGEST_SPAN, find_spans, make_search

from simile_plugin.encoder import load_encoder, usable_device
from simile_plugin.files import (
    InputError,
    Progress,
    as_script,
    atomic_write,
    check_outputs,
    check_standard_input,
    read_bytes,
    read_lines,
    refuse_twice,
    split_lines,
)
from simile_plugin.significance import text_table, without_nan

METHODS = ("span", "sentence", "tfidf")


def parser() -> argparse.ArgumentParser:
    """Declare the flags."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("encoder", metavar="ENCODER", help="encoder folder")
    add("--queries", metavar="FILE", help="a query a line")
    add("--documents", nargs="+", default=[], metavar="FILE", help="a document each")
    add("--squad", metavar="FILE", help="queries and documents as JSON of SQuAD")
    add("--method", default="span", choices=METHODS, help="what is chosen (default span)")
    add("--longest", type=int, default=LONGEST_SPAN, help="words of a span at most (default 40)")
    add("--threshold", type=float, help="below this score a query is missing (default: never)")
    add("--tune", metavar="FILE", help="SQuAD file with answers and missing ones; sets --threshold")
    add("--output", metavar="FILE", help="write the answers in SQuAD's layout")
    add("--device", default="cpu", help="where the encoder runs: cpu, cuda, cuda:1")
    add("--json", action="store_true", help="print one JSON object")
    return made


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Search, measure, write."""
    options = parser().parse_args(argv)
    check(options)
    questions = (
        read_squad(options.squad, "--squad")
        if options.squad
        else read_texts(options.queries or "", options.documents)
    )
    dev = read_squad(options.tune, "--tune") if options.tune else []
    if any(question.answers is None for question in dev):
        raise InputError(f"--tune: {options.tune}: has questions without answers or is_impossible")
    encoder = load_encoder(options.encoder, usable_device(options.device))
    found, threshold = answer(options, encoder, questions, dev)
    report: dict[str, Any] = {"encoder": encoder.fingerprint, "threshold": threshold}
    report |= measure(questions, found, threshold)
    if options.output:
        with atomic_write(options.output) as stream:
            json.dump(squad(questions, found, threshold), stream, indent=1)
    if "all" not in report:
        report["found"] = rows_of(questions, found, threshold)
    if options.json:
        print(json.dumps(without_nan(report), indent=2))
    elif "all" in report:
        print_measures(report)
    else:
        print_spans(questions, report["found"])


def check(options: argparse.Namespace) -> None:
    """Raise InputError for flags that cannot be meant."""
    if not 1 <= options.longest <= 1000:
        raise InputError(f"--longest: got {options.longest}, expected 1 to 1000")
    texts = bool(options.queries)
    if bool(options.squad) == texts or texts != bool(options.documents):
        raise InputError(
            "--queries: expected --queries FILE with --documents FILE..., or --squad FILE alone"
        )
    if options.tune and options.threshold is not None:
        raise InputError("--tune: chooses the threshold; leave out --threshold")
    files = [(options.squad, "--squad"), (options.queries, "--queries"), (options.tune, "--tune")]
    files += [(path, "--documents") for path in options.documents]
    check_standard_input(files)
    check_outputs({"--output": options.output}, [options.encoder, *(path for path, _ in files)])


def read_texts(queries_path: str, paths: list[str]) -> list[Question]:
    """Every query in every document; its id is the line of the query and the document's file."""
    lines = enumerate(read_lines(queries_path, "--queries"), start=1)
    queries = [(number, line) for number, line in lines if line.strip()]
    if not queries:
        raise InputError(f"--queries: {queries_path}: has no text; expected a query a line")
    refuse_twice(paths, "--documents")
    documents: dict[str, str] = {}
    for path in paths:
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


def answer(
    options: argparse.Namespace, encoder: Any, questions: list[Question], dev: list[Question]
) -> tuple[list[Span], float]:
    """The answers, and the threshold."""
    documents = [*dict.fromkeys(question.document for question in (*questions, *dev))]
    search = make_search(options.method, encoder, documents, options.longest)
    with Progress(len(questions) + len(dev), " questions") as bar:
        found = find_spans(questions, search, bar.update)
        tuned = find_spans(dev, search, bar.update)
    if dev:
        return found, tune_missing(dev, tuned)
    return found, -math.inf if options.threshold is None else options.threshold


def measure(questions: list[Question], found: list[Span], threshold: float) -> dict[str, Any]:
    """Figures of all questions whose answers are known, and of each class of length."""
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


def print_measures(report: dict[str, Any]) -> None:
    """Print a row of all questions, and of each class of length."""
    grid = [["words of the query", "questions", "exact", "F1", "said missing", "oracle"]]
    for name, one in {"all": report["all"], **report["by_words_of_query"]}.items():
        cells = [f"{one[key]:.1f}" for key in ("exact", "f1", "said_missing")]
        oracle = "/".join(f"{value:.1f}" for value in one["oracle"])
        grid.append([name, f"{one['questions']:,}", *cells, oracle])
    print(f"encoder {report['encoder']}, threshold {report['threshold']:.4f}")
    print(f"{report['all']['missing']:,} queries are not in their document\n\n{text_table(grid)}\n")
    print("oracle: exact and F1 of the best choice of one whole sentence")


def rows_of(questions: list[Question], found: list[Span], threshold: float) -> list[dict[str, Any]]:
    """Return an object a question, where no answer is known; missing ones have no text."""
    rows = []
    for question, span in zip(questions, found, strict=True):
        text = span.text(question.document, threshold)
        name = question.title or question.id
        row = {"query": question.query, "document": name, "missing": not text}
        rows.append(row | {"score": span.score, "start": span.start, "text": text})
    return rows


def print_spans(questions: list[Question], rows: list[dict[str, Any]]) -> None:
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


if __name__ == "__main__":
    sys.exit(main())

"""Questions whose answers are known, in SQuAD's layout, out of texts in several versions.

    python plant.py chapters FILE --query BBE --document WEB --output PREFIX
    python plant.py rewrites FILE --output PREFIX

chapters: FILE is a table of verses (id "Book 1:2", then a column a version, named in the header). A
verse of one version is the query, its chapter in the other one the document. rewrites: a line has
a sentence and other people's rewrites of it, by TABs: the sentence is the query, one rewrite stands
among those of other lines, and two sentences each are joined to one, so that the answer is a part
of a sentence. Of every third question the answer is taken out of the document (setup 2). What the
document says once more, as a verse that repeats, is not asked about.

PREFIX.dev.json is to tune on, PREFIX.test.json to test on; their queries share no book and no line
(of rewrites, documents of both are put together from all lines). With --present no answer is taken
out (setup 1).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence

from questions import Question

from simile_plugin.files import InputError, Row, as_script, atomic_write, read_rows

OTHERS = 20  # sentences of a document that is put together
MISSING = 3  # of every third question the answer is taken out


def chapters(rows: Sequence[Row], query: str, document: str) -> dict[str, list[tuple[str, str]]]:
    """Chapter -> (verse of one version, verse of the other) in order.

    Raises:
        InputError: for a version that the header does not have, or a line that lacks its column.
    """
    header = rows[0].cells
    for flag, name in (("--query", query), ("--document", document)):
        if name not in header[1:]:
            raise InputError(
                f"{flag}: no version {name!r} in {rows[0].where}; expected one of "
                f"{', '.join(header[1:])}"
            )
    columns = header.index(query), header.index(document)
    found: dict[str, list[tuple[str, str]]] = {}
    for row in rows[1:]:
        row.expect(max(columns) + 1)
        pair = row.cells[columns[0]].strip(), row.cells[columns[1]].strip()
        if all(pair):
            found.setdefault(row.cells[0].rpartition(":")[0], []).append(pair)
    return found


def chapter_questions(
    found: dict[str, list[tuple[str, str]]], present: bool, rng: random.Random
) -> Iterator[tuple[int, Question]]:
    """Number of the book, and a question, of four verses of each chapter."""
    numbers: dict[str, int] = {}
    for chapter, verses in found.items():
        number = numbers.setdefault(chapter.rpartition(" ")[0], len(numbers))
        for place in sorted(rng.sample(range(len(verses)), min(4, len(verses)))):
            text, answer = verses[place]
            missing = not present and rng.randrange(MISSING) == 0
            rest = [verse for i, (_, verse) in enumerate(verses) if i != place or not missing]
            document = "\n".join(rest)
            if document.count(answer) != (not missing):
                continue
            name = f"{chapter}:{place}{':missing' if missing else ''}"
            yield number, Question(name, text, document, () if missing else (answer,))


def rewrite_questions(
    rows: Sequence[Sequence[str]], present: bool, rng: random.Random
) -> Iterator[tuple[int, Question]]:
    """Number of the line, and a question whose answer is a part of a sentence."""
    for number, (text, *rewrites) in enumerate(rows):
        answer = plain(rng.choice(rewrites))
        others = rng.sample([row for i, row in enumerate(rows) if i != number], OTHERS)
        parts = [plain(rng.choice(row[1:])) for row in others]
        missing = not present and rng.randrange(MISSING) == 0
        if not missing:
            parts[rng.randrange(OTHERS)] = answer
        pairs = zip(parts[::2], parts[1::2], strict=True)
        document = " ".join(f"{one}, and {other}." for one, other in pairs)
        if document.count(answer) != (not missing):
            continue
        yield number, Question(str(number), text, document, () if missing else (answer,))


def rewritten(rows: Sequence[Row]) -> list[list[str]]:
    """The sentence and its rewrites of each line that has some; an empty cell is none.

    Raises:
        InputError: if there are too few for a document.
    """
    cells = [[cell for cell in row.cells if plain(cell)] for row in rows if row.cells[0].strip()]
    found = [row for row in cells if len(row) > 1]
    if len(found) <= OTHERS:
        raise InputError(
            f"{rows[0].where.rpartition(':')[0]} has {len(found)} lines with rewrites, expected "
            f"more than {OTHERS}, of which a document is put together"
        )
    return found


def plain(sentence: str) -> str:
    """A sentence without the mark that ends it."""
    return sentence.strip().rstrip(".!?").rstrip()


def write(path: str, questions: Sequence[Question]) -> None:
    """The questions as SQuAD has them."""
    paragraphs = []
    for question in questions:
        asked: dict[str, object] = {"id": question.id, "question": question.query}
        asked["answers"] = [
            {"text": text, "answer_start": question.document.index(text)}
            for text in question.answers or ()
        ]
        asked["is_impossible"] = not question.answers
        paragraphs.append({"context": question.document, "qas": [asked]})
    with atomic_write(path) as stream:
        json.dump({"version": "v2.0", "data": [{"paragraphs": paragraphs}]}, stream, indent=1)


@as_script
def main() -> None:
    """Read the flags, write both files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=("chapters", "rewrites"))
    parser.add_argument("file")
    parser.add_argument("--query", default="BBE", help="version of the queries (default BBE)")
    parser.add_argument("--document", default="WEB", help="of the documents (default WEB)")
    parser.add_argument("--present", action="store_true", help="setup 1: nothing is missing")
    parser.add_argument("--output", required=True, metavar="PREFIX")
    args = parser.parse_args()
    rng = random.Random(1)
    rows = read_rows(args.file, "FILE", "texts in several versions, a TAB between them")
    if args.kind == "chapters":
        verses = chapters(rows, args.query, args.document)
        made = list(chapter_questions(verses, args.present, rng))
    else:
        made = list(rewrite_questions(rewritten(rows), args.present, rng))
    for part, name in enumerate(("dev", "test")):
        write(f"{args.output}.{name}.json", [q for number, q in made if number % 2 == part])


if __name__ == "__main__":
    sys.exit(main())

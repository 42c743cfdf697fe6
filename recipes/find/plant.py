"""Questions whose answers are known, in SQuAD's layout, out of texts in several versions.

    python plant.py chapters FILE --query BBE --document WEB --output PREFIX
    python plant.py rewrites FILE --output PREFIX

chapters: FILE is a table of verses (id "Book 1:2", then a column a version, named in the header). A
verse of one version is the query, its chapter in the other one the document. rewrites: a line has
a sentence and other people's rewrites of it, by TABs: the sentence is the query, one rewrite stands
among those of other lines, and two sentences each are joined to one, so that the answer is a part
of a sentence. Of every third question the answer is taken out of the document (setup 2).

PREFIX.dev.json is to tune on, PREFIX.test.json to test on; they share no book and no line. With
--present no answer is taken out (setup 1).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence

from simile_plugin.evaluation import Question
from simile_plugin.files import InputError, atomic_write, read_lines

OTHERS = 20  # sentences of a document that is put together
MISSING = 3  # of every third question the answer is taken out


def chapters(lines: Sequence[str], query: str, document: str) -> dict[str, list[tuple[str, str]]]:
    """Chapter -> (verse of one version, verse of the other) in order.

    Raises:
        InputError: for a version that the header does not have.
    """
    header = lines[0].split("\t")
    for name in (query, document):
        if name not in header:
            raise InputError(f"no version {name!r}; expected one of {', '.join(header[1:])}")
    found: dict[str, list[tuple[str, str]]] = {}
    for line in lines[1:]:
        cells = line.split("\t")
        pair = cells[header.index(query)].strip(), cells[header.index(document)].strip()
        if all(pair):
            found.setdefault(cells[0].rpartition(":")[0], []).append(pair)
    return found


def chapter_questions(
    found: dict[str, list[tuple[str, str]]], present: bool, rng: random.Random
) -> Iterator[tuple[int, Question]]:
    """Number of the book, and a question, of four verses of each chapter."""
    books = {chapter.rpartition(" ")[0]: None for chapter in found}
    numbers = {book: number for number, book in enumerate(books)}
    for chapter, verses in found.items():
        for place in sorted(rng.sample(range(len(verses)), min(4, len(verses)))):
            text, answer = verses[place]
            missing = not present and rng.randrange(MISSING) == 0
            rest = [verse for i, (_, verse) in enumerate(verses) if i != place or not missing]
            name = f"{chapter}:{place}{':missing' if missing else ''}"
            answers = () if missing else (answer,)
            yield (
                numbers[chapter.rpartition(" ")[0]],
                Question(name, text, "\n".join(rest), answers),
            )


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
        yield number, Question(str(number), text, document, () if missing else (answer,))


def plain(sentence: str) -> str:
    """A sentence without the mark that ends it."""
    return sentence.strip().rstrip(".!?").rstrip()


def write(path: str, questions: Sequence[Question]) -> None:
    """The questions as SQuAD has them."""
    paragraphs = []
    for question in questions:
        answers: list[dict[str, object]] = [
            {"text": text, "answer_start": question.document.index(text)}
            for text in question.answers or ()
        ]
        asked: dict[str, object] = {
            "id": question.id,
            "question": question.query,
            "answers": answers,
        }
        asked |= {"is_impossible": not answers}
        paragraphs.append({"context": question.document, "qas": [asked]})
    with atomic_write(path) as stream:
        json.dump({"version": "v2.0", "data": [{"paragraphs": paragraphs}]}, stream, indent=1)


def main() -> int:
    """Read the flags, write both files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=("chapters", "rewrites"))
    parser.add_argument("file")
    parser.add_argument("--query", default="BBE", help="version of the queries (default BBE)")
    parser.add_argument("--document", default="WEB", help="of the documents (default WEB)")
    parser.add_argument("--present", action="store_true", help="setup 1: nothing is missing")
    parser.add_argument("--output", required=True, metavar="PREFIX")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    try:
        lines = read_lines(args.file, "file")
        if args.kind == "chapters":
            made = [
                *chapter_questions(chapters(lines, args.query, args.document), args.present, rng)
            ]
        else:
            rows = [line.split("\t") for line in lines]
            made = [*rewrite_questions([row for row in rows if len(row) > 1], args.present, rng)]
        for part, name in enumerate(("dev", "test")):
            write(f"{args.output}.{name}.json", [q for number, q in made if number % 2 == part])
    except (ValueError, OSError) as error:
        print(f"plant.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`simile contrib neighbours`: which words or sentences does an encoder take for similar?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simile_plugin.cli._types import add_device, file_name, whole_number
from simile_plugin.files import InputError, check_standard_input, read_lines

if TYPE_CHECKING:
    from simile_plugin.contrib.neighbours import Pool
    from simile_plugin.encoder import RewardEncoder

HELP = "the nearest words of words, or sentences of sentences, by the cosine of an encoder"

DESCRIPTION = """\
The nearest neighbours of given texts, exact, by cosine; of cosines that are equal to six digits the
one that stands first in the file. A text is no neighbour of itself, and a copy of a sentence counts
once. What an encoder knows no token of is left out.

--words FILE: words or phrases, one a line. Their neighbours are the words of a word encoder's
vocabulary, or of --vocabulary FILE, any text, which all other encoders need: a word's vector is
that of the word alone, made of its pieces or n-grams.
--sentences FILE --queries FILE: a sentence a line; the neighbours of each query among the others.

Printed: each query, then a line a neighbour: cosine, line of the file (sentences), text.
"""

EPILOG = """\
examples:
  echo disagree | simile contrib neighbours ENCODER --words - --vocabulary text.en
  simile contrib neighbours ENCODER --sentences corpus.en --queries some.en -k 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile contrib neighbours`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("encoder", type=file_name, metavar="ENCODER", help="encoder folder")
    text = "words or phrases whose nearest words are asked for, - for standard input"
    add("--words", type=file_name, metavar="FILE", help=text)
    text = "text whose words are to choose from (default: the vocabulary of a word encoder)"
    add("--vocabulary", type=file_name, metavar="FILE", help=text)
    text = "choose from so many words, the most frequent ones (default: all; the thesis: 10000)"
    add("--most-frequent", type=whole_number(1), metavar="N", help=text)
    add("--sentences", type=file_name, metavar="FILE", help="sentences that are to choose from")
    text = "sentences whose nearest ones are asked for"
    add("--queries", type=file_name, metavar="FILE", help=text)
    text = "neighbours of each (default %(default)s)"
    add("-k", type=whole_number(1, 1000), default=10, metavar="N", help=text)
    add_device(parser)
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Search and print; exit status 0. Errors are raised as InputError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import embed_all
    from simile_plugin.contrib.neighbours import nearest_texts, text_key
    from simile_plugin.encoder import load_encoder, usable_device

    flag, path = _check(args)
    queries = _lines(path, flag)
    encoder = load_encoder(args.encoder, usable_device(args.device))
    pool = _pool(args, encoder)
    vectors = embed_all(encoder.embed_text, queries)
    found = nearest_texts([*map(text_key(encoder), queries)], vectors, pool, args.k)
    if args.json:
        shown = [
            {"query": query, "neighbours": None if near is None else [asdict(one) for one in near]}
            for query, near in zip(queries, found, strict=True)
        ]
        print(json.dumps({"encoder": encoder.fingerprint, "queries": shown}, indent=2))
        return 0
    for query, near in zip(queries, found, strict=True):
        print(query)
        if near is None:
            print("  no known token")
        for one in near or ():
            place = f"{one.place}\t" if flag == "--queries" else ""
            print(f"  {one.cosine:.3f}\t{place}{one.text}")
    return 0


def _check(args: argparse.Namespace) -> tuple[str, str]:
    """The flag of what is asked for, and its file; InputError for flags that do not go together."""
    modes = (("--words", args.words), ("--queries", args.queries))
    given = [(flag, path) for flag, path in modes if path]
    if len(given) != 1 or bool(args.sentences) != bool(args.queries):
        raise InputError("--words: expected --words FILE, or --sentences FILE with --queries FILE")
    if (args.vocabulary or args.most_frequent) and not args.words:
        raise InputError("--vocabulary and --most-frequent: only for --words; leave them out")
    ((flag, path),) = given
    chosen_from = [(args.vocabulary, "--vocabulary"), (args.sentences, "--sentences")]
    check_standard_input([*chosen_from, (path, flag)])
    return flag, path


def _lines(path: str, flag: str) -> list[str]:
    """The lines of a file that hold text."""
    lines = [line for line in read_lines(path, flag) if line.strip()]
    if not lines:
        raise InputError(f"{flag}: {path}: has no text; expected one a line")
    return lines


def _pool(args: argparse.Namespace, encoder: RewardEncoder) -> Pool:
    """Return the texts from which neighbours are chosen."""
    from simile_plugin.contrib.neighbours import text_pool, word_pool

    if args.sentences:
        pool = text_pool(encoder, read_lines(args.sentences, "--sentences"))
    else:
        lines = _lines(args.vocabulary, "--vocabulary") if args.vocabulary else None
        pool = word_pool(encoder, lines, args.most_frequent)
    if not pool.texts:
        path = args.sentences or args.vocabulary
        raise InputError(f"{path}: has no text with a token that the encoder knows")
    return pool

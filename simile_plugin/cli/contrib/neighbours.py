"""`simile contrib neighbours`: which words or sentences does an encoder take for similar?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from simile_plugin.cli._types import add_device, file_name, whole_number
from simile_plugin.files import InputError, check_standard_input, read_lines

if TYPE_CHECKING:
    from torch import Tensor

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
--tokens FILE: tokens of the encoder, one a line, _ for a space; their neighbours among all its
tokens, by their embeddings. Several tokens that are shown alike are each asked for.

Printed: each query, then a line a neighbour: cosine, line of the file (sentences), text.
"""

EPILOG = """\
examples:
  echo disagree | simile contrib neighbours ENCODER --words - --vocabulary text.en
  simile contrib neighbours ENCODER --sentences corpus.en --queries some.en -k 3
  simile contrib neighbours ENCODER --tokens ngrams.txt
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
    add("--tokens", type=file_name, metavar="FILE", help="tokens whose nearest ones are asked for")
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
    if pool.unknown:
        print(f"note: {pool.unknown} texts without a known token are left out", file=sys.stderr)
    if flag == "--tokens":
        queries, keys, vectors = _token_queries(queries, pool, path)
    else:
        keys = list(map(text_key(encoder), queries))
        vectors = embed_all(encoder.embed_text, queries)
    found = nearest_texts(keys, vectors, pool, args.k)
    if args.json:
        rows = [
            {"query": query, "neighbours": None if near is None else [asdict(one) for one in near]}
            for query, near in zip(queries, found, strict=True)
        ]
        print(json.dumps({"encoder": encoder.fingerprint, "queries": rows}, indent=2))
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
    modes = (("--words", args.words), ("--queries", args.queries), ("--tokens", args.tokens))
    given = [(flag, path) for flag, path in modes if path]
    if len(given) != 1 or bool(args.sentences) != bool(args.queries):
        raise InputError(
            "--words: expected --words FILE, or --sentences FILE with --queries FILE, or --tokens "
            "FILE"
        )
    for flag, value in (("--vocabulary", args.vocabulary), ("--most-frequent", args.most_frequent)):
        if value and not args.words:
            raise InputError(f"{flag}: got {value}, which only --words has a use for; leave it out")
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
    """What the neighbours are chosen from."""
    from simile_plugin.contrib.neighbours import text_pool, token_pool, word_pool
    from simile_plugin.reward import is_unspaced

    if args.tokens:
        return token_pool(encoder)
    if args.sentences:
        pool = text_pool(encoder, read_lines(args.sentences, "--sentences"))
    else:
        lines = _lines(args.vocabulary, "--vocabulary") if args.vocabulary else None
        if lines and is_unspaced([" ".join(lines)], "none"):  # a line may be a word
            print(
                f"simile contrib neighbours: warning: --vocabulary: {args.vocabulary} has next "
                "to no spaces, and what stands between two of them is taken for a word; give text "
                "with spaces between its words",
                file=sys.stderr,
            )
        pool = word_pool(encoder, lines, args.most_frequent)
    if not pool.texts:
        flag = "--sentences" if args.sentences else "--vocabulary"
        path = args.sentences or args.vocabulary
        raise InputError(
            f"{flag}: {path}: has no text with a token that the encoder knows; is it of its "
            "language and script?"
        )
    return pool


def _token_queries(
    queries: list[str], pool: Pool, path: str
) -> tuple[list[str], list[str], Tensor]:
    """Headings, keys and vectors of tokens; InputError for one that the encoder does not have."""
    from simile_plugin.contrib.neighbours import shown_token

    rows: dict[str, list[int]] = {}  # several are shown alike: "_a" and " a"
    for row, text in enumerate(pool.texts):
        rows.setdefault(text, []).append(row)
    headings: list[str] = []
    chosen: list[int] = []
    for query in queries:
        found = rows.get(shown_token(query))
        if not found:
            raise InputError(
                f"--tokens: {path}: {shown_token(query)!r} is no token of the encoder, for example "
                f"{pool.texts[0]!r} is; words that are none go to --words"
            )
        alike = [f"{query} ({pool.keys[row]!r})" for row in found]
        headings += [query] if len(found) == 1 else alike
        chosen += found
    return headings, [pool.keys[row] for row in chosen], pool.vectors[chosen]

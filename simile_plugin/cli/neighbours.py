"""`simile neighbours`: which words or sentences does an encoder take for similar?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simile_plugin.cli._types import add_device, file_name, whole_number
from simile_plugin.files import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from simile_plugin.encoder import RewardEncoder
    from simile_plugin.evaluation import Neighbour, Pool

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
  echo disagree | simile neighbours ENCODER --words - --vocabulary text.en --most-frequent 10000
  simile neighbours ENCODER --sentences corpus.en --queries some.en -k 3
  simile neighbours ENCODER --tokens ngrams.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile neighbours`."""
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
    import sys
    from dataclasses import asdict

    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.evaluation import nearest_texts

    _check(args)
    flag = next(flag for flag in ("--words", "--queries", "--tokens") if _given(args, flag))
    path = _given(args, flag)
    queries = _lines(path, flag)
    encoder = load_encoder(args.encoder, usable_device(args.device))
    pool = _pool(args, encoder)
    if pool.unknown:
        print(f"note: {pool.unknown} texts without a known token are left out", file=sys.stderr)
    if flag == "--tokens":
        pool = _distinct_tokens(pool, encoder)
        queries, keys, vectors = _token_queries(queries, pool, path)
    else:
        keys, vectors = _text_queries(queries, encoder)
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
        _print(near, numbered=flag == "--queries")
    return 0


def _print(near: list[Neighbour] | None, numbered: bool) -> None:
    if near is None:
        print("  no known token")
        return
    for one in near:
        place = f"{one.place}\t" if numbered else ""
        print(f"  {one.cosine:.3f}\t{place}{one.text}")


def _given(args: argparse.Namespace, flag: str) -> str:
    """The value of a flag, empty if it is not there."""
    return getattr(args, flag.removeprefix("--")) or ""


def _check(args: argparse.Namespace) -> None:
    """Raise InputError for flags that cannot be meant together."""
    modes = [flag for flag in ("--words", "--queries", "--tokens") if _given(args, flag)]
    if len(modes) != 1 or bool(args.sentences) != bool(args.queries):
        raise InputError(
            "--words: expected --words FILE, or --sentences FILE with --queries FILE, or --tokens "
            "FILE"
        )
    for flag, value in (("--vocabulary", args.vocabulary), ("--most-frequent", args.most_frequent)):
        if value and not args.words:
            raise InputError(f"{flag}: got {value}, which only --words has a use for; leave it out")
    for flag in ("--vocabulary", "--sentences"):
        if _given(args, flag) == "-" == _given(args, modes[0]):
            raise InputError(f"{flag}, {modes[0]}: only one of them can be - (standard input)")


def _lines(path: str, flag: str) -> list[str]:
    """The lines of a file that hold text."""
    from simile_plugin.files import read_lines

    lines = [line for line in read_lines(path, flag) if line.strip()]
    if not lines:
        raise InputError(f"{flag}: {path}: has no text; expected one a line")
    return lines


def _pool(args: argparse.Namespace, encoder: RewardEncoder) -> Pool:
    """What the neighbours are chosen from."""
    from simile_plugin.evaluation import text_pool, token_pool, word_pool
    from simile_plugin.files import read_lines

    if args.tokens:
        return token_pool(encoder)
    if args.sentences:
        pool = text_pool(encoder, read_lines(args.sentences, "--sentences"))
    else:
        lines = _lines(args.vocabulary, "--vocabulary") if args.vocabulary else None
        pool = word_pool(encoder, lines, args.most_frequent)
    if not pool.texts:
        flag = "--sentences" if args.sentences else "--vocabulary"
        path = args.sentences or args.vocabulary
        raise InputError(
            f"{flag}: {path}: has no text with a token that the encoder knows; is it of its "
            "language and script?"
        )
    return pool


def _text_queries(queries: list[str], encoder: RewardEncoder) -> tuple[list[str], Tensor]:
    """Keys and vectors of words, phrases or sentences."""
    from simile_plugin.evaluation import embed_all, text_key

    return list(map(text_key(encoder), queries)), embed_all(encoder.embed_text, queries)


def _distinct_tokens(pool: Pool, encoder: RewardEncoder) -> Pool:
    """The tokens, with themselves as keys: "_a" and " a" are shown alike."""
    from dataclasses import replace

    from simile_plugin.encoder import Encoder

    assert isinstance(encoder, Encoder)
    own = [text for text in encoder.segmenter.texts if text is not None]
    return replace(pool, keys=[own[place - 1] for place in pool.places])


def _token_queries(
    queries: list[str], pool: Pool, path: str
) -> tuple[list[str], list[str], Tensor]:
    """Headings, keys and vectors of tokens; InputError for one that the encoder does not have."""
    from simile_plugin.evaluation import token_key

    rows: dict[str, list[int]] = {}
    for row, text in enumerate(pool.texts):
        rows.setdefault(text, []).append(row)
    asked = []
    for query in queries:
        found = rows.get(token_key(query))
        if not found:
            raise InputError(
                f"--tokens: {path}: {token_key(query)!r} is no token of the encoder, for example "
                f"{pool.texts[0]!r} is; words that are none go to --words"
            )
        for row in found:
            asked.append((query if len(found) == 1 else f"{query} ({pool.keys[row]!r})", row))
    headings, chosen = [heading for heading, _ in asked], [row for _, row in asked]
    return headings, [pool.keys[row] for row in chosen], pool.vectors[chosen]

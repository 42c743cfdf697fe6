"""`simile contrib neighbours`: which words or sentences does an encoder take for similar?"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import add_flags, file_option, read_flags
from simile_plugin.cli.contrib import EncoderFlags
from simile_plugin.files import InputError, Range, check_standard_input, option, read_lines

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


@dataclass
class Options(EncoderFlags):
    """Flags of `simile contrib neighbours`."""

    words: str | None = file_option(
        "words or phrases whose nearest words are asked for, - for standard input", None
    )
    vocabulary: str | None = file_option(
        "text whose words are to choose from (default: the vocabulary of a word encoder)", None
    )
    most_frequent: int | None = option(
        "choose from so many words, the most frequent ones (default: all; the thesis: 10000)",
        None,
        range=Range.at_least(1),
    )
    sentences: str | None = file_option("sentences that are to choose from", None)
    queries: str | None = file_option("sentences whose nearest ones are asked for", None)
    k: int = option("neighbours of each", 10, names=("-k",), range=Range.within(1, 1000))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile contrib neighbours`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Search and print; exit status 0. Errors are raised as InputError or OSError."""
    import json
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import embed_all
    from simile_plugin.contrib.neighbours import nearest_texts, text_key
    from simile_plugin.encoder import load_encoder, usable_device

    options = read_flags(args, Options)
    flag, path = _check(options)
    queries = _lines(path, flag)
    encoder = load_encoder(options.encoder, usable_device(options.device))
    pool = _pool(options, encoder)
    vectors = embed_all(encoder.embed_text, queries)
    found = nearest_texts([*map(text_key(encoder), queries)], vectors, pool, options.k)
    if options.json:
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


def _check(options: Options) -> tuple[str, str]:
    """The flag of what is asked for, and its file; InputError for flags that do not go together."""
    modes = (("--words", options.words), ("--queries", options.queries))
    given = [(flag, path) for flag, path in modes if path]
    if len(given) != 1 or bool(options.sentences) != bool(options.queries):
        raise InputError("--words: expected --words FILE, or --sentences FILE with --queries FILE")
    if (options.vocabulary or options.most_frequent) and not options.words:
        raise InputError("--vocabulary and --most-frequent: only for --words; leave them out")
    ((flag, path),) = given
    chosen_from = [(options.vocabulary, "--vocabulary"), (options.sentences, "--sentences")]
    check_standard_input([*chosen_from, (path, flag)])
    return flag, path


def _lines(path: str, flag: str) -> list[str]:
    """The lines of a file that hold text."""
    lines = [line for line in read_lines(path, flag) if line.strip()]
    if not lines:
        raise InputError(f"{flag}: {path}: has no text; expected one a line")
    return lines


def _pool(options: Options, encoder: RewardEncoder) -> Pool:
    """Return the texts from which neighbours are chosen."""
    from simile_plugin.contrib.neighbours import text_pool, word_pool

    if options.sentences:
        pool = text_pool(encoder, read_lines(options.sentences, "--sentences"))
    else:
        lines = _lines(options.vocabulary, "--vocabulary") if options.vocabulary else None
        pool = word_pool(encoder, lines, options.most_frequent)
    if not pool.texts:
        path = options.sentences or options.vocabulary
        raise InputError(f"{path}: has no text with a token that the encoder knows")
    return pool

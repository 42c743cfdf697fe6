"""Print the words or sentences that encoders take for most similar to given ones.

python neighbours.py NAME=ENCODER... --text FILE --queries FILE [--words 10000]

After Wieting's thesis, tables 8, 22 and 23. With --words the neighbours are the most frequent words
of the text, each embedded alone; without, its lines. A query is a line, and no neighbour of itself.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.encoder import Encoder, Preprocessing, RewardEncoder, load_encoder
from simile_plugin.files import InputError, as_script, read_lines
from simile_plugin.significance import markdown_table

BLOCK = 4096  # texts that are embedded together
DIGITS = 5  # of cosines that are compared: a further one may differ between equal texts


def key_of(encoder: RewardEncoder) -> Callable[[str], str]:
    """Return what preprocesses a text: two that come out the same are copies."""
    if not isinstance(encoder, Encoder):
        return str.strip
    return encoder.segmenter.preprocessing.apply


def frequent_words(lines: Sequence[str], most: int) -> list[str]:
    """Return the most frequent words of a preprocessed text, those with a letter in them."""
    preprocess = Preprocessing().apply
    counts = Counter(word for line in lines for word in preprocess(line).split())
    return [word for word, _ in counts.most_common() if any(map(str.isalpha, word))][:most]


def unit_vectors(encoder: RewardEncoder, texts: Sequence[str]) -> Tensor:
    """Return unit vectors (N, D) on the CPU, zero for a text without a known token."""
    parts = [texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK)]
    vectors = torch.cat([encoder.embed_text(part).cpu() for part in parts])
    return F.normalize(vectors.double(), dim=1, eps=1e-30)


def nearest(
    encoder: RewardEncoder, queries: Sequence[str], pool: Sequence[str], k: int
) -> list[list[tuple[str, float]] | None]:
    """Return the k texts of the pool with the highest cosine, best first, and that cosine.

    The search is exact; of cosines that are equal to 5 digits the first text of the pool wins.

    Args:
        pool: copies of a text count once; texts without a known token are left out.

    Returns:
        a list for each query, None for one without a known token.
    """
    key = key_of(encoder)
    distinct = list({key(text): text for text in reversed(pool)}.values())[::-1]
    vectors, of_queries = unit_vectors(encoder, distinct), unit_vectors(encoder, queries)
    known = vectors.any(1).nonzero().flatten()
    found: list[list[tuple[str, float]] | None] = []
    for query, vector in zip(queries, of_queries, strict=True):
        if not vector.any():
            found.append(None)
            continue
        cosines = (vectors[known] @ vector * 10**DIGITS).round() / 10**DIGITS
        order = torch.argsort(cosines, descending=True, stable=True)[: k + 1]
        near = [(distinct[known[i]], float(cosines[i])) for i in order]
        found.append([(text, cosine) for text, cosine in near if key(text) != key(query)][:k])
    return found


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, print a row a query and a column an encoder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("encoders", nargs="+", metavar="NAME=ENCODER", help="encoder folders")
    parser.add_argument("--text", required=True, metavar="FILE", help="where neighbours are from")
    parser.add_argument("--queries", required=True, metavar="FILE", help="one a line")
    parser.add_argument("--words", type=int, metavar="N", help="its N most frequent words")
    parser.add_argument("-k", type=int, default=5, metavar="N", help="neighbours (default 5)")
    args = parser.parse_args(argv)
    if args.k < 1 or (args.words is not None and args.words < 1):
        raise InputError(f"-k {args.k} --words {args.words}: expected 1 or more")
    lines, queries = (
        [line.strip() for line in read_lines(path, flag) if line.strip()]
        for path, flag in ((args.text, "--text"), (args.queries, "--queries"))
    )
    if not lines or not queries:
        raise InputError(f"--text {args.text} --queries {args.queries}: no text in one of them")
    pool = lines if args.words is None else frequent_words(lines, args.words)
    grid = [["query"], *([query] for query in queries)]
    for word in args.encoders:
        name, equals, folder = word.partition("=")
        if not equals:
            raise InputError(f"ENCODER: got '{word}', expected NAME=FOLDER")
        grid[0].append(name)
        for row, near in zip(
            grid[1:], nearest(load_encoder(folder), queries, pool, args.k), strict=True
        ):
            cells = [f"{text} {cosine:.2f}" for text, cosine in near or ()]
            row.append(", ".join(cells) if near is not None else "no known token")
    print(markdown_table(grid))


if __name__ == "__main__":
    sys.exit(main())

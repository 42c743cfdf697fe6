"""Lines in ParaNMT's layout, and the time and memory of commands; see paranmt_scale.sh."""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

CHUNK = 100_000  # lines written at once


def paraphrases(paths: list[str]) -> list[list[list[str]]]:
    """The words of both sides of each line of gzipped TSV files."""
    pairs = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            for line in stream:
                sides = [side.split() for side in line.rstrip("\n").split("\t")[:2]]
                if len(sides) == 2 and all(sides):
                    pairs.append(sides)
    return pairs


def write(path: str, lines: int, sources: list[str]) -> None:
    """Lines of sentence TAB paraphrase TAB score, with a word of each side drawn anew."""
    pairs = paraphrases(sources)
    words = np.array(sorted({word for sides in pairs for side in sides for word in side}))
    rng = np.random.default_rng(1)
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        for start in range(0, lines, CHUNK):
            size = min(CHUNK, lines - start)
            drawn = words[rng.integers(0, len(words), (size, 2))].tolist()
            places, scores = rng.random((size, 2)).tolist(), rng.random(size).tolist()
            stream.writelines(
                altered(pairs[(start + row) % len(pairs)], drawn[row], places[row], scores[row])
                for row in range(size)
            )


def altered(pair: list[list[str]], words: list[str], places: list[float], score: float) -> str:
    """A line whose sides have one word each exchanged, at places given as shares of them."""
    sides = []
    for side, word, place in zip(pair, words, places, strict=True):
        at = int(place * len(side))
        sides.append(" ".join([*side[:at], word, *side[at + 1 :]]))
    return f"{sides[0]}\t{sides[1]}\t{score:.4f}\n"


def measure(path: str, command: list[str]) -> None:
    """Run a command; write its seconds, CPU seconds and the memory of its largest process."""
    started = time.perf_counter()
    subprocess.run(command, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss * 1024 / 1e6,
    }
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


def count_lines(path: str) -> int:
    """Lines of a file that may be larger than memory."""
    with open(path, "rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 24), b""))


def table(words: list[str]) -> Iterator[str]:
    """Rows for what each command read: TSV file, measurements, TSV file, measurements."""
    yield "| step | lines | lines a second of CPU time | CPU hours | hours | largest process |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, lines, path in zip(("filter", "binarise"), words[::2], words[1::2], strict=True):
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
        count, cpu = count_lines(lines), found["cpu_seconds"]
        hours = f"{cpu / 3600:.2f} | {found['seconds'] / 3600:.2f}"
        yield f"| {name} | {count:,} | {count / cpu:,.0f} | {hours} | {found['megabytes']:.0f} MB |"


def main() -> None:
    """See paranmt_scale.sh."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("write", "time", "table"))
    parser.add_argument("words", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.step == "write":
        write(args.words[0], int(args.words[1]), args.words[2:])
    elif args.step == "time":
        try:
            measure(args.words[0], args.words[1:])
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)
    else:
        print("\n".join(table(args.words)))


if __name__ == "__main__":
    main()

"""Paraphrase pairs from the English captions of Multi30k (task 2): all 10 pairs of an image's 5.

Writes TSV to standard output: caption TAB caption. The five files train.1.en.gz to
train.5.en.gz are looked for in --captions, default $SIMILE_DATA/multi30k/task2.

The captions overlap STS (115 of the 500 sentences of 2017 en-en, most of 2015 images, a few of
2012 MSRvid and 2014 images): an STS figure of an encoder trained on them is no held-out test.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from pathlib import Path

from simile_plugin.files import InputError, as_script, read_parallel


def read_captions(folder: Path) -> list[list[str]]:
    """The five captions of each image, from the five line-parallel files of a folder.

    Raises:
        InputError: for a missing or damaged file, or differing line counts.
    """
    files = [(folder / f"train.{number}.en.gz", "--captions") for number in range(1, 6)]
    return [
        [caption.strip().replace("\t", " ") for caption in captions]
        for captions in zip(*read_parallel(files), strict=True)
    ]


@as_script
def main() -> None:
    """Write the pairs; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captions", type=Path, help="folder of train.{1..5}.en.gz")
    folder = parser.parse_args().captions
    if folder is None:
        if "SIMILE_DATA" not in os.environ:
            raise InputError("give --captions or set SIMILE_DATA")
        folder = Path(os.environ["SIMILE_DATA"], "multi30k", "task2")
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for captions in read_captions(folder):
        for left, right in itertools.combinations(captions, 2):
            if left and right:
                sys.stdout.write(f"{left}\t{right}\n")


if __name__ == "__main__":
    raise SystemExit(main())

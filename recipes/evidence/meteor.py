"""METEOR 1.5 of every sentence of every translation: FOLDER/NAME.txt -> FOLDER/NAME.meteor.

meteor.py raw/test.en=out/test raw/heldout.en=out/heldout

The numbers are those that `simile report --sentence-scores` reads. What is newer than its
translation is kept; a translation of an earlier test set, with other lines, is left out. Without
METEOR (its jar, Java) one line says so and the exit status is 3. It is METEOR for English.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simile_plugin.evaluation import Meteor, missing_meteor
from simile_plugin.files import as_script, atomic_write, read_lines


def wanted(folder: Path) -> list[Path]:
    """The translations of a folder that have no scores, or older ones."""
    return [
        path
        for path in sorted(folder.glob("*.txt"))
        if not (scores := path.with_suffix(".meteor")).exists()
        or scores.stat().st_mtime < path.stat().st_mtime
    ]


def score(ref: str, folder: Path, meteor: Meteor) -> None:
    """Score the translations of one folder against one file of references."""
    refs = list(read_lines(ref, "references"))
    for path in wanted(folder):
        hyps = list(read_lines(str(path), "translations"))
        if len(hyps) != len(refs):
            print(f"{path}: left out, {len(hyps)} lines for {len(refs)} of {ref}", file=sys.stderr)
            continue
        with atomic_write(str(path.with_suffix(".meteor"))) as stream:
            stream.writelines(f"{value:.6f}\n" for value in meteor.scores(hyps, refs))


@as_script
def main(arguments: list[str]) -> int:
    """Score all folders; exit status 2 and one line for bad input."""
    parts = [(ref, Path(folder)) for ref, _, folder in (word.partition("=") for word in arguments)]
    if missing := missing_meteor():
        print(missing, file=sys.stderr)
        return 3
    if not any(wanted(folder) for _, folder in parts):
        return 0
    with Meteor() as meteor:
        for ref, folder in parts:
            score(ref, folder, meteor)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

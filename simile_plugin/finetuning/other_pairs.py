"""A folder of data for fairseq-train with the training pairs of elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from simile_plugin.files import InputError, atomic_folder, read_parallel

# Text in other pieces than a dictionary's has far more unknown ones than text in its own.
UNKNOWN = 5.0  # percent of the pieces
COUNTED = re.compile(r"\[(\S+)\] (.*): \d+ sents, \d+ tokens, ([\d.]+)% replaced")


def with_other_pairs(data: str, train: str, folder: Path) -> Path:
    """Make a folder with the dictionaries and validation set of DATA-BIN and other training pairs.

    Args:
        data: by fairseq-preprocess.
        train: a folder by fairseq-preprocess with the same dictionaries, or the prefix of two text
            files in the pieces of DATA-BIN.
        folder: where; it has links to files of `data`, and of `train` if that is a folder.

    Returns:
        the folder.

    Raises:
        InputError: for other dictionaries, other pieces, or files that are not there.
    """
    if ":" in train:  # fairseq would see several folders
        raise InputError(f"--train: got {train}, expected a path without ':'")
    source, target = languages_of(data)
    dictionaries = [Path(data) / f"dict.{language}.txt" for language in (source, target)]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder, dictionaries[0].name) as made:
        if Path(train).is_dir():
            _check_dictionaries(dictionaries, Path(train))
            pairs = sorted(Path(train).glob("train*"))
            if not pairs:
                raise InputError(f"--train: {train} has no train set by fairseq-preprocess")
        else:
            _preprocess(train, source, target, dictionaries, made)
            pairs = []
        for path in [*dictionaries, *Path(data).glob("valid*"), *pairs]:
            if not (made / path.name).exists():
                (made / path.name).symlink_to(path.resolve())
    return folder


def languages_of(data: str) -> tuple[str, str]:
    """Return the languages of a folder by fairseq-preprocess.

    Raises:
        InputError: for a folder without sentence pairs.
    """
    for index in sorted(Path(data).glob("*.*-*.*.idx")):
        pair = index.name.split(".")[-3]
        source, _, target = pair.partition("-")
        return source, target
    raise InputError(f"DATA-BIN: {data} has no pairs; expected a folder of fairseq-preprocess")


def _check_dictionaries(dictionaries: list[Path], train: Path) -> None:
    for dictionary in dictionaries:
        other = train / dictionary.name
        if not other.is_file() or other.read_bytes() != dictionary.read_bytes():
            raise InputError(
                f"--train: {other} is not the same as {dictionary}; expected pairs binarised with "
                "it (fairseq-preprocess --srcdict, --tgtdict)"
            )


def _preprocess(
    prefix: str, source: str, target: str, dictionaries: list[Path], made: Path
) -> None:
    """Binarise text into a folder, by fairseq-preprocess."""
    files = [f"{prefix}.{language}" for language in (source, target)]
    read_parallel([(path, "--train") for path in files])  # of one length, without empty lines
    command = [
        *(sys.executable, "-m", "fairseq_cli.preprocess", "-s", source, "-t", target),
        *("--srcdict", str(dictionaries[0]), "--tgtdict", str(dictionaries[1])),
        *("--trainpref", prefix, "--destdir", str(made)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = (done.stderr.strip() or "fairseq-preprocess failed").splitlines()[-1]
        raise InputError(f"--train: {prefix}: {last}")
    for language, path, unknown in COUNTED.findall(done.stderr + done.stdout):
        if float(unknown) > UNKNOWN:
            raise InputError(
                f"--train: {unknown} % of the pieces of {path} are not in dict.{language}.txt; "
                "expected text in the pieces of DATA-BIN: segment it as that was"
            )

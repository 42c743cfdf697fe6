"""Bitext out of archives, and sacreBLEU's test sets.

archives.py extract FILE.tgz training-parallel-nc-v13/news-commentary-v13.de-en de OUT
archives.py extract FILE.zip SETIMES.en-tr tr OUT
archives.py member FILE.zip sim.pt OUT         the member whose path ends so
archives.py address wmt18                      URL, checksum and file of a test set's archive
archives.py testset wmt18 de OUT               its two sides, where that file is
"""

from __future__ import annotations

import argparse
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from simile_plugin.files import InputError, as_script, atomic_write


@contextmanager
def open_member(archive: str, end: str) -> Iterator[IO[bytes]]:
    """The member of a .zip or tar archive whose path is `end` or ends with /`end`.

    Raises:
        InputError: where none does, more than one does, or the archive is damaged.
    """
    try:
        if zipfile.is_zipfile(archive):
            with (
                zipfile.ZipFile(archive) as packed,
                packed.open(_only(packed.namelist(), end, archive)) as stream,
            ):
                yield stream
        else:
            with tarfile.open(archive) as tar:
                member = tar.extractfile(_only(tar.getnames(), end, archive))
                if member is None:
                    raise InputError(f"{archive}: {end} is no file in it")
                with member:
                    yield member
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(
            f"{archive}: damaged archive ({error}); remove it and run again"
        ) from error


def _only(names: list[str], end: str, archive: str) -> str:
    found = [name for name in names if name == end or name.endswith("/" + end)]
    if len(found) != 1:
        raise InputError(f"{archive}: {len(found)} members end with {end}; expected one")
    return found[0]


def extract(archive: str, end: str, output: str) -> None:
    """Write one member to a file."""
    with open_member(archive, end) as stream, atomic_write(output, "wb") as target:
        shutil.copyfileobj(stream, target)


def address(name: str) -> tuple[str, str, Path]:
    """URL, checksum (md5:HEX) and place of the archive of a sacreBLEU test set.

    Raises:
        InputError: if sacreBLEU has no such set, or not exactly one archive for it.
    """
    from sacrebleu.dataset import DATASETS

    dataset = DATASETS.get(name)
    if dataset is None or not dataset.data or len(dataset.data) != 1 or not dataset.md5:
        raise InputError(f"{name}: not a test set of one archive in this version of sacreBLEU")
    url = dataset.data[0]
    return url, f"md5:{dataset.md5[0]}", Path(dataset._rawdir, dataset._get_tarball_filename(url))


def write_testset(name: str, src: str, output: str) -> None:
    """Write OUTPUT.SRC and OUTPUT.en of a sacreBLEU test set whose archive is in place."""
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import extract_tarball

    archive = address(name)[2]
    extract_tarball(str(archive), str(archive.parent))  # sacreBLEU does so only after a download
    files = DATASETS[name].get_files(f"{src}-en")
    for path, language in zip(files[:2], (src, "en"), strict=True):
        shutil.copyfile(path, f"{output}.{language}")


@as_script
def main() -> None:
    """Parse and run; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["extract", "member", "address", "testset"])
    parser.add_argument("arguments", nargs="+")
    args = parser.parse_args()
    words = args.arguments
    match args.action, len(words):
        case "extract", 4:
            for language in (words[2], "en"):
                extract(words[0], f"{words[1]}.{language}", f"{words[3]}.{language}")
        case "member", 3:
            extract(*words)
        case "address", 1:
            print(*address(words[0]), sep="\n")
        case "testset", 3:
            write_testset(*words)
        case _:
            parser.error(f"{args.action}: got {len(words)} arguments, see --help")


if __name__ == "__main__":
    raise SystemExit(main())

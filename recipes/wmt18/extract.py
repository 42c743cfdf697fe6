"""One member out of a .zip or tar archive, by the end of its path.

extract.py FILE.tgz training-parallel-nc-v13/news-commentary-v13.de-en.de OUT
extract.py FILE.zip sim.pt OUT
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile

from simile_plugin.files import InputError, as_script, atomic_write


def extract(archive: str, end: str, output: str) -> None:
    """Write the member whose path is `end` or ends with /`end`.

    Raises:
        InputError: where none does, more than one does, or the archive is damaged.
    """
    try:
        if zipfile.is_zipfile(archive):
            with (
                zipfile.ZipFile(archive) as packed,
                packed.open(_only(packed.namelist(), end, archive)) as stream,
                atomic_write(output, "wb") as target,
            ):
                shutil.copyfileobj(stream, target)
        else:
            with tarfile.open(archive) as tar:
                member = tar.extractfile(_only(tar.getnames(), end, archive))
                assert member is not None  # a folder, whose path would end with /
                with member, atomic_write(output, "wb") as target:
                    shutil.copyfileobj(member, target)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(
            f"{archive}: damaged archive ({error}); remove it and run again"
        ) from error


def _only(names: list[str], end: str, archive: str) -> str:
    found = [name for name in names if name == end or name.endswith("/" + end)]
    if len(found) != 1:
        raise InputError(f"{archive}: {len(found)} members end with {end}; expected one")
    return found[0]


@as_script
def main(arguments: list[str]) -> None:
    """Extract; exit status 2 and one line for bad input."""
    if len(arguments) != 3:
        raise InputError("expected ARCHIVE END-OF-PATH OUTPUT")
    extract(*arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

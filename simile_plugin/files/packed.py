"""Packed files: .gz and .zst are unpacked by their names, all other packing is refused."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from simile_plugin.files.errors import InputError

CHUNK_BYTES = 1 << 20  # read at once
# First bytes of packed files, whatever they are called, and how to unpack them.
PACKED = (
    (
        b"PK\x03\x04",
        "a zip archive (or .xlsx, .docx)",
        "unpack it, or export text from its program",
    ),
    (b"\x1f\x8b", "packed by gzip", "gunzip it, or name it .gz"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", "unzstd it, or name it .zst"),
    (b"\xfd7zXZ", "packed by xz", "unxz it"),
    (b"BZh", "packed by bzip2", "bunzip2 it"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it"),
    (b"Rar!", "a rar archive", "unpack it"),
    (b"PAR1", "a table of Apache Parquet", "export its sentences as plain lines"),
    (b"%PDF", "a PDF", "extract its text"),
)
TAR, TAR_PLACE = b"ustar", 257  # where a tar archive says what it is
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def text_chunks(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the unpacked content of a text file in chunks, the first of which may be empty.

    Args:
        name: of the file, which says how it is packed.

    Raises:
        InputError: for a damaged file, or one that is packed in another way than its name says.
    """
    chunks = unpacked_chunks(stream, name, name)
    first = next(chunks, b"")
    refuse_packed(first, name, name)
    yield first
    yield from chunks


def unpacked_chunks(stream: IO[bytes], name: str, where: str) -> Iterator[bytes]:
    """Yield the content of a file in chunks, unpacked if its name ends in .gz or .zst.

    Args:
        stream: the file, opened; of .zst it needs a descriptor, which the program zstd reads from.
        where: flag and file, for the error.

    Raises:
        InputError: for a damaged file, or .zst without the program zstd.
    """
    if name.endswith(".gz"):
        return _gzip_chunks(stream, where)
    if name.endswith(".zst"):
        check_unpackable(name, where)
        return _zstd_chunks(stream, where)
    return _chunks(stream.read)


def check_unpackable(name: str, where: str) -> None:
    """Raise InputError for a .zst file where the program zstd is missing."""
    if name.endswith(".zst") and shutil.which("zstd") is None:
        raise InputError(
            f"{where}: is read by the program zstd, which is not here; install it, or give the "
            "file unpacked"
        )


def refuse_packed(data: bytes, name: str, where: str) -> None:
    """Raise InputError for a packed file, or the pointer that git-lfs leaves in its place."""
    if data.startswith(LFS_POINTER):
        raise InputError(
            f"{where}: is a pointer of git-lfs, not the file itself; get it: git lfs pull"
        )
    for begin, kind, advice in PACKED:
        if data.startswith(begin):
            again = " once more" if name.endswith((".gz", ".zst")) else ""
            raise InputError(f"{where}: is {kind}{again}, not text; {advice}")
    if data.startswith(TAR, TAR_PLACE):
        raise InputError(f"{where}: is a tar archive, not text; tar -xf it")


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(CHUNK_BYTES):
        yield chunk


def _gzip_chunks(stream: IO[bytes], where: str) -> Iterator[bytes]:
    try:
        with gzip.open(stream, "rb") as unpacked:
            yield from _chunks(unpacked.read)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{where}: damaged gzip file ({error}); copy it again") from error


def _zstd_chunks(stream: IO[bytes], where: str) -> Iterator[bytes]:
    command = ["zstd", "-dcq", "--long=31"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=stream, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            yield from _chunks(process.stdout.read)
            message = " ".join(process.stderr.read().decode(errors="replace").split())
            if process.wait() != 0:
                raise InputError(f"{where}: damaged zstd file ({message}); copy it again")
        finally:
            process.kill()

"""Writing files and folders that are never seen half written: a temporary one, then a rename."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from simile_plugin.files.errors import InputError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; rename it to `path` when the block ends well.

    mode: "w" (UTF-8, LF) or "wb". After an exception the old file is still there, untouched.
    A link is followed; a device or pipe (/dev/stdout) is written directly.
    Raises OSError when the folder is missing or not writable, or `path` is a folder.
    """
    text: dict[str, str] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    if is_special(path):
        with open(path, mode, **text) as stream:  # type: ignore[call-overload]
            yield stream
        return
    with _beside(path) as (target, temporary):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder, expected a file", str(path))
        with open(temporary, mode, **text) as stream:  # type: ignore[call-overload]
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():  # a file that is the owner's alone stays so
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str], marker: str) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; swap it in by two renames when the block ends well.

    Everything in an old folder goes, so it must be empty or hold the file `marker`: see
    `check_replaceable`. A writer killed between the renames leaves the old one under a hidden name:
    see `restore_folder`.
    Raises InputError for a folder that is not ours to replace, OSError when it cannot be written.
    """
    restore_folder(path)
    check_replaceable(path, marker)
    with _beside(path) as (target, temporary):
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with open(file, "rb") as stream:
                    os.fsync(stream.fileno())
        old = _set_aside(target)
        if target.is_dir():
            os.rename(target, old)
        try:
            os.rename(temporary, target)
        except OSError:
            restore_folder(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def restore_folder(path: str | os.PathLike[str]) -> None:
    """Put back the old folder where a kill came between the renames of `atomic_folder`."""
    target = Path(os.path.realpath(path))
    old = _set_aside(target)
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.is_dir():
        os.rename(old, target)


@contextlib.contextmanager
def locked_folder(path: str | os.PathLike[str]) -> Iterator[int]:
    """Keep other trainings out of `path`, a folder, until the block ends.

    Yields the lock's descriptor: a process that inherits it keeps them out, too.

    Raises InputError if another one is in.
    """
    lock = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"--output: another training is at work in {path}; wait for it, or name another "
                "folder"
            ) from error
        except OSError:  # a cluster's file system may have no locks
            pass
        yield lock
    finally:
        os.close(lock)


def check_replaceable(path: str | os.PathLike[str], marker: str) -> None:
    """Raise unless `atomic_folder` may write `path`: call it before long work.

    Raises InputError when `path` is a file, or a folder with other things than ours in it.
    """
    target = Path(path)
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{path}: is a file, expected a folder; name another folder")
    if any(target.iterdir()) and not (target / marker).is_file():
        raise InputError(
            f"{path}: the folder holds other files (no {marker} among them) and is not replaced; "
            "name a new or empty folder"
        )


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a pipe, terminal or device, which a rename would replace."""
    try:
        kind = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


@contextlib.contextmanager
def _beside(path: str | os.PathLike[str]) -> Iterator[tuple[Path, Path]]:
    """Yield the target (links followed) and a hidden name beside it, which is gone at the end.

    What killed writers of the same target left is removed. An error of a full or read-only disk
    names `path`, not the hidden name or nothing at all.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        process = left.name.removeprefix(f".{target.name}.").removesuffix(".tmp")
        if process.isdecimal() and not os.path.exists(f"/proc/{process}"):
            _remove(left)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    _remove(temporary)
    try:
        yield target, temporary
    except OSError as error:
        ours = str(error.filename or "").startswith(str(temporary))
        if not ours and (error.filename is not None or error.errno not in NO_ROOM):
            raise
        reason = f"cannot be written: {error.strerror}; what was there is unchanged"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        _remove(temporary)


def _set_aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.simile-old")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()

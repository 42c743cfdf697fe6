"""Writing files and folders that are never seen half written."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from simile_plugin.files.errors import InputError

AT_FDCWD = -100
RENAME_EXCHANGE = 2
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; rename it to `path` when the block ends well.

    mode: "w" (UTF-8, LF) or "wb". After an exception the old file is still there, untouched.
    A link is followed; a device or pipe (/dev/stdout) is written directly. What a killed writer of
    the same file left beside it is removed.
    Raises OSError when the folder is missing or not writable, or `path` is a folder.
    """
    text: dict[str, str] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    if _is_special(path):
        with open(path, mode, **text) as stream:  # type: ignore[call-overload]
            yield stream
        return
    target = _writable_target(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, expected a file", str(path))
    with _naming(path):
        _remove_stale(target)
        temporary, stream = _open_beside(target, mode.replace("w", "x"), text)
        try:
            with stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _fsync_folder(target.parent)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str], marker: str) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; swap it in whole when the block ends well.

    Readers see the old folder or the new one, never a mixture. Everything in the old one goes,
    so an old folder must be empty or hold the file `marker`: see `check_replaceable`. What a killed
    writer of the same folder left beside it is removed, or put back if it is the only one.
    Raises InputError for a folder that is not ours to replace, OSError when it cannot be written.
    """
    target = _writable_target(path)
    with _naming(path):
        _remove_stale(target)
        check_replaceable(path, marker)
        temporary, lock = _make_beside(target)
        try:
            yield temporary
            _fsync_tree(temporary)
            _swap(temporary, target)
        finally:
            # After a swap, what is left under the temporary name is the old folder.
            shutil.rmtree(temporary, ignore_errors=True)
            os.close(lock)
        _fsync_folder(target.parent)


@contextlib.contextmanager
def locked_folder(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other trainings out of `path`, a folder, until the block ends.

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
        except OSError:  # a file system without locks
            pass
        yield
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


def refuse_unasked_overwrite(
    path: str | os.PathLike[str], marker: str, what: str, asked: bool
) -> None:
    """Raise InputError for a folder that may be replaced, but only where --overwrite asks for it.

    what: a folder with the file `marker` holds, for the message. See `check_replaceable`.
    """
    check_replaceable(path, marker)
    if not asked and Path(path, marker).exists():
        raise InputError(f"--output: {path} holds {what}; name another folder or add --overwrite")


def refuse_overwriting_input(
    output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]], flag: str = "--output"
) -> None:
    """Raise unless writing `output` leaves `inputs` whole, whatever names they go by.

    A folder is replaced with all that is in it, and one that is read loses what is written over in
    it. flag: names the output. Raises InputError.
    """
    if _is_special(output):
        return
    target = os.path.realpath(output)
    for path in inputs:
        found = os.path.realpath(path)
        if str(path) != "-" and (found == target or Path(target) in Path(found).parents):
            inside = "" if found == target else f"would be replaced with all in it, {path} too: it "
            raise InputError(
                f"{flag}: {output} {inside}is an input of this command; name another place"
            )
        if os.path.isfile(target) and Path(found) in Path(target).parents:
            raise InputError(
                f"{flag}: {output} is in {path}, an input of this command; name another place"
            )


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a pipe, terminal or device, which a rename would wrongly replace."""
    try:
        kind = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def _writable_target(path: str | os.PathLike[str]) -> Path:
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    return target


def _beside(target: Path, ending: str = "tmp") -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.{ending}")


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of a full or read-only disk name `path`, not a hidden name or nothing at all."""
    try:
        yield
    except OSError as error:
        hidden = re.search(r"\.[0-9a-f]{8}\.(tmp|old)(/|$)", str(error.filename or ""))
        if not hidden and (error.filename is not None or error.errno not in NO_ROOM):
            raise
        reason = f"cannot be written: {error.strerror}; what was there is unchanged"
        raise OSError(error.errno, reason, str(path)) from error


def _open_beside(target: Path, mode: str, text: dict[str, str]) -> tuple[Path, IO[Any]]:
    """A new file with a name of its own beside `target`, locked as long as it is open."""
    while True:
        temporary = _beside(target)
        stream = open(temporary, mode, **text)  # type: ignore[call-overload]
        if _claim(stream.fileno(), temporary):
            return temporary, stream
        stream.close()


def _make_beside(target: Path) -> tuple[Path, int]:
    """A new folder with a name of its own beside `target`, and the descriptor that locks it."""
    while True:
        temporary = _beside(target)
        temporary.mkdir()
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(temporary, os.O_RDONLY)
            if _claim(lock, temporary):
                return temporary, lock
            os.close(lock)


def _claim(descriptor: int, path: Path) -> bool:
    """Lock what was just made; False if another writer took it for stale in between."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, where nothing is ever taken for stale
        return True
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def _remove_stale(target: Path) -> None:
    """Remove what killed writers of `target` left: a name of ours that no process has locked.

    An old folder that was set aside is put back if the kill came before its successor was there.
    """
    ours = re.compile(re.escape(f".{target.name}.") + r"\d+\.[0-9a-f]{8}\.(tmp|old)")
    for path in sorted(target.parent.iterdir()):
        if not ours.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):  # another's file, or gone by now
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.suffix == ".old" and path.is_dir() and not target.exists():
                    os.rename(path, target)
                elif path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            finally:
                os.close(lock)


def _swap(new: Path, target: Path) -> None:
    """Put folder `new` at `target`; an old folder ends under the name `new`, or nowhere if empty.

    The exchange is one step of the kernel where it can do that; elsewhere two renames, the first
    of which is taken back if the second fails.
    """
    if not target.is_dir() or not any(target.iterdir()):
        os.rename(new, target)
        return
    if _exchange(new, target):
        return
    old, lock = _beside(target, "old"), os.open(target, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)  # nobody puts it back in the meantime
        os.rename(target, old)
        try:
            os.rename(new, target)
        except OSError:
            os.rename(old, target)
            raise
        os.rename(old, new)
    finally:
        os.close(lock)


def _exchange(a: Path, b: Path) -> bool:
    """Exchange two names in one step by Linux's renameat2; False where that is not to be had."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(a), os.fsencode(b)
    return renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0


def _fsync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(root, name), "rb") as stream:
                os.fsync(stream.fileno())
        _fsync_folder(Path(root))


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

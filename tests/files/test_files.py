"""Reading lines and writing whole files and folders."""

import errno
import gzip
import io
import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.files import atomic as files
from simile_plugin.files.atomic import (
    atomic_folder,
    atomic_write,
    check_replaceable,
    locked_folder,
    refuse_overwriting_input,
)
from simile_plugin.files.errors import InputError
from simile_plugin.files.lines import read_lines, read_parallel


def leftovers(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".tmp"))


def test_write_replaces_the_file_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old\n")
    with atomic_write(path) as stream:
        stream.write("naïve\n")
        assert path.read_text() == "old\n"
    assert path.read_bytes() == "naïve\n".encode()
    assert leftovers(tmp_path) == []


def test_write_keeps_the_old_file_after_an_exception(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path, "wb") as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_write_gives_a_new_file_the_usual_permissions(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "out") as stream:
        stream.write("x")
    (tmp_path / "plain").write_text("x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "plain")]
    assert modes[0] == modes[1]


def test_write_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link") as stream:
        stream.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_write_passes_through_a_pipe(tmp_path: Path) -> None:
    code = """if True:
        from simile_plugin.files.atomic import atomic_write
        with atomic_write("/dev/stdout") as stream:
            stream.write("through")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "through"
    assert stat.S_ISLNK(os.lstat("/dev/stdout").st_mode), "the device was replaced by a file"


def test_write_says_which_folder_is_missing(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="no such folder: .*nowhere"),
        atomic_write(tmp_path / "nowhere" / "out"),
    ):
        pass
    with pytest.raises(IsADirectoryError, match="is a folder, expected a file"):
        with atomic_write(tmp_path):
            pass


@pytest.mark.parametrize("one_step", [True, False])
def test_folder_is_swapped_whole(
    tmp_path: Path, one_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not one_step:  # as on a file system that cannot exchange two names
        monkeypatch.setattr(files, "_exchange", lambda a, b: False)
    target = tmp_path / "encoder"
    for generation in ("first", "second"):
        with atomic_folder(target, "config.json") as folder:
            assert folder.parent == tmp_path
            (folder / "config.json").write_text(generation)
            (folder / "weights").mkdir()
            (folder / "weights" / generation).write_text("x")
    assert (target / "config.json").read_text() == "second"
    assert os.listdir(target / "weights") == ["second"]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("one_step", [True, False])
def test_folder_stays_after_an_exception(
    tmp_path: Path, one_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "encoder"
    target.mkdir()
    (target / "config.json").write_text("old")
    with pytest.raises(ValueError, match="stop"), atomic_folder(target, "config.json") as folder:
        (folder / "config.json").write_text("new")
        raise ValueError("stop")
    if not one_step:
        monkeypatch.setattr(files, "_exchange", lambda a, b: False)
    real, calls = os.rename, []

    def fail_second(old: Path, new: Path) -> None:
        calls.append(old)
        if len(calls) == 2:
            raise OSError("disk gone")
        real(old, new)

    if not one_step:
        monkeypatch.setattr(os, "rename", fail_second)
        with (
            pytest.raises(OSError, match="disk gone"),
            atomic_folder(target, "config.json") as folder,
        ):
            (folder / "config.json").write_text("new")
    assert (target / "config.json").read_text() == "old"
    assert leftovers(tmp_path) == []


def test_folder_of_other_things_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"home: the folder holds other files \(no config.json"):
        check_replaceable(tmp_path / "home", "config.json")
    with (
        pytest.raises(ValueError, match="holds other files"),
        atomic_folder(tmp_path / "home", "config.json"),
    ):
        pass
    with pytest.raises(ValueError, match="is a file, expected a folder"):
        check_replaceable(tmp_path / "home" / "thesis.tex", "config.json")
    assert os.listdir(tmp_path / "home") == ["thesis.tex"]


def test_folder_that_is_empty_is_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty", "config.json") as folder:
        (folder / "part").write_text("x")
    assert os.listdir(tmp_path / "empty") == ["part"]


def test_a_kill_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    code = f"""if True:
        import os, signal
        from simile_plugin.files.atomic import atomic_write
        with atomic_write({str(path)!r}) as stream:
            stream.write("half")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert path.read_text() == "old"


def test_lines_end_only_at_line_feeds(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    # U+2028, U+0085, form feed and a lone CR would end a line for str.splitlines.
    path.write_bytes("a\u2028b\u0085c\x0cd\re\r\n\nlast".encode())
    assert read_lines(path, "--ref") == ["a\u2028b\u0085c\x0cd\re", "", "last"]


def test_lines_of_small_files(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    for content, lines in [(b"", []), (b"\n", [""]), (b"\xef\xbb\xbfx\n", ["x"]), (b"x", ["x"])]:
        path.write_bytes(content)
        assert read_lines(path, "--ref") == lines


@given(st.lists(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]))))
def test_lines_come_back_as_they_were_written(lines: list[str]) -> None:
    # A mark at the very beginning is taken for the byte order mark.
    lines = ["first", *lines]
    stream = io.TextIOWrapper(io.BytesIO("".join(line + "\n" for line in lines).encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stream)
        assert read_lines("-", "-i") == lines


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="-i: <stdin>: standard input is closed; pipe the text"):
        read_lines("-", "-i")


def test_lines_of_gzip(tmp_path: Path) -> None:
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress("ä\nö\n".encode()))
    assert read_lines(path, "--ref") == ["ä", "ö"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"--ref: .*in.gz: damaged gzip file"):
        read_lines(path, "--ref")
    path.write_bytes(b"plain text")
    with pytest.raises(ValueError, match="damaged gzip file"):
        read_lines(path, "--ref")


@pytest.mark.parametrize(
    ("content", "line", "found", "encoding"),
    [
        (b"one\ntwo\nna\xefve\n", 3, "byte 0xef", "ISO-8859-1"),
        (b"one\n\x93na\xefve\x94\n", 2, "byte 0x93", "WINDOWS-1252"),
        ("a\nb".encode("utf-16"), 1, "byte 0xff", "UTF-16"),
        ("a\nb".encode("utf-16-le"), 1, "a zero byte", "UTF-16"),
    ],
)
def test_bad_encoding_is_located(
    tmp_path: Path, content: bytes, line: int, found: str, encoding: str
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(content)
    expected = rf"-i: .*in.txt:{line}: not UTF-8 text: {found}.*iconv -f {encoding} -t UTF-8"
    with pytest.raises(ValueError, match=expected):
        read_lines(path, "-i")


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (b"one\nsm\xc3\xb6rg\xc3\xa5s\nna\xefve\n", 3, "byte 0xef"),
        ("\u00f6\u00e4\u00fc\u00df \ud800".encode("utf-8", "surrogatepass"), 1, "byte 0xed"),
        (b"one\ntwo words\nthree\0 words\n", 3, "a zero byte"),
    ],
)
def test_no_conversion_is_advised_that_would_spoil_the_file(
    tmp_path: Path, content: bytes, line: int, found: str
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"-i: .*in.txt:{line}: not UTF-8 text: {found}; mend"):
        read_lines(path, "-i")


def test_missing_file_is_named_with_its_flag(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--ref: .*none.txt: cannot be read: No such file"):
        read_lines(tmp_path / "none.txt", "--ref")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        read_lines(tmp_path, "--ref")


def test_parallel_files_must_be_of_one_length(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("a\nb\n")
    (tmp_path / "hyp").write_text("A\nB\n")
    pair = [(tmp_path / "ref", "--ref"), (tmp_path / "hyp", "-i")]
    assert read_parallel(pair) == [["a", "b"], ["A", "B"]]
    (tmp_path / "hyp").write_text("A\n")
    with pytest.raises(
        ValueError, match=r"^--ref .*ref has 2 lines but -i .*hyp has 1; .*parallel"
    ):
        read_parallel(pair)


def test_only_one_file_can_be_standard_input() -> None:
    with pytest.raises(ValueError, match="^--ref and -i: only one of them can be -"):
        read_parallel([("-", "--ref"), ("-", "-i")])


def stale(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith((".tmp", ".old")))


def test_what_killed_writers_left_is_removed_by_the_next(tmp_path: Path) -> None:
    for name in (".out.123.00ff00ff.tmp", ".out.123.00ff00ff.tmp.txt"):
        (tmp_path / name).write_text("x")
    for name in ("enc", ".enc.9.deadbeef.old", ".enc.7.0123abcd.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / ".enc.7.0123abcd.tmp" / "weights").write_text("half")
    (tmp_path / ".other.1.00000000.tmp").write_text("of another target")
    with atomic_write(tmp_path / "out") as stream:
        stream.write("new")
    with atomic_folder(tmp_path / "enc", "config.json") as folder:
        (folder / "config.json").write_text("new")
    assert sorted(os.listdir(tmp_path)) == [
        *(".other.1.00000000.tmp", ".out.123.00ff00ff.tmp.txt", "enc", "out"),
    ]


def test_writers_at_work_are_left_alone(tmp_path: Path) -> None:
    with (
        atomic_write(tmp_path / "out") as slow,
        atomic_folder(tmp_path / "enc", "config.json") as slow_folder,
    ):
        (slow_folder / "config.json").write_text("slow")
        for _ in range(2):
            with atomic_write(tmp_path / "out") as fast:
                fast.write("fast")
            with atomic_folder(tmp_path / "enc", "config.json") as folder:
                (folder / "config.json").write_text("fast")
        assert len(stale(tmp_path)) == 2
        slow.write("slow")
    assert (tmp_path / "out").read_text() == "slow"  # whole, the last one to end
    assert (tmp_path / "enc" / "config.json").read_text() == "slow"
    assert stale(tmp_path) == []


def test_one_training_in_a_folder(tmp_path: Path) -> None:
    with locked_folder(tmp_path):
        with (
            pytest.raises(InputError, match="--output: another training is at work in"),
            locked_folder(tmp_path),
        ):
            pass
    with locked_folder(tmp_path):
        pass


def test_without_locks_nothing_is_taken_for_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr("fcntl.flock", no_locks)
    (tmp_path / ".out.123.00ff00ff.tmp").write_text("x")
    with atomic_write(tmp_path / "out") as stream:
        stream.write("new")
    assert sorted(os.listdir(tmp_path)) == [".out.123.00ff00ff.tmp", "out"]
    with locked_folder(tmp_path):  # which is no reason not to train
        pass


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path, what: str) -> None:
    """No file may have more than 1,000 bytes: the write fails as on a full disk."""
    target = tmp_path / "out"
    code = f"""if True:
        import resource, sys
        from pathlib import Path
        from simile_plugin.files.atomic import atomic_folder, atomic_write
        def write(size):
            if {what!r} == "file":
                with atomic_write({str(target)!r}) as stream:
                    stream.write("x" * size)
            else:
                with atomic_folder({str(target)!r}, "config.json") as folder:
                    (folder / "config.json").write_text("x" * size)
        write(10)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write(100_000)
        except OSError as error:
            print(error.filename, error.strerror, sep="|")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = "cannot be written: File too large; what was there is unchanged"
    assert done.stdout == f"{target}|{said}\n"
    kept = target if what == "file" else target / "config.json"
    assert kept.read_text() == "x" * 10
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_may_not_be_written_names_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    for writer in (atomic_write, partial(atomic_folder, marker="config.json")):
        with pytest.raises(OSError, match="cannot be written: Permission denied") as caught:
            with writer(tmp_path / "out"):
                pass
        assert caught.value.filename == str(tmp_path / "out")


def test_an_output_over_an_input_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("x")
    (tmp_path / "link").symlink_to(one)
    for output in (one, tmp_path / "link", tmp_path / "." / "one"):
        with pytest.raises(InputError, match=r"^--out: .* is an input of this command; name anot"):
            refuse_overwriting_input(output, [two, one], "--out")
    refuse_overwriting_input(two, [one, "-", tmp_path / "gone"], "--out")
    two.write_text("x")
    refuse_overwriting_input(two, [one], "--out")
    refuse_overwriting_input(os.devnull, [os.devnull], "--out")
    (tmp_path / "folder").mkdir()
    part = tmp_path / "folder" / "part"
    refuse_overwriting_input(part, [tmp_path / "folder"], "--out")  # a new file hurts nothing there
    part.write_text("x")
    with pytest.raises(InputError, match=r"^--out: .*part is in .*folder, an input of"):
        refuse_overwriting_input(part, [tmp_path / "folder"], "--out")

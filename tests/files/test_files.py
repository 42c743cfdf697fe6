"""Reading lines and writing whole files and folders."""

import gzip
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from simile_plugin.files import (
    InputError,
    atomic_folder,
    atomic_write,
    check_replaceable,
    read_lines,
    read_parallel,
    refuse_overwriting_input,
)


def test_a_file_is_replaced_only_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old\n")
    path = tmp_path / "link"
    path.symlink_to("real")
    with atomic_write(path) as stream:
        stream.write("naïve\n")
        assert path.read_text() == "old\n"
    with pytest.raises(KeyboardInterrupt), atomic_write(path, "wb") as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert path.is_symlink() and path.read_bytes() == "naïve\n".encode()
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]
    (tmp_path / "real").chmod(0o600)
    with atomic_write(path) as stream:
        stream.write("mine\n")
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600


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


def test_folder_is_swapped_whole(tmp_path: Path) -> None:
    target = tmp_path / "encoder"
    target.mkdir()  # an empty one is filled
    for generation in ("first", "second"):
        with atomic_folder(target, "config.json") as folder:
            assert folder.parent == tmp_path
            (folder / "config.json").write_text(generation)
            (folder / "weights").mkdir()
            (folder / "weights" / generation).write_text("x")
    with pytest.raises(ValueError, match="stop"), atomic_folder(target, "config.json") as folder:
        (folder / "config.json").write_text("third")
        raise ValueError("stop")
    assert (target / "config.json").read_text() == "second"
    assert os.listdir(target / "weights") == ["second"]
    assert os.listdir(tmp_path) == ["encoder"]


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


def test_lines_end_only_at_line_feeds(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    # U+2028, U+0085, form feed and a lone CR would end a line for str.splitlines.
    odd = "a\u2028b\u0085c\x0cd\re\r\n\nlast".encode()
    for content, lines in [
        (odd, ["a\u2028b\u0085c\x0cd\re", "", "last"]),
        *[(b"", []), (b"\n", [""]), (b"\xef\xbb\xbfx\n", ["x"]), (b"x", ["x"])],
    ]:
        path.write_bytes(content)
        assert read_lines(path, "--ref") == lines


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
    ("content", "line", "said"),
    [
        (b"one\ntwo\nna\xefve\n", 3, "byte 0xef; mend the line, or convert the file"),
        ("a\nb".encode("utf-16"), 1, "byte 0xff; convert the file: iconv -f UTF-16"),
        ("a\nb".encode("utf-16-le"), 1, "a zero byte; convert the file: iconv -f UTF-16"),
        (b"one\ntwo words\nthree\0 words\n", 3, "a zero byte; remove it"),
    ],
)
def test_bad_encoding_is_located(tmp_path: Path, content: bytes, line: int, said: str) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"-i: .*in.txt:{line}: not UTF-8 text: {said}"):
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


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0c", "\r"])
def test_a_mark_at_which_python_ends_lines_is_named(mark: str, tmp_path: Path) -> None:
    text = f"a\nb{mark}c\nd\n"
    (tmp_path / "ref").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "hyp").write_text("\n".join(text.splitlines()), encoding="utf-8")
    pair = [(tmp_path / "ref", "--ref"), (tmp_path / "hyp", "-i")]
    told = rf"has 3 lines but -i .*hyp has 4; .*ref:2 has U\+{ord(mark):04X}, at which Python's"
    with pytest.raises(ValueError, match=told):
        read_parallel(pair)


def test_only_one_file_can_be_standard_input() -> None:
    with pytest.raises(ValueError, match="^--ref and -i: only one of them can be -"):
        read_parallel([("-", "--ref"), ("-", "-i")])


def test_what_killed_writers_left_is_removed_by_the_next(tmp_path: Path) -> None:
    gone = 2**22 + 1  # above the largest number of a process
    for name in (f".enc.{gone}.tmp", ".enc.simile-old"):
        (tmp_path / name).mkdir()
    (tmp_path / ".enc.simile-old" / "config.json").write_text("old")
    for name in (f".out.{gone}.tmp", ".out.1.tmp", f".other.{gone}.tmp", ".out.note.tmp"):
        (tmp_path / name).write_text("of another writer, or of another's file")
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "enc", "config.json"):
        raise KeyboardInterrupt
    assert (tmp_path / "enc" / "config.json").read_text() == "old"
    with atomic_write(tmp_path / "out") as stream:
        stream.write("new")
    left = [".out.1.tmp", ".out.note.tmp", f".other.{gone}.tmp"]
    assert sorted(os.listdir(tmp_path)) == sorted(["enc", "out", *left])


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    """No file may have more than 1,000 bytes: the write fails as on a full disk."""
    code = """if True:
        import resource
        from simile_plugin.files.atomic import atomic_folder, atomic_write
        def write_file(size):
            with atomic_write("file") as stream:
                stream.write("x" * size)
        def write_folder(size):
            with atomic_folder("folder", "config.json") as folder:
                (folder / "config.json").write_text("x" * size)
        write_file(10)
        write_folder(10)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for write in (write_file, write_folder):
            try:
                write(100_000)
            except OSError as error:
                print(error.filename, error.strerror, sep="|")
    """
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    said = "cannot be written: File too large; what was there is unchanged"
    assert done.stdout.splitlines() == [f"file|{said}", f"folder|{said}"]
    assert (tmp_path / "file").read_text() == "x" * 10
    assert (tmp_path / "folder" / "config.json").read_text() == "x" * 10
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


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
    (tmp_path / "folder").mkdir()
    part = tmp_path / "folder" / "part"
    refuse_overwriting_input(part, [tmp_path / "folder"], "--out")  # a new file hurts nothing there
    part.write_text("x")
    with pytest.raises(InputError, match=r"^--out: .*part is in .*folder, an input of"):
        refuse_overwriting_input(part, [tmp_path / "folder"], "--out")

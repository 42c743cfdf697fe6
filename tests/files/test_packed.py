"""Packed files are unpacked by their names; what is no text is refused by what it is."""

import gzip
import shutil
import subprocess

import pytest

from simile_plugin.files import InputError, read_lines, read_rows

# Without a time, so that both processes of a run collect tests of one name.
ONCE = gzip.compress(b"text\n", mtime=0)
TWICE = gzip.compress(ONCE, mtime=0)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.txt", b"PK\x03\x04rest", "zip archive"),
        ("a.txt", ONCE, "packed by gzip, not text; gunzip it"),
        ("a.txt.gz", TWICE, "packed by gzip once more"),
        ("a.txt", b"\x28\xb5\x2f\xfdrest", "packed by zstd"),
        ("a.txt", b"\xfd7zXZ\x00rest", "packed by xz"),
        ("a.txt", b"BZh9rest", "packed by bzip2"),
        ("a.txt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        ("a.txt", "It’s 4 €.\n".encode("cp1252"), "likely WINDOWS-1252"),
        ("a.txt", "Größe\n".encode("latin-1"), "likely WINDOWS-1252"),
        ("a.txt", "Łódź leży w środku kraju\n".encode("cp1250"), "WINDOWS-1250 (Central Europe)"),
        ("a.txt", "Мама мыла раму\n".encode("cp1251"), "likely WINDOWS-1251 or KOI8-R"),
        ("a.txt", "Мама мыла раму\n".encode("koi8-r"), "likely WINDOWS-1251 or KOI8-R"),
        ("a.txt", "我喜欢读书。\n".encode("gb18030"), "GB18030"),
        ("a.txt", "今日は雨です。\n".encode("shift-jis"), "SHIFT_JIS"),
        ("a.txt", bytes(257) + b"ustar\x0000", "a tar archive"),
        ("a.txt", b"PAR1\x15\x04", "Apache Parquet"),
        ("a.txt", b"a\0b and more text\n", "a zero byte; remove it"),
        ("a.txt", "text\n".encode("utf-16"), "iconv -f UTF-16"),
    ],
)
def test_the_error_says_what_the_file_is(tmp_path, name, data, told):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        read_lines(str(path), "--ref")
    assert told in str(error.value)
    assert str(error.value).startswith(f"--ref: {path}")


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is missing")
def test_text_and_tables_are_read_from_zstd(tmp_path):
    path = tmp_path / "in.zst"
    packed = subprocess.run(
        ["zstd", "-qc"], input="ein Satz\t1\nnoch éiner\t2\n".encode(), stdout=-1
    )
    path.write_bytes(packed.stdout)
    assert read_lines(path, "--ref") == ["ein Satz\t1", "noch éiner\t2"]
    assert [row.number(1) for row in read_rows(path, "--judgements")] == [1, 2]
    path.write_bytes(packed.stdout[:-3])
    with pytest.raises(
        InputError, match=r"^--ref: .*in.zst: damaged zstd file \(.*; copy it again"
    ):
        read_lines(path, "--ref")


def test_zstd_without_the_program_is_told(tmp_path, monkeypatch):
    (tmp_path / "in.zst").write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="--ref: .*in.zst: is read by the program zstd, which is"):
        read_lines(tmp_path / "in.zst", "--ref")

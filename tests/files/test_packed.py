"""Files that are no text are refused by what they are."""

import gzip

import pytest

from simile_plugin.files import InputError, read_lines

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
        ("a.txt", "It’s 4 €.\n".encode("cp1252"), "iconv -f WINDOWS-1252"),
        ("a.txt", "Größe\n".encode("latin-1"), "iconv -f ISO-8859-1"),
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

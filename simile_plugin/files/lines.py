"""Reading text line by line."""

from __future__ import annotations

import codecs
import html
import os
import re
import string
import sys
from collections.abc import Iterable, Sequence

from simile_plugin.files.errors import InputError
from simile_plugin.files.packed import refuse_packed, unpacked_chunks

# Characters that a byte of UTF-8 becomes where it is read as ISO-8859-1 or as windows-1252.
BYTE_OF = {chr(byte): byte for byte in range(0x80, 0x100)}
BYTE_OF |= {bytes([byte]).decode("cp1252", "ignore"): byte for byte in range(0x80, 0xA0)}
BYTE_OF.pop("", None)  # five bytes that windows-1252 leaves undefined
# The first byte of a Latin letter, of a quote or dash, or of two Cyrillic letters, and the bytes
# after it.
LATER = f"[{''.join(character for character, byte in BYTE_OF.items() if byte < 0xC0)}]"
MOJIBAKE = re.compile(f"[\u00c2-\u00c5]{LATER}|\u00e2{LATER}{LATER}|(?:[\u00d0\u00d1]{LATER}){{2}}")
OTHER_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"
ESCAPE = re.compile(r"& ?(?:# ?[0-9]{1,7}|# ?[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30}) ?;")


def read_lines(path: str | os.PathLike[str], what: str) -> list[str]:
    """Read UTF-8 text as lines: a plain file, a .gz, a .zst, or "-" for standard input.

    Only LF ends a line, so that parallel files stay parallel whatever else they hold; a CR before
    it and a byte order mark at the beginning are dropped. what: the flag, for the error.
    Raises InputError of one line, naming the flag and file:line, for anything unreadable.
    """
    return split_lines(read_bytes(path, what), path, what)


def split_lines(data: bytes, path: str | os.PathLike[str], what: str) -> list[str]:
    """Split the bytes of a file into lines; raises as `read_lines` does."""
    _check_text(data, _name(path), what)
    lines = data.decode("utf-8-sig").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def find_escape(text: str) -> str:
    """Return the first HTML escape of a text: &#39; or &amp;, or & # 39 ; of tokenisers; or ""."""
    for found in ESCAPE.finditer(text) if "&" in text else ():
        whole = found[0].replace(" ", "")
        if html.unescape(whole) != whole:
            return found[0]
    return ""


def find_mojibake(text: str) -> tuple[str, str]:
    """Return the first letters that are UTF-8 read in another encoding, and what they stand for.

    (Ã©, é) for instance; two empty strings where there are none.
    """
    for match in () if text.isascii() else MOJIBAKE.finditer(text):
        try:
            return match[0], bytes(BYTE_OF[character] for character in match[0]).decode()
        except UnicodeDecodeError:
            continue
    return "", ""


def find_surrogate(text: str) -> int:
    """Return the place of half of a UTF-16 pair, which no UTF-8 text can hold, or -1."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return -1


def read_parallel(files: Sequence[tuple[str | os.PathLike[str], str]]) -> list[list[str]]:
    """Read (path, flag) pairs as line-parallel files: lists of one length, in the order given.

    Raises InputError naming both flags, files and line counts when two of them differ.
    """
    check_standard_input(files)
    contents = [read_lines(path, flag) for path, flag in files]
    for (path, flag), lines in zip(files, contents, strict=True):
        if len(lines) != len(contents[0]):
            first_path, first_flag = files[0]
            raise InputError(
                f"{first_flag} {first_path} has {len(contents[0])} lines but "
                f"{flag} {path} has {len(lines)}; they must be parallel, one sentence a line"
                f"{_split_elsewhere(first_path, contents[0]) or _split_elsewhere(path, lines)}"
            )
    return contents


def _split_elsewhere(path: str | os.PathLike[str], lines: Sequence[str]) -> str:
    """Return what may have cut lines of another file: marks at which str.splitlines ends a line."""
    for number, line in enumerate(lines, 1):
        if marks := [character for character in line if character in OTHER_ENDS]:
            return (
                f" ({path}:{number} has U+{ord(marks[0]):04X}, at which Python's splitlines ends a "
                "line, too: read by open(FILE, newline='\\n'))"
            )
    return ""


def check_standard_input(files: Iterable[tuple[str | os.PathLike[str] | None, str]]) -> None:
    """Raise InputError if two of (path, flag) are "-": standard input can be read once."""
    flags = [flag for path, flag in files if str(path) == "-"]
    if len(flags) > 1:
        raise InputError(f"{' and '.join(flags)}: only one of them can be - (standard input)")


def refuse_twice(paths: Iterable[str | os.PathLike[str]], flag: str) -> None:
    """Raise InputError if two paths are one file or folder, whatever names they go by."""
    seen = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise InputError(f"{flag}: {path} is given twice; it would count twice")
        seen.add(real)


def _name(path: str | os.PathLike[str]) -> str:
    return "<stdin>" if str(path) == "-" else str(path)


def read_bytes(path: str | os.PathLike[str], what: str) -> bytes:
    """Read a plain file, a .gz or .zst unpacked, or "-" for standard input.

    Raises as `read_lines`.
    """
    name = _name(path)
    if str(path) == "-" and sys.stdin is None:
        raise InputError(
            f"{what}: {name}: standard input is closed; pipe the text in, or name a file"
        )
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as stream:
            return b"".join(unpacked_chunks(stream, name, f"{what}: {name}"))
    except OSError as error:
        raise InputError(f"{what}: {name}: cannot be read: {error.strerror}") from error


OF_LATIN_LETTERS = (
    "WINDOWS-1252 (Western Europe), WINDOWS-1250 (Central Europe) or WINDOWS-1254 (Turkish)"
)
OF_OTHER_LETTERS = (
    "WINDOWS-1251 or KOI8-R (Cyrillic), WINDOWS-1253 (Greek), GB18030 or BIG5 (Chinese), SHIFT_JIS "
    "or EUC-JP (Japanese), EUC-KR (Korean)"
)


def _check_text(data: bytes, name: str, what: str) -> None:
    """Raise InputError with file:line for bytes that are not UTF-8 text."""
    refuse_packed(data, name, f"{what}: {name}")
    try:
        data.decode("utf-8")
        bad, problem = data.find(b"\0"), "a zero byte"
        advice = "remove it (tr -d '\\000'), or write the file anew"
        if data.count(b"\0") > len(data) / 8:  # English in UTF-16 has one in two
            advice = "convert the file: iconv -f UTF-16 -t UTF-8"
    except UnicodeDecodeError as error:
        bad, problem = error.start, f"byte 0x{data[error.start]:02x}"
        advice = _encoding_advice(data)
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            advice = "convert the file: iconv -f UTF-16 -t UTF-8"
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        raise InputError(f"{what}: {name}:{line}: not UTF-8 text: {problem}; {advice}")


def _encoding_advice(data: bytes) -> str:
    """Return how to convert bytes that are not UTF-8.

    Bytes do not say their encoding, but whether a language of Latin letters wrote them.
    """
    high = len(data.translate(None, bytes(range(0x80))))
    latin = len(data.translate(None, bytes(set(range(256)) - set(string.ascii_letters.encode()))))
    likely = OF_LATIN_LETTERS if high < latin else OF_OTHER_LETTERS
    return (
        "mend the line, or convert the file by iconv -f ENCODING -t UTF-8 and look at the letters; "
        f"ENCODING is likely {likely}"
    )

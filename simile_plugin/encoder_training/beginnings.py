"""Files of pairs that come twice: the first lines of each are looked for in what follows."""

from __future__ import annotations

LINES = 20  # that are looked for, half of them different
AGAIN = "warning: the first {0} lines of {1} come again from line {2} on: {3}"
JOINED = "was the file joined or written twice?"
GIVEN = "is a file given twice, or are its pairs in two?"


class Beginnings:
    """Looks for the first lines of files in the rest of them and in later files.

    It holds these lines and as many bytes of what was read last.
    """

    def __init__(self) -> None:
        self._files: dict[bytes, str] = {}  # their first lines, and their names
        self._last = b""

    def look(self, name: str, first_line: int, data: bytes) -> list[str]:
        """Return what to say of the next lines of a file.

        Args:
            first_line: the number of the first of these lines, from 1.
        """
        new = b""
        if first_line == 1:
            self._last = b""
            beginning = _beginning(data)
            if beginning and beginning not in self._files:
                self._files[beginning] = name
                new = beginning
        text = self._last + data
        told, line = [], first_line - self._last.count(b"\n")
        for beginning, file in self._files.items():
            place = text.find(beginning, len(new) if beginning == new else 0)
            if place >= 0:
                number = line + text.count(b"\n", 0, place)
                why = JOINED if file == name and number > 1 else GIVEN
                told.append(AGAIN.format(LINES, file, number, why))
        # What the longest needs but for a byte, so that nothing is seen twice.
        self._last = text[len(text) + 1 - max(map(len, self._files), default=1) :]
        return told


def _beginning(data: bytes) -> bytes:
    """Return the first LINES lines, or nothing if there are fewer or most are the same."""
    lines = data.split(b"\n", LINES)[:LINES]
    enough = data.count(b"\n") >= LINES and 2 * len(set(lines)) > LINES
    return b"".join(line + b"\n" for line in lines) if enough else b""

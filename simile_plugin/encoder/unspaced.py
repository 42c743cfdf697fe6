"""Words of text in any script: split at white space, and at each letter in Chinese and its like.

Without that, a sentence of a script without spaces would be a single word, and repetition, omission
and overlap could not be measured. A letter has its vowel signs and tones with it.
"""

from __future__ import annotations

import re

JOINERS = "\u200c\u200d"  # of no width, which Persian and Indic words have inside
_LETTERS = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf"  # Lao
    "\u1000-\u102a\u103f\u1780-\u17b3"  # Burmese, Khmer
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3005-\u3007\u3021-\u3029\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"
)
_SIGNS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3"
    "\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef"
)
_LETTER = re.compile(f"[{_LETTERS}][{_SIGNS}]*")
_PART = re.compile(rf"{_LETTER.pattern}|\s+|[^\s{_LETTERS}]+")


def split_words(text: str) -> list[str]:
    """Split text at white space, and at each letter of a script that is written without spaces."""
    return (text if text.isascii() else _LETTER.sub(r" \g<0> ", text)).split()


def split_parts(text: str) -> tuple[list[str], str]:
    """Return the parts of a text that can be changed, and the string that joins them again.

    Words and a space; in a script without spaces letters and "", where white space is a part, too.
    """
    if text.isascii() or not _LETTER.search(text):
        return text.split(), " "
    return _PART.findall(text.strip()), ""

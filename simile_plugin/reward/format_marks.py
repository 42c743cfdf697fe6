"""Marks of tokenizers and file formats that stand in text: language codes, tags, JSON, lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

# A mark has one of these, which sentences of news, captions, parliament or subtitles do not begin
# or end with line after line. No @ and #: posts do; no quotes, dashes, bullets and round brackets.
SIGNS = r"<>{}|_=\\^~"
# Square brackets are in text, too: only those of a tag, as [SEP] or [en], or of a list's quotes.
BEGIN = re.compile(rf"\S{{0,40}}[{SIGNS}]|\[[A-Za-z]{{2,6}}\](?=\s)|\[[\"']")
END = re.compile(rf"[{SIGNS}][^\s{SIGNS}]{{0,40}}[{SIGNS}]*$|@@$|@-@$|\[[A-Z]{{2,6}}\]$|[\"']\]$")
# Marks that are no text wherever they stand: pieces of bytes, special tokens, columns of Moses.
ANYWHERE = re.compile(r"<0x[0-9A-F]{2}>|<+(?:s|/s|pad|unk|bos|eos|mask)>+|\[(?:PAD|UNK)\]| \|\|\| ")
DIGITS = re.compile(r"\d+")
SHARE = 100  # a mark stands in at least one of so many lines


def format_mark(lines: Sequence[str]) -> str:
    """Return the mark that most lines have of a tokenizer or format, or "".

    It stands in a hundredth of the lines and in two at least, at their beginning or end, or is a
    special token or piece of a byte anywhere. Marks are equal where only their digits differ.
    """
    counts, examples = Counter[str](), dict[str, str]()
    for line in lines:
        marks = {DIGITS.sub("0", mark): mark for mark in _marks_of(line.strip())}
        counts.update(marks.keys())
        for key, mark in marks.items():
            examples.setdefault(key, mark)
    if not counts:
        return ""
    mark = max(counts, key=lambda mark: (counts[mark], len(mark), mark))
    return examples[mark] if counts[mark] >= 2 and SHARE * counts[mark] >= len(lines) else ""


def _marks_of(line: str) -> Iterator[str]:
    for pattern in (BEGIN, END):
        match = pattern.match(line) if pattern is BEGIN else pattern.search(line)
        if match and match[0] != line:  # a line of its own, such as [music], is text
            yield match[0]
    if match := ANYWHERE.search(line):
        yield match[0].strip()

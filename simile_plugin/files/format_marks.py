"""Marks of tokenizers and file formats that stand in text: language codes, tags, JSON, lists."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

# A mark has one of these, which sentences of news, captions, parliament or subtitles do not begin
# or end with line after line. No @ and #: posts do; no quotes, dashes, bullets and round brackets.
SIGNS = r"<>{}|_=\\^~"
# Square brackets are in text, too: only those of a tag, as [SEP] or [en], or of a list's quotes.
BEGIN = re.compile(rf"\S{{0,40}}[{SIGNS}]|\[[A-Za-z]{{2,6}}\](?=\s)|\[[\"']")
END = re.compile(rf"[{SIGNS}][^\s{SIGNS}]{{0,40}}[{SIGNS}]*$|@@$|@-@$|\[[A-Z]{{2,6}}\]$|[\"']\]$")
# Marks that are no text wherever they stand: pieces of bytes, special tokens, columns of Moses.
# Of WordPiece, of OpenNMT, and of byte-level BPE, whose sign for a space is a letter of Maltese.
# Tags of HTML, escapes of Python, JSON and mail, but not commands of TeX.
ANYWHERE = re.compile(
    r"<0x[0-9A-F]{2}>|<+(?:s|/s|pad|unk|bos|eos|mask)>+|\[(?:PAD|UNK)\]| \|\|\| "
    r"| ##(?=\w)|(?<=[a-z.,])\u0120(?=\w)|\u0120(?=\S+ \u0120\S+ \u0120)|[\uffe8\uffed]"
    r"|</?[a-z]{1,6} ?/?>|\\(?:[nrt](?![a-z])|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|(?<=[.!?])\\[nrt]"
    r"|\\[\"']|(?:\\[23][0-7]{2}){2}|=[C-F][0-9A-F]=[89AB][0-9A-F]"
)
SIGNS_ANYWHERE = "<[|#=\\\u0120\uffe8\uffed"  # most sentences have none, which is soon seen
# The | that Hindi, Odia and others write for a danda, the period of Indic scripts.
DANDA = re.compile(r"(?<=[\u0900-\u0dff])(?:\|{1,2}(?=\s|$)|\s\|{1,2}$)")
BYTES = re.compile(r"b(['\"])(?=.*\1$)")  # what Python prints of bytes: b'...'
# What may stand before or after every sentence of a file: a label, a number, a score.
LABEL = re.compile(r"(?:\w+ ){0,4}[\w-]+: |\S*\d\S* ")
NUMBER = re.compile(r" \S*\d\S*$")
SAMPLE = 1000
MOST, FEWEST = 2, 5  # it stands in one of MOST lines and in FEWEST at least
# Signs with which some sentences begin, but not nearly all of a file; NEARLY_ALL is the share.
RARE_SIGNS, NEARLY_ALL = frozenset("()[]{}<>#*`_|\\/=~^$%&@:;+"), 0.9
# What may differ between marks of a kind: digits, and the code of a character or byte.
CODES = re.compile(r"(?<=\\[ux])[0-9a-fA-F]+|(?<=[<=])(?:0x)?[0-9A-F]{2}(?=[>=])|\d+")
SHARE = 100  # a mark stands in at least one of so many lines


def format_mark(lines: Sequence[str]) -> str:
    """Return the mark that most lines have of a tokenizer or format, or "".

    It stands in a hundredth of the lines and in two at least, at their beginning or end, or is a
    special token or piece of a byte anywhere; a label or number, as before and after ordinary
    sentences, in half of the lines; a sign such as # or ( in front of nearly all. Marks are equal
    where only their digits or the codes of escapes differ.
    """
    sample = lines[:: max(1, len(lines) // SAMPLE)]  # enough to find what half of the lines have
    if mark := _most_frequent(lines, _marks_of, SHARE, 2):
        return mark
    if mark := _most_frequent(sample, _labels_of, MOST, FEWEST):
        return mark
    beginning = common_beginning(lines).strip()
    return beginning if RARE_SIGNS & set(beginning) else ""


def common_beginning(lines: Sequence[str]) -> str:
    """Return the words or signs with which nearly all lines begin, or "" (also of few lines).

    Of two sorted lines, all between them share what these two begin with.
    """
    begins = sorted(line.strip()[:60] for line in lines[:: max(1, len(lines) // SAMPLE)])
    distance = math.ceil(NEARLY_ALL * len(begins)) - 1
    if distance < FEWEST:
        return ""
    pairs = zip(begins, begins[distance:], strict=False)
    longest = max((_shared(*pair) for pair in pairs), key=len)
    return re.sub(r"\w+$", "", longest)  # of a word that may go on


def _shared(first: str, last: str) -> str:
    """Return the letters with which both begin."""
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((n for n, (a, b) in pairs if a != b), min(len(first), len(last)))]


def _most_frequent(
    lines: Sequence[str],
    marks_of: Callable[[str], Iterator[str]],
    share: int,
    fewest: int,
) -> str:
    """Return the mark that most lines have, if that is one line of ``share``, and ``fewest``."""
    counts, examples = Counter[str](), dict[str, str]()
    for line in lines:
        marks = {CODES.sub("0", mark): mark for mark in marks_of(line.strip())}
        counts.update(marks.keys())
        for key, mark in marks.items():
            examples.setdefault(key, mark)
    if not counts:
        return ""
    mark = max(counts, key=lambda mark: (counts[mark], len(examples[mark]), mark))
    return examples[mark] if counts[mark] >= fewest and share * counts[mark] >= len(lines) else ""


def _marks_of(line: str) -> Iterator[str]:
    if "|" in line:
        line = DANDA.sub("", line)
    for pattern in (BEGIN, END):
        match = pattern.match(line) if pattern is BEGIN else pattern.search(line)
        if match and match[0] != line:  # a line of its own, such as [music], is text
            yield match[0]
    if any(sign in line for sign in SIGNS_ANYWHERE) and (match := ANYWHERE.search(line)):
        yield match[0].strip()
    if match := BYTES.match(line):
        yield match[0]


def _labels_of(line: str) -> Iterator[str]:
    if match := LABEL.match(line):
        yield match[0].strip()
    if match := NUMBER.search(line):
        yield match[0].strip()

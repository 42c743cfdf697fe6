"""Warnings of whole files: copies, headers, empty or cut lines, text that was not translated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

# Names of columns, of which a line of text has no line made.
HEADER = re.compile(
    r"(?:id|index|src|source|tgt|trg|target|refs?|references?|hyps?|hypothes[ie]s|mt|translation|"
    r"sent|sentence ?|text|s|input|output|prediction|score|label|[a-z]{2}|[a-z]{3}_[a-z]{4})[12]?"
)
FINAL = re.compile(r"""[.!?…。！？।۔؟:;"'”’»)\]]\s*$""")
WORD = re.compile(r"\w+")
# Different lines of a part that comes again, and their share of all lines. Of 244 files of text, 17
# lines of one (0.2%) come again, of others 8 lines or 0.8%.
LEAST_AGAIN, SHARE_AGAIN = 10, 0.05
LONG, FEW = 4, 3  # words of a line that is no accident; lines, below which nothing is said
TWICE = "{0} has its first {1} lines again from line {2} on: was it written or joined twice?"
AGAIN = "lines {1} to {2} of {0} are lines {3} to {4} again: were they written or joined twice?"
EVERY_LINE = "{0} has every line twice in a row ({1!r} first): was it written twice?"
HEADED = (
    "{0} begins with the names of columns ({1!r}), which is taken for a sentence: remove line 1"
)
SAME_LINE = (
    "{1} of {2} lines of {0} are {3!r} (line {4} first): is it the output of a broken model, or a "
    "file of something else?"
)
EMPTY = (
    "{1} of {2} lines of {0} are empty where the references are not (line {3} first), and score 0: "
    "were sentences left out, or lines lost?"
)
EMPTY_REFS = (
    "{1} of {2} references of {0} are empty (line {3} first), and what is held against them scores "
    "0: were lines lost? Leave these sentences out of all files"
)
RETURNS = (
    "{0} has carriage returns (CR) within line {1} ({2!r}), which end no line here: write lines "
    "that end in LF (tr '\\r' '\\n')"
)
CUT = (
    "{1} of {2} lines of {0} are shorter than their references and end without a mark, unlike "
    "these (line {3}: {4!r}): are outputs cut at a longest length (max_new_tokens of transformers, "
    "--max-len-b of fairseq)?"
)
NOT_ALIKE = (
    "{1} of {2} lines of {0} have no word of their references (line {3}: {4!r}): are they in "
    "another language, or of another test set?"
)
UNTRANSLATED = (
    "{1} of {2} lines of {0} are those of {5} (line {3}: {4!r}): were they translated, and are the "
    "files the right ones?"
)


def file_warning(name: str, lines: Sequence[str]) -> str:
    """Return what to say of a file that holds itself or a part twice, or has a header, or ""."""
    if period := repeats_after(lines):
        return TWICE.format(name, period, period + 1)
    if len(lines) > FEW and lines[::2] == lines[1::2] and not len(set(lines)) < len(lines) / 4:
        return EVERY_LINE.format(name, lines[0][:40])
    start, end, earlier = longest_repeat(lines)
    if len(set(lines[start:end])) >= max(LEAST_AGAIN, SHARE_AGAIN * len(lines)):
        before = earlier + 1, earlier + end - start
        return AGAIN.format(name, start + 1, end, *before)
    returns = [n for n, line in enumerate(lines, 1) if "\r" in line.strip()]
    if 100 * len(returns) > len(lines):
        return RETURNS.format(name, returns[0], lines[returns[0] - 1][:40])
    if is_header(lines):
        return HEADED.format(name, lines[0][:40])
    line, count = _most_frequent(lines)
    if count > max(FEW, len(lines) / 5):
        place = lines.index(line) + 1
        return SAME_LINE.format(name, count, len(lines), line[:40], place)
    return ""


def repeats_after(lines: Sequence[str]) -> int:
    """Return the number of lines after which a file begins anew and goes on so, or 0.

    The lines must be different: a song or a list of one line is no copy.
    """
    for period in range(2, len(lines) // 2 + 1):
        if lines[period] == lines[0] and len(lines) % period == 0:
            if list(lines[period:]) == list(lines[:-period]) and len(set(lines)) > period / 2:
                return period
    return 0


def longest_repeat(lines: Sequence[str]) -> tuple[int, int, int]:
    """Return the start and end of the lines that follow each other earlier, too, and that start.

    Of several such parts it is the one with most different lines. Places are from 0; an end is
    behind the last line.
    """
    places: dict[str, int] = {}
    best, most = (0, 0, 0), 0
    start = distance = 0
    kinds: set[str] = set()
    for place, line in enumerate(lines):
        if not distance or line != lines[place - distance]:
            start, distance, kinds = place, place - places.get(line, place), set()
        kinds.add(line)
        places[line] = place
        if distance and len(kinds) > most:
            best, most = (start, place + 1, start - distance), len(kinds)
    return best


def is_header(lines: Sequence[str]) -> bool:
    """Return whether line 1 alone consists of names of columns, in a file of sentences."""
    if len(lines) < 2 or not _is_names(lines[0]):
        return False
    return 4 * sum(len(line.split()) < FEW or _is_names(line) for line in lines[1:]) < len(lines)


def _is_names(line: str) -> bool:
    cells = [cell.strip().strip("\"'").lower() for cell in re.split(r"[\t,;|]+", line)]
    return all(HEADER.fullmatch(cell) for cell in cells)


def _most_frequent(lines: Sequence[str]) -> tuple[str, int]:
    """Return the line of LONG words and more that comes most often, and how often."""
    counts = Counter(line for line in lines if len(line.split()) >= LONG)
    return max(counts.items(), key=lambda pair: pair[1], default=("", 0))


def against_references(name: str, lines: Sequence[str], refs: Sequence[str]) -> str:
    """Return what to say of outputs that are empty, alike, cut or of another text, or "".

    Of 40 systems of WMT 2021, whole and by hundreds of lines, none is said to be one of these.
    """
    number = len(lines)
    enough = max(FEW, number / 100)
    pairs = [(n, line, ref) for n, (line, ref) in _numbered(lines, refs)]
    empty = [n for n, line, ref in pairs if ref.strip() and not line.strip()]
    if len(empty) >= enough:
        return EMPTY.format(name, len(empty), number, empty[0])
    line, count = _most_frequent(lines)
    if count > max(2 * FEW, number / 20) and 2 * sum(ref == line for ref in refs) < count:
        return SAME_LINE.format(name, count, number, line[:40], lines.index(line) + 1)
    cut = [(n, line) for n, line, ref in pairs if _is_cut(line, ref)]
    whole = [line for _, line, ref in pairs if FINAL.search(ref) and 10 * len(line) >= 9 * len(ref)]
    without = sum(FINAL.search(line) is None for line in whole)  # then marks are lost everywhere
    if len(cut) >= max(FEW + 1, number / 20) and 2 * without <= len(whole):
        return CUT.format(name, len(cut), number, cut[0][0], cut[0][1][-40:])
    return ""


def empty_references(name: str, refs: Sequence[str]) -> str:
    """Return what to say of references a hundredth of which, and FEW, are empty, or ""."""
    empty = [number for number, ref in enumerate(refs, 1) if not ref.strip()]
    if len(empty) < max(FEW, len(refs) / 100):
        return ""
    return EMPTY_REFS.format(name, len(empty), len(refs), empty[0])


def words_in_common(name: str, lines: Sequence[str], refs: Sequence[str]) -> str:
    """Return what to say of a tenth of the longer lines without a word of their references, or "".

    Of systems from English into Yoruba, whose accents differ, 4% of the lines have none; of sources
    and of shuffled lines 19% and more. It is for scripts with spaces.
    """
    words = [(n, _words(line), _words(ref)) for n, (line, ref) in _numbered(lines, refs)]
    long = [row for row in words if min(map(len, row[1:])) > LONG]
    apart = [n for n, line, ref in long if not line & ref]
    if len(apart) < FEW or 10 * len(apart) < len(long):
        return ""
    return NOT_ALIKE.format(name, len(apart), len(lines), apart[0], lines[apart[0] - 1][:40])


def _numbered(lines: Sequence[str], others: Sequence[str]) -> Iterator[tuple[int, tuple[str, str]]]:
    return enumerate(zip(lines, others, strict=True), 1)


def _words(line: str) -> frozenset[str]:
    return frozenset(WORD.findall(line.lower()))


def _is_cut(line: str, ref: str) -> bool:
    """Return whether a line of some length ends without a mark, a tenth before its reference."""
    return (
        FINAL.search(ref) is not None
        and FINAL.search(line) is None
        and bool(line.strip())
        and 10 * len(line) < 9 * len(ref)
        and len(ref.split()) > 2 * LONG
    )


def untranslated_warning(
    name: str, lines: Sequence[str], srcs: Sequence[str], of: str = "the sources"
) -> str:
    """Return what to say of lines that are their sources, in a twentieth of the longer ones."""
    long = [pair for pair in _numbered(lines, srcs) if len(pair[1][0].split()) >= LONG]
    same = [(n, line) for n, (line, src) in long if line.strip() == src.strip()]
    if len(same) < FEW or 20 * len(same) < len(long):
        return ""
    return UNTRANSLATED.format(name, len(same), len(lines), same[0][0], same[0][1][:40], of)

"""Warnings of what plain sentences do not have: pieces, marks, escapes, letters that were lost."""

from __future__ import annotations

import re
from collections.abc import Sequence

from simile_plugin.files.columns import is_quoted
from simile_plugin.files.format_marks import format_mark
from simile_plugin.files.lines import find_escape, find_mojibake

MARKS = ("\u2581", "@@ ", " @-@ ")  # what sentencepiece, subword-nmt and Moses leave in text
# Thai to Burmese, Khmer, kana and Han: without spaces, a ? stands between letters.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
LOST_LETTER = re.compile(rf"[^\W\d_{UNSPACED}](\?+)[^\W\d_{UNSPACED}]")  # between two others
OTHER_LETTERS = "\u0370-\u03ff\u0400-\u04ff"
MIXED = re.compile(
    rf"[A-Za-z]{{2}}[{OTHER_LETTERS}]|[{OTHER_LETTERS}]{{2}}[A-Za-z]|"
    rf"[A-Za-z][{OTHER_LETTERS}][A-Za-z]"
)
LETTERS = re.compile(r"\w*")
TOKENISED = (
    "{0} is tokenised or segmented text (it has {1!r}), but plain text is scored and trained on: "
    "undo it in all files (fairseq-generate --remove-bpe, or --remove-bpe sentencepiece; "
    "sacremoses -l en detokenize)"
)
ESCAPED = (
    "{0} has HTML escapes ({1!r}), but plain text is scored and trained on: unescape all files "
    "(python3 -c 'import html, sys; sys.stdout.writelines(map(html.unescape, sys.stdin))'; "
    "sacremoses -l en detokenize does it to what Moses tokenised)"
)
MISREAD = (
    "{0} was read in another encoding than its own ({1!r} stands for {2!r}), so that its words are "
    "others than the references': write all files anew as UTF-8 from what they were made of"
)
LOST = (
    "{0} has {1} in the place of letters that a program could not read or write ({2!r}): write "
    "it anew, as UTF-8, from what it was made of"
)
TWO_SCRIPTS = (
    "{0} has words of Latin and Cyrillic or Greek letters ({1!r}) that look alike and are others: "
    "write each word in one script"
)
COLUMNS = (
    "{0} has several columns, which are scored as text ({1!r}): give the sentences alone (cut -f "
    "takes a column; of fairseq-generate's H- and D- lines the third)"
)
QUOTED = (
    "{0} has lines in quotes, as pandas and spreadsheets write them, and the quotes are scored as "
    "text: write plain lines"
)
MARKED = (
    "{0} has lines with {1!r}, a mark of a tokenizer or file format ({2!r}), which is taken for "
    "text: write plain sentences to all files (Hugging Face: batch_decode(..., "
    "skip_special_tokens=True))"
)


def mark_warning(name: str, lines: Sequence[str]) -> str:
    """Return what to say of what a hundredth of the lines has and plain text has not, or "".

    That is columns, quotes, pieces, marks of formats, escapes, and letters that were misread, lost
    or are of two scripts. A space before a period is none of it.
    """
    columns = [line for line in lines if "\t" in line.strip()]
    if 100 * len(columns) > len(lines):
        return COLUMNS.format(name, columns[0][:40])
    if is_quoted("\n".join(lines)):
        return QUOTED.format(name)
    for mark in MARKS:
        if 100 * sum(mark in line for line in lines) > len(lines):
            return TOKENISED.format(name, mark.strip())
    if mark := format_mark(lines):
        example = next(line for line in lines if mark in line)
        return MARKED.format(name, mark, example[:40])
    escapes = list(filter(None, map(find_escape, lines)))
    if 100 * len(escapes) > len(lines):
        return ESCAPED.format(name, escapes[0])
    misread = list(filter(any, map(find_mojibake, lines)))
    if 100 * len(misread) > len(lines):
        return MISREAD.format(name, *misread[0])
    lost = list(filter(None, map(_lost_letter, lines)))
    if 100 * len(lost) > len(lines):
        return LOST.format(name, *lost[0])
    mixed = list(filter(None, map(_mixed_word, lines)))
    if 20 * len(mixed) > len(lines):
        return TWO_SCRIPTS.format(name, mixed[0])
    return ""


def _mixed_word(line: str) -> str:
    """Return the first word of a line that mixes scripts, or "", in time linear in the line."""
    found = MIXED.search(line)
    if found is None:
        return ""
    backwards = LETTERS.match(line[: found.start()][::-1])
    onwards = LETTERS.match(line, found.end())
    assert backwards is not None and onwards is not None  # both match nothing, too
    return backwards[0][::-1] + found[0] + onwards[0]


def _lost_letter(line: str) -> tuple[str, str] | None:
    """Return the sign that stands for a letter that was lost, and its line."""
    if "\ufffd" in line:
        return "U+FFFD", line[:40]
    lost = LOST_LETTER.search(line) if "?" in line and "//" not in line else None
    return (lost[1], line[:40]) if lost else None

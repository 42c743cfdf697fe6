"""Text that is written in other characters than its references, which read the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from unicodedata import category, decimal, normalize

FEWEST, SHARE = 3, 100  # lines that show it: so many at least, and one of so many
# Of the lines that have such a character, one of so many may have it on both sides.
ON_BOTH_SIDES = 10
# Letters and marks that look like another and that no normal form of Unicode joins: Romanian with
# cedillas for commas, Arabic for Persian letters, hyphens and the minus sign, the danda for a bar.
LOOKS_LIKE = str.maketrans("şţŞŢيك\u2010\u2011\u2212\u0964", "șțȘȚیک---|")
ORDINALS = "ªº"  # a and o by NFKC, which every line has
OTHERWISE = (
    "in {0} of {1} lines (line {2} first) there is {3!r} in {4} for {5!r} in {6}, which BLEU and "
    "chrF take for others: write the same to all files{7}"
)
NFKC = " (Unicode NFKC, which tokenizers of sentencepiece apply to what they read)"
ONE_SIDED = (
    "{0!r} is in {1} of {2} lines of {3} (line {4} first) and in next to none of {5}, so that BLEU "
    "and chrF take the same words for others: were such letters lost (by a tokenizer that strips "
    "accents, or a program that writes ASCII), or is a file in another spelling?"
)
JOINERS = "\u200c\u200d"  # of Persian words, and of Indic letters
# Lines with a letter: so many at least, one of OFTEN, and OTHERS times those of the other side.
ENOUGH, OFTEN, OTHERS = 10, 5, 50


def written_otherwise(name: str, lines: Sequence[str], refs: Sequence[str]) -> str:
    """Return what to say where one side has other digits, ligatures, widths or look-alikes, or "".

    A line shows it if it has such a character and its reference the usual one in its place, or
    the reverse. Of 114 outputs and second references of WMT and others, two lines of 500 show it
    at most.
    """
    sides = [(lines, refs, name, "the references"), (refs, lines, "the references", name)]
    for here, there, name_here, name_there in sides:
        shown, both, examples = [], 0, Counter[str]()
        for number, (line, other) in enumerate(zip(here, there, strict=True), 1):
            unusual = [] if line.isascii() else list(filter(_usual, set(line)))
            both += any(c in other for c in unusual)
            found = [c for c in unusual if c not in other and _usual(c) in other]
            examples.update(found)
            shown += [number] if found else []
        if len(shown) >= max(FEWEST, len(lines) / SHARE) and ON_BOTH_SIDES * both <= len(shown):
            example = max(examples, key=lambda c: (examples[c], c))
            usual = _usual(example)
            advice = NFKC if normalize("NFKC", example) == usual else ""
            counts = len(shown), len(lines), shown[0]
            return OTHERWISE.format(*counts, example, name_here, usual, name_there, advice)
    return ""


def letters_of_one_side(name: str, lines: Sequence[str], refs: Sequence[str]) -> str:
    """Return what to say of a letter with an accent, or a joiner, that only one side has, or "".

    A fifth of the lines of that side have it. Of 114 outputs and second references of WMT and
    others, those into Igbo have tone marks that their references lack, in 16% of the lines.
    """
    ours, theirs = (Counter(c for line in side for c in _special(line)) for side in (lines, refs))
    sides = [
        (lines, ours, theirs, name, "the references"),
        (refs, theirs, ours, "the references", name),
    ]
    for here, own, others, name_here, name_there in sides:
        often = [c for c, count in own.items() if count >= max(ENOUGH, len(here) / OFTEN)]
        if lost := [c for c in often if OTHERS * others[c] <= own[c]]:
            letter = max(lost, key=lambda c: (own[c], c))
            first = next(n for n, line in enumerate(here, 1) if letter in line)
            return ONE_SIDED.format(letter, own[letter], len(here), name_here, first, name_there)
    return ""


@cache
def _usual(character: str) -> str:
    """Return the usual characters that one stands for, "" if it is usual or a space."""
    if character.isascii() or character.isspace() or character in ORDINALS:
        return ""
    if character.isdecimal():
        return str(decimal(character))
    usual = normalize("NFKC", character).translate(LOOKS_LIKE)
    return "" if usual == normalize("NFC", character) else usual


def _special(line: str) -> set[str]:
    """Return the joiners of a line, its letters with accents, and Latin ones beyond a to z."""
    return set() if line.isascii() else set(filter(_is_special, line))


@cache
def _is_special(character: str) -> bool:
    if character in JOINERS:
        return True
    if "\u00df" <= character.lower() < "\u02b0":
        return character.isalpha()
    return not character.isascii() and "Mn" in map(category, normalize("NFD", character))

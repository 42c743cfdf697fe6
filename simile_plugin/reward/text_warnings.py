"""Warnings of doubtful text: of files, and once of the first batch of a training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from unicodedata import is_normalized

from simile_plugin.encoder import (
    Preprocessing,
    RewardEncoder,
    split_parts,
    split_words,
)
from simile_plugin.files import (
    FINAL,
    TOKENISED,
    against_references,
    common_beginning,
    file_warning,
    mark_warning,
    untranslated_warning,
    words_in_common,
)
from simile_plugin.reward.bleu import bleu_tokenizer
from simile_plugin.reward.language_warnings import (
    UNKNOWN_LIMIT,
    language_warning,
    source_warning,
)
from simile_plugin.reward.lists import ListScores
from simile_plugin.reward.writing import letters_of_one_side, written_otherwise

# sacreBLEU's tokenisers that look for spaces, and the letters of a word in scripts without them, on
# average, above which what stands between two spaces is no word (Chinese words have 1.5 to 2).
BY_SPACES, LETTERS_OF_A_WORD = {"13a", "intl", "none"}, 3
SAMPLE = 1000  # sentences that are looked at, about
# A period as sacreBLEU looks for it.
PERIOD, COMMA, ENOUGH_LINES = " .", " , ", 100
UNSEEN = (
    "{0} has characters that nobody sees ({1}), which BLEU and chrF count as all others: remove "
    "them from all files"
)
JOINED = (
    "{0} has next to no spaces, unlike the references, so that BLEU finds no word of theirs: was "
    "its segmentation undone twice?"
)
CURLED = (
    "of {0} and the references only one has curly quotes (\u2019 \u201c \u201d) and the other "
    "straight ones, which BLEU and chrF take for other words: write the same quotes to all files"
)
ACCENTS = (
    "of {0} and the references only one has accents as characters of their own (Unicode NFD), so "
    "that BLEU and chrF take the same words for others: normalise all files to NFC"
)
# Tibetan and Indic text has some such letters on both sides: one side has so many times as many.
ONE_SIDED = 10
CASES = (
    "of {0} and the references one is {1} and the other is not, so that BLEU and chrF take the "
    "same words for others: write all files as they are read (sacremoses truecase), or all in "
    "lower case, and say so"
)
BEGINNINGS = (
    "of {0} and the references only one has lines that nearly all begin with {1!r}: if it is no "
    "text but a prompt, label or list, remove it"
)
ENDS = (
    "of {0} and the references only one has lines that end in marks (. ! ?), which BLEU and chrF "
    "count as words and characters: write the same to all files"
)
APART = (
    "line {1} of {0} ({2!r}) is like line {3} of the references ({4!r}), not like line {1}, and so "
    "are {5} of {6} lines looked at: are the files sorted or shuffled, or is a line missing?"
)
SPACED = re.compile(r" [.,?!](?= |$)")
# Lines looked at for those of another reference, the words of such a line, and the share of words
# (Dice) that it has in common; there are several such lines, a fifth of all.
LOOKED_AT, LEAST_WORDS, ALIKE, FEWEST_APART = 50, 5, 0.6, 3
MANY_LINES = 50  # of fewer, nearly all may begin alike by chance
QUOTES = CURLY, STRAIGHT = "\u2018\u2019\u201c\u201d", "'\""
FIRST_TEXT = "the text of the first references"
FIRST_HYPS = "the first candidates of the model"
GIVE_A_TOKENISER = "char, or zh for Chinese, ja-mecab for Japanese"


class FirstLook:
    """Tells once, of the first batches, what makes their text doubtful.

    Args:
        tokenize: sacreBLEU tokeniser of the BLEU statistics.
        tell: is called with each doubt.
        encoder: the reward encoder, whose language the references should have.
    """

    def __init__(
        self,
        tokenize: str,
        tell: Callable[[str], object],
        encoder: RewardEncoder | None = None,
    ) -> None:
        self.tokenize, self.tell, self.encoder = tokenize, tell, encoder
        self.refs: list[str] = []
        self.hyps: list[str] = []
        self.told: list[str] = []
        self.looked = self.ended = False

    def __call__(self, hyps: Sequence[Sequence[str]], scores: ListScores) -> None:
        """Look at the lists of a batch, each with the reference in front, and at their scores."""
        if self.ended:
            return
        if not self.looked:
            self.looked = True
            self._tell(doubts([row[0] for row in hyps], scores, self.tokenize))
        self.refs += [row[0] for row in hyps if row[0]]
        self.hyps += [row[1] for row in hyps if row[0]]
        if len(self.refs) >= ENOUGH_LINES:  # a batch has too few to know
            self.ended = True
            if not any(doubt.startswith(FIRST_TEXT) for doubt in self.told):
                text = tokenised_warning(FIRST_TEXT, self.refs)
                self._tell([text or tokenised_warning(FIRST_HYPS, self.hyps, self.refs)])
            if not any("does not know" in doubt for doubt in self.told):
                self._tell([language_warning(FIRST_TEXT, self.encoder, self.refs)])

    def _tell(self, found: Iterable[str]) -> None:
        for doubt in filter(None, found):
            self.told.append(doubt)
            self.tell(doubt)


def doubts(refs: Sequence[str], scores: ListScores, tokenize: str) -> Iterator[str]:
    """Say which text of a batch --simile-encoder or BLEU's words are not made for."""
    if text := tokenised_warning(FIRST_TEXT, refs):
        yield text
    if text := source_warning(scores.source):
        yield text
    if scores.unknown_share > UNKNOWN_LIMIT:
        yield (
            f"--simile-encoder: it does not know {scores.unknown_share:.0%} of the tokens of the "
            f"first references ({refs[0][:40]!r}), which count as nothing in SIM; "
            "is it an encoder of this language and script?"
        )
    if is_unspaced(refs, tokenize):
        yield (
            f"--risk-bleu-tokenize {tokenize}: the references have next to no spaces "
            f"({refs[0][:40]!r}), so that BLEU, length_ratio and --risk-length-control take whole "
            f"sentences for words; give {GIVE_A_TOKENISER}"
        )
    words = [word for ref in refs if len(ref.split()) > 1 for word in ref.split()]
    unspaced = [parts for parts in map(split_parts, words) if not parts[1]]
    letters = sum(len(parts) for parts, _ in unspaced)
    if 2 * len(unspaced) > len(words) and letters <= LETTERS_OF_A_WORD * len(unspaced):
        yield (
            f"the references have spaces in a script that is written without ({refs[0][:40]!r}), "
            "and so has all text that is scored; SIM and SIMILE need an encoder trained on such "
            "text, or plain text: with fairseq, --risk-post-process sentencepiece joins pieces, "
            "--risk-detok moses words of Chinese and Japanese"
        )


def warnings_of_text(
    name: str, lines: Sequence[str], refs: Sequence[str] = (), srcs: Sequence[str] = ()
) -> list[str]:
    """Return what to say of a whole file of sentences: of its lines first, then of their form.

    refs, srcs: of the same lines, or none; references themselves have none.
    """
    if refs is lines or len(refs) != len(lines):
        refs = ()
    apart = content = _apart(name, lines, refs) if refs else ""
    if refs and not content and not is_unspaced(refs, "none"):
        content = words_in_common(name, lines, refs)
    if refs and not content:
        content = against_references(name, lines, refs)
    if not content and len(srcs) == len(lines):
        content = untranslated_warning(name, lines, srcs)
    form = _form_warning(name, lines, refs) or ("" if apart else _spaced_warning(name, lines))
    return [text for text in (file_warning(name, lines), content, form) if text]


def tokenised_warning(name: str, lines: Sequence[str], refs: Sequence[str] = ()) -> str:
    """Return what to say of a file that is tokenised, segmented, escaped or no plain text, or "".

    It is in a hundredth of the lines, or, for a period with a space before it, in half of many.
    Text without spaces is told by its references, which are of the same lines, or none.
    """
    if refs is lines or len(refs) != len(lines):
        refs = ()
    return (
        _form_warning(name, lines, refs)
        or (_apart(name, lines, refs) if refs else "")
        or _spaced_warning(name, lines)
    )


def _form_warning(name: str, lines: Sequence[str], refs: Sequence[str]) -> str:
    """Return what to say of marks that are no text, or of a form other than that of refs, or ""."""
    if text := mark_warning(name, lines):
        return text
    unseen = list(filter(None, map(Preprocessing.find_invisible, lines)))
    if 100 * len(unseen) > len(lines):
        return UNSEEN.format(name, f"U+{ord(unseen[0][0]):04X}")
    return _unlike_references(name, lines, refs) if refs else ""


def _spaced_warning(name: str, lines: Sequence[str]) -> str:
    spaced = sum(line.endswith(PERIOD) or COMMA in line for line in lines)
    return TOKENISED.format(name, PERIOD) if 2 * spaced > len(lines) >= ENOUGH_LINES else ""


def _unlike_references(name: str, lines: Sequence[str], refs: Sequence[str]) -> str:
    """Return what to say of lines that are written in another way than their references, or ""."""
    if not is_unspaced(refs, "none") and _per_word(lines) > 2 * _per_word(refs) > 0:
        return JOINED.format(name)
    few, many = sorted(_share(side, _is_decomposed) for side in (lines, refs))
    if many > 0.01 and ONE_SIDED * few <= many:
        return ACCENTS.format(name)
    cases = {_case(lines), _case(refs)}
    if len(cases) == 2 and "" not in cases:
        return CASES.format(name, min(cases))  # "all in ..." comes before "as it is read"
    if text := written_otherwise(name, lines, refs) or letters_of_one_side(name, lines, refs):
        return text
    for some, others in ((lines, refs), (refs, lines)):
        beginning = common_beginning(some) if len(some) >= MANY_LINES else ""
        if beginning and 2 * sum(line.startswith(beginning) for line in others) < len(others):
            return BEGINNINGS.format(name, beginning)
    if _differ(lines, refs, lambda line: FINAL.search(line) is not None):
        return ENDS.format(name)
    if _share(lines, SPACED.search) > 0.5 > 10 * _share(refs, SPACED.search):
        return TOKENISED.format(name, " ?")
    if {_quotes(lines), _quotes(refs)} == {CURLY, STRAIGHT}:
        return CURLED.format(name)
    return ""


def _share(lines: Sequence[str], has: Callable[[str], object]) -> float:
    return sum(bool(has(line)) for line in lines) / max(1, len(lines))


def _differ(lines: Sequence[str], refs: Sequence[str], has: Callable[[str], bool]) -> bool:
    """Return whether half of one side has something that a hundredth of the other has not."""
    few, many = sorted((_share(lines, has), _share(refs, has)))
    return many > 0.5 and few < 0.01


def _case(lines: Sequence[str]) -> str:
    """Return the case of nearly all lines, "" where it is mixed or the script has none."""
    upper = _share(lines, lambda line: line != line.lower())
    lower = _share(lines, lambda line: line != line.upper())
    if lower > 0.9 and upper < 0.01:
        return "all in lower case"
    if upper > 0.9 and lower < 0.01:
        return "all in upper case"
    return "as it is read" if min(upper, lower) > 0.5 else ""


def _apart(name: str, lines: Sequence[str], refs: Sequence[str]) -> str:
    """Return what to say where many lines have the words of another line's reference, or ""."""
    words_of = [frozenset(ref.split()) for ref in refs]
    places = [place for place, line in enumerate(lines) if len(set(line.split())) >= LEAST_WORDS]
    places = places[:: max(1, len(places) // LOOKED_AT)]
    found = []
    for place in places:
        words = frozenset(lines[place].split())
        alike = [2 * len(words & ref) / (len(words) + len(ref)) for ref in words_of]
        best = max(range(len(refs)), key=alike.__getitem__)
        if alike[best] >= ALIKE and 3 * alike[place] < alike[best]:
            found.append((place, best))
    if len(found) < FEWEST_APART or 5 * len(found) < len(places):
        return ""
    place, best = found[0]
    texts = lines[place][:40], best + 1, refs[best][:40]
    return APART.format(name, place + 1, *texts, len(found), len(places))


def _quotes(lines: Sequence[str]) -> str:
    """Return which quotes and apostrophes a hundredth of the lines has: CURLY, STRAIGHT or ""."""
    counts = {kind: sum(any(c in line for c in kind) for line in lines) for kind in QUOTES}
    kinds = [kind for kind, count in counts.items() if 100 * count > len(lines)]
    return kinds[0] if len(kinds) == 1 and sum(counts.values()) == counts[kinds[0]] else ""


def _is_decomposed(line: str) -> bool:
    return not is_normalized("NFC", line)


def _per_word(lines: Sequence[str]) -> float:
    """Return the mean length of what stands between spaces."""
    return sum(map(len, lines)) / max(1, sum(len(line.split()) for line in lines))


def is_unspaced(refs: Sequence[str], tokenize: str) -> bool:
    """Return whether a tokeniser would take whole sentences for words.

    Those that look for spaces do so with every script that is written without, zh (which knows Han
    characters) with Thai, Lao, Khmer and Burmese.
    """
    refs = refs[:: max(1, len(refs) // SAMPLE)]
    if tokenize in BY_SPACES:
        counts = [(len(ref.split()), len(split_words(ref))) for ref in refs]
    elif tokenize == "zh":
        words_of = bleu_tokenizer(tokenize)
        counts = [(len(words_of(ref).split()), len(split_words(ref))) for ref in refs]
    else:
        return False
    words, letters = map(sum, zip(*counts, strict=True)) if counts else (0, 0)
    # A batch may have the shortest sentences of all: they have few letters, but no space either.
    whole = sum(own == 1 < found for own, found in counts)
    return letters > LETTERS_OF_A_WORD * words or 2 * whole > len(refs)

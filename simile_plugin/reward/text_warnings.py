"""Warnings of doubtful text: of files, and once of the first batch of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from unicodedata import is_normalized

from simile_plugin.encoder import (
    SPACE_MARK,
    Preprocessing,
    RewardEncoder,
    split_parts,
    split_words,
)
from simile_plugin.files import find_escape, find_mojibake, is_quoted
from simile_plugin.reward.bleu import bleu_tokenizer
from simile_plugin.reward.format_marks import format_mark
from simile_plugin.reward.language_warnings import language_warning, source_warning
from simile_plugin.reward.lists import ListScores

UNKNOWN_LIMIT = 0.05  # share of tokens that an encoder may well not know
# sacreBLEU's tokenisers that look for spaces, and the letters of a word in scripts without them, on
# average, above which what stands between two spaces is no word (Chinese words have 1.5 to 2).
BY_SPACES, LETTERS_OF_A_WORD = {"13a", "intl", "none"}, 3
SAMPLE = 1000  # sentences that are looked at, about
# What sentencepiece, subword-nmt and Moses leave in text; a period as sacreBLEU looks for it.
MARKS, PERIOD, COMMA, ENOUGH_LINES = (SPACE_MARK, "@@ ", " @-@ "), " .", " , ", 100
TOKENISED = (
    "{0} is tokenised or segmented text (it has {1!r}), but BLEU, chrF and SIM are of plain text: "
    "undo it in all files (fairseq-generate --remove-bpe, or --remove-bpe sentencepiece; "
    "sacremoses -l en detokenize)"
)
ESCAPED = (
    "{0} has HTML escapes ({1!r}), but BLEU, chrF and SIM are of plain text: unescape all files "
    "(python3 -c 'import html, sys; sys.stdout.writelines(map(html.unescape, sys.stdin))'; "
    "sacremoses -l en detokenize does it to what Moses tokenised)"
)
UNSEEN = (
    "{0} has characters that nobody sees ({1}), which BLEU and chrF count as all others: remove "
    "them from all files"
)
MISREAD = (
    "{0} was read in another encoding than its own ({1!r} stands for {2!r}), so that its words are "
    "others than the references': write all files anew as UTF-8 from what they were made of"
)
LOST = (
    "{0} has U+FFFD in the place of letters that a program could not read: write it anew, as "
    "UTF-8, from what it was made of"
)
JOINED = (
    "{0} has next to no spaces, unlike the references, so that BLEU finds no word of theirs: was "
    "its segmentation undone twice?"
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
    "{0} has lines with {1!r}, a mark of a tokenizer or file format ({2!r}), which BLEU, chrF and "
    "SIM take for text: write plain sentences to all files (Hugging Face: batch_decode(..., "
    "skip_special_tokens=True))"
)
CURLED = (
    "of {0} and the references only one has curly quotes (\u2019 \u201c \u201d) and the other "
    "straight ones, which BLEU and chrF take for other words: write the same quotes to all files"
)
ACCENTS = (
    "of {0} and the references only one has accents as characters of their own (Unicode NFD), so "
    "that BLEU and chrF take the same words for others: normalise all files to NFC"
)
QUOTES = CURLY, STRAIGHT = "\u2018\u2019\u201c\u201d", "'\""
FIRST_TEXT = "the text of the first references"
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
        if len(self.refs) >= ENOUGH_LINES:  # a batch has too few to know
            self.ended = True
            if not any(doubt.startswith(FIRST_TEXT) for doubt in self.told):
                self._tell([tokenised_warning(FIRST_TEXT, self.refs)])
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
            f"first lists and their references ({refs[0][:40]!r}), which count as nothing in SIM; "
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


def tokenised_warning(name: str, lines: Sequence[str], refs: Sequence[str] = ()) -> str:
    """Return what to say of a file that is tokenised, segmented, escaped or no plain text, or "".

    It is in a hundredth of the lines, or, for a period with a space before it, in half of many.
    Text without spaces is told by its references.
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
    if 100 * sum("\ufffd" in line for line in lines) > len(lines):
        return LOST.format(name)
    unseen = list(filter(None, map(Preprocessing.find_invisible, lines)))
    if 100 * len(unseen) > len(lines):
        return UNSEEN.format(name, f"U+{ord(unseen[0][0]):04X}")
    if refs and not is_unspaced(refs, "none") and _per_word(lines) > 2 * _per_word(refs):
        return JOINED.format(name)
    if refs and _decomposed(lines) != _decomposed(refs):
        return ACCENTS.format(name)
    if refs and {_quotes(lines), _quotes(refs)} == {CURLY, STRAIGHT}:
        return CURLED.format(name)
    spaced = sum(line.endswith(PERIOD) or COMMA in line for line in lines)
    if 2 * spaced > len(lines) >= ENOUGH_LINES:
        return TOKENISED.format(name, PERIOD)
    return ""


def _quotes(lines: Sequence[str]) -> str:
    """Return which quotes and apostrophes a hundredth of the lines has: CURLY, STRAIGHT or ""."""
    counts = {kind: sum(any(c in line for c in kind) for line in lines) for kind in QUOTES}
    kinds = [kind for kind, count in counts.items() if 100 * count > len(lines)]
    return kinds[0] if len(kinds) == 1 and sum(counts.values()) == counts[kinds[0]] else ""


def _decomposed(lines: Sequence[str]) -> bool:
    return 100 * sum(not is_normalized("NFC", line) for line in lines) > len(lines)


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

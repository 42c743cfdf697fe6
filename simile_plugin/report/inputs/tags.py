"""Parts of speech of tokens by TextBlob's tagger of English."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from simile_plugin.report.inputs.texts import Sentences

# Least share of known words: English texts have 0.75 and more, French has 0.2, German 0.1.
ENGLISH = 0.5
# Penn tags by how they begin, as universal tags; auxiliaries are verbs here.
UNIVERSAL = {
    **{"IN": "ADP", "TO": "PART", "CC": "CCONJ", "CD": "NUM", "EX": "PRON", "UH": "INTJ"},
    **{"DT": "DET", "PDT": "DET", "WDT": "PRON", "WRB": "ADV", "WP": "PRON", "PRP": "PRON"},
    **{"JJ": "ADJ", "RB": "ADV", "NNP": "PROPN", "NN": "NOUN", "MD": "VERB", "VB": "VERB"},
    **{"RP": "ADP", "POS": "PART", "SYM": "SYM"},
}
SYMBOLS = frozenset("$%€£+=<>&#@^|~°§")


def english_tags(texts: Sequence[Sentences]) -> tuple[list[list[list[str]]] | None, str]:
    """Tag texts by TextBlob, unless the first is not English; say in words which tags they are."""
    from textblob.en import parser

    words = {token for tokens in texts[0] for token in tokens if any(map(str.isalpha, token))}
    # Names are in the lexicon as they are written.
    known = sum(word in parser.lexicon or word.lower() in parser.lexicon for word in words)
    if known < ENGLISH * len(words):
        return None, (
            "no parts of speech: the tagger is for English, and knows "
            f"{known / len(words):.0%} of the references' words"
        )
    tags = [
        [
            [
                universal(word, tag)
                for word, (_, tag) in zip(line, parser.find_tags(line), strict=True)
            ]
            for line in map(list, text)
        ]
        for text in texts
    ]
    return tags, f"parts of speech: TextBlob {version('textblob')}'s (English)"


def universal(word: str, penn: str) -> str:
    """Return the coarse part of speech of a word by its Penn tag: NOUN of NNS, X of an unknown.

    A word without letter or digit is SYM or PUNCT, whatever its tag.
    """
    if not any(map(str.isalnum, word)):
        return "SYM" if SYMBOLS.intersection(word) else "PUNCT"
    tag = penn.partition("-")[0].rstrip("$")
    return next((UNIVERSAL[tag[:n]] for n in (3, 2) if tag[:n] in UNIVERSAL), "X")

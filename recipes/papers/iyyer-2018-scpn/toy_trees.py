"""Penn brackets of the quickstart's English, whose grammar knows its parse.

Labels are the Penn Treebank's with its functions: the subject of a passive is NP-SBJ-1 (of a verb
whose object has moved), times are PP-TMP, places PP-LOC; both hang from the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recipes.quickstart import toy

AUXILIARY = {"did": "VBD", "was": "VBD", "were": "VBD", "is": "VBZ", "are": "VBP", "will": "MD"}
AUXILIARY |= {"not": "RB", "going": "VBG", "to": "TO", "be": "VB", "being": "VBG"}
TAGS = {"the": "DT", "who": "WP", "that": "WDT", "monday": "NNP", "friday": "NNP", "sunday": "NNP"}


def _any(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted({*words}, key=lambda word: (-len(word), word)))})"


def _forms(table: dict[str, toy.Word], form: int = 0) -> set[str]:
    return {forms[form].lower() for word in table.values() for forms in word.forms}


VERBS = {tag: _forms(toy.VERB, i) for i, tag in enumerate(("VB", "VBD", "VBN", "VBG"))}
PLURALS, TIMES = _forms(toy.NOUN, 1), _forms(toy.TIME)
ADJECTIVE, PHRASE = _any(_forms(toy.ATTRIBUTE)), _any(TIMES | _forms(toy.PLACE))
NAME = _any(_forms(toy.NOUN) | PLURALS)
NOUN = rf"the (?:{ADJECTIVE} {NAME}|{NAME}(?: (?:who|that) (?:is|are) {ADJECTIVE})?)"
SENTENCE = re.compile(
    rf"(?:({PHRASE}),? )?({NOUN}) ((?:{_any(AUXILIARY)} )*)({_any(set().union(*VERBS.values()))})"
    rf" (by )?({NOUN})((?: {PHRASE})*)\.?"
)


def tree(sentence: str) -> str | None:
    """The brackets of a sentence; None if it has no parse."""
    found = SENTENCE.fullmatch(sentence.lower())
    if not found:
        return None
    front, subject, auxiliaries, main, by, other, rest = found.groups()
    words = auxiliaries.split()
    tag = "VBN" if by else "VB" if words else "VBD"
    if not by and words and words[0] in ("is", "are") and words[-1] != "to":
        tag = "VBG"
    if main not in VERBS[tag]:
        return None
    inner = f"(PP (IN by) {_noun('NP-LGS', other)})" if by else _noun("NP", other)
    parts = [_phrase(front), "(, ,)"] if front else []
    parts += [
        _noun("NP-SBJ-1" if by else "NP-SBJ", subject),
        _verb(words, f"({tag} {main}) {inner}"),
    ]
    parts += map(_phrase, re.findall(PHRASE, rest))
    return f"(S {' '.join(parts)} (. .))"


def _verb(auxiliaries: list[str], main: str) -> str:
    """A verb phrase in that of the auxiliary before it."""
    if not auxiliaries:
        return f"(VP {main})"
    first, *rest = auxiliaries
    words = f"({AUXILIARY[first]} {first})"
    if rest[:1] == ["not"]:
        words, rest = f"{words} (RB not)", rest[1:]
    inner = _verb(rest, main)
    return f"(VP {words} {f'(S {inner})' if first == 'going' else inner})"


def _noun(label: str, phrase: str) -> str:
    words = phrase.split()
    noun = 1 if len(words) in (2, 5) else 2
    tags = [TAGS.get(w) or AUXILIARY.get(w, "JJ") for w in words]
    tags[noun] = "NNS" if words[noun] in PLURALS else "NN"
    tagged = [f"({tag} {word})" for tag, word in zip(tags, words, strict=True)]
    if len(words) < 5:
        return f"({label} {' '.join(tagged)})"
    the, noun_, who, verb, adjective = tagged
    return f"({label} (NP {the} {noun_}) (SBAR (WHNP {who}) (S (VP {verb} (ADJP {adjective})))))"


def _phrase(phrase: str) -> str:
    first, *words = [f"({TAGS.get(word, 'NN')} {word})" for word in phrase.split()]
    preposition = first.replace("(NN", "(IN")
    if words[0] == "(NN to)":
        preposition, words = f"{preposition} (TO to)", words[1:]
    label = "PP-TMP" if phrase in TIMES else "PP-LOC"
    return f"({label} {preposition} (NP {' '.join(words)}))"

"""Made harm to sentences, which people were not asked about: changes that training might try.

Each kind is a function of a hypothesis' and its reference's words (`split_parts`), a random
generator and a Material. It returns the harmed words and the amount of harm, as a share of the
words in [0, 1], or None where the sentence offers no such change. HARMS lists them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from simile_plugin.encoder import split_parts
from simile_plugin.reward import Lexicon

Harmed = tuple[list[str], float] | None
Harm = Callable[[list[str], list[str], random.Random, "Material"], Harmed]

MARKS = ".,;:!?\"'()"
NEGATED = ("n't", "n\u2019t")
AUXILIARIES = frozenset(
    "is are was were be been has have had do does did will would can could should must may "
    "might".split()
)
NEGATION, EXCHANGE = 0.25, 0.15  # harm of a negation, of a wrong number or name: not by words
TRIES = 20  # random choices at most until a choice fits
CAPITALS = 0.2  # share of longer words: German's 0.3, with names alone 0.12 at most (news)


@dataclass(frozen=True)
class Material:
    """Plain text that words are taken from.

    Attributes:
        texts: files of sentences; each file is taken from as often as another.
        lexicon: its common words are no content words.
    """

    texts: Sequence[Sequence[str]]
    lexicon: Lexicon

    def sentence(self, rng: random.Random) -> list[str]:
        """Return the words of a random sentence."""
        return split_parts(rng.choice(rng.choice(self.texts)))[0]

    @cached_property
    def has_capital_nouns(self) -> bool:
        """True where a capital says nothing about a name, as in German."""
        lines = (split_parts(line)[0][1:] for text in self.texts for line in text)
        longer = [word for words in lines for word in words if len(_core(word)) > 2]
        capitals = sum(word.strip(MARKS)[:1].isupper() for word in longer)
        return capitals > CAPITALS * len(longer)

    def is_content(self, word: str) -> bool:
        """Return True for a word with letters that is none of the common words."""
        return _core(word) not in self.lexicon.common and any(map(str.isalpha, word))


def _core(word: str) -> str:
    """Return a word without marks around it, lowercased."""
    return word.strip(MARKS).lower()


def _cores(words: Sequence[str]) -> set[str]:
    return {_core(word) for word in words}


def repeat(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Repeat a phrase of 2 to 6 words, up to three times, behind itself or at the end."""
    if len(hyp) < 3:
        return None
    size = min(rng.randint(2, 6), len(hyp) - 1)
    start = rng.randrange(len(hyp) - size + 1)
    times = rng.choice((1, 1, 2, 3))
    at = rng.choice((start + size, len(hyp)))
    phrase = hyp[start : start + size] * times
    return hyp[:at] + phrase + hyp[at:], len(phrase) / len(hyp)


def drop(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Drop 10 to 50 % of the words at the beginning, the end or between: mostly a half."""
    if len(hyp) < 4:
        return None
    size = max(1, round(rng.choice((0.1, 0.2, 0.3, 0.5, 0.5, 0.5)) * len(hyp)))
    start = rng.choice((0, len(hyp) - size, rng.randrange(len(hyp) - size + 1)))
    return hyp[:start] + hyp[start + size :], size / len(hyp)


def append(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Add 1 to 6 content words, at the end or scattered.

    Words of the hypothesis, of another sentence, or of the reference that the hypothesis has.
    """
    have = _cores(hyp)
    kind = rng.randrange(3)
    source = (hyp, material.sentence(rng), [word for word in ref if _core(word) in have])[kind]
    words = [word for word in source if material.is_content(word)]
    if not words or not hyp:
        return None
    added = rng.sample(words, min(rng.randint(1, 6), len(words)))
    longer = [*hyp]
    at_end = rng.random() < 0.5
    for word in added:
        longer.insert(len(longer) if at_end else rng.randrange(len(longer) + 1), word)
    return longer, min(1.0, len(added) / len(hyp))


def shuffle(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Put all words, or 3 to 8 of them, in random order, or a phrase at another place."""
    if len(hyp) < 5:
        return None
    kind = rng.randrange(3)
    if kind == 2:
        size = rng.randint(2, max(2, len(hyp) // 3))
        start = rng.randrange(len(hyp) - size + 1)
        rest = hyp[:start] + hyp[start + size :]
        to = rng.randrange(len(rest) + 1)
        shuffled = rest[:to] + hyp[start : start + size] + rest[to:]
    else:
        size = len(hyp) if kind == 0 else min(len(hyp), rng.randint(3, 8))
        start = rng.randrange(len(hyp) - size + 1)
        part = hyp[start : start + size]
        rng.shuffle(part)
        shuffled = hyp[:start] + part + hyp[start + size :]
    moved = sum(old != new for old, new in zip(hyp, shuffled, strict=True))
    return (shuffled, 0.5 * moved / len(hyp)) if moved else None


def negation(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Drop a negation that the reference has, or add one where neither side is negated."""
    words = material.lexicon.negations
    if not words:
        return None
    at = [i for i, word in enumerate(hyp) if _core(word) in words]
    negated = any(_negates(word, words) for word in ref)
    if at and negated:
        i = rng.choice(at)
        return hyp[:i] + hyp[i + 1 :], NEGATION
    auxiliaries = [i for i, word in enumerate(hyp) if _core(word) in AUXILIARIES]
    if not auxiliaries or negated or any(_negates(word, words) for word in hyp):
        return None
    i = rng.choice(auxiliaries)
    return [*hyp[: i + 1], "not", *hyp[i + 1 :]], NEGATION


def _negates(word: str, negations: frozenset[str]) -> bool:
    return _core(word) in negations or _core(word).endswith(NEGATED)


def number(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Replace the digits of a number that the reference has, too."""
    have = _cores(ref)
    at = [i for i, word in enumerate(hyp) if _core(word) in have and any(map(str.isdigit, word))]
    if not at:
        return None
    i = rng.choice(at)
    for _ in range(TRIES):
        new = "".join(str(rng.randrange(10)) if c.isdigit() else c for c in hyp[i])
        if _core(new) not in have:
            return [*hyp[:i], new, *hyp[i + 1 :]], EXCHANGE
    return None


def name(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Replace a name that the reference has, too: a capital that does not begin a sentence."""
    if material.has_capital_nouns:
        return None
    have = _cores(ref)
    at = [i for i in _names(hyp, material) if _core(hyp[i]) in have]
    if not at:
        return None
    i = rng.choice(at)
    for _ in range(TRIES):
        other = material.sentence(rng)
        names = [other[j].strip(MARKS) for j in _names(other, material)]
        names = [word for word in names if word.lower() not in have]
        if names:
            bare = hyp[i].strip(MARKS)
            new = hyp[i].replace(bare, rng.choice(names))
            return [*hyp[:i], new, *hyp[i + 1 :]], EXCHANGE
    return None


def _names(words: list[str], material: Material) -> list[int]:
    return [
        i
        for i, word in enumerate(words)
        if i and word.strip(MARKS)[:1].isupper() and len(_core(word)) > 2
        if material.is_content(word)
    ]


def untranslated(hyp: list[str], ref: list[str], rng: random.Random, material: Material) -> Harmed:
    """Spell 1 to 4 words that the reference has, or all words, backwards: words of no language."""
    have = _cores(ref)
    at = [i for i, word in enumerate(hyp) if _core(word) in have and len(_core(word)) > 2]
    if not at:
        return None
    long = sum(len(word) > 1 for word in hyp)  # single letters are the same backwards
    if rng.random() < 0.3 and 2 * long > len(hyp):
        return [word[::-1] for word in hyp], 1.0
    chosen = rng.sample(at, min(rng.randint(1, 4), len(at)))
    words = [word[::-1] if i in chosen else word for i, word in enumerate(hyp)]
    return words, len(chosen) / len(hyp)


HARMS: tuple[tuple[str, Harm], ...] = (
    ("repeat", repeat),
    ("drop", drop),
    ("append", append),
    ("shuffle", shuffle),
    ("negation", negation),
    ("number", number),
    ("name", name),
    ("untranslated", untranslated),
)


@dataclass(frozen=True)
class HarmedSentence:
    """A hypothesis after harm.

    Attributes:
        kind, row: places in HARMS and in the hypotheses it was made from.
        share: the amount of harm, in (0, 1].
    """

    kind: int
    row: int
    text: str
    share: float


def harmed_sentences(
    hyps: Sequence[str], refs: Sequence[str], material: Material, seed: int
) -> list[HarmedSentence]:
    """Do every kind of harm to every hypothesis that offers such a change.

    The draws depend on the kind, the seed and the sentence, not on other sentences.
    """
    harmed = []
    for kind, (title, harm) in enumerate(HARMS):
        for row, (hyp, ref) in enumerate(zip(hyps, refs, strict=True)):
            rng = random.Random(f"{title} {seed} {hyp}")
            words, space = split_parts(hyp)
            done = harm(words, split_parts(ref)[0], rng, material)
            if done is not None and done[0] != words:
                harmed.append(HarmedSentence(kind, row, space.join(done[0]), min(1.0, done[1])))
    return harmed

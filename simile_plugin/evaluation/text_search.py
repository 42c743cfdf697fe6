"""Search for texts that a reward likes more than they deserve: one text for all, added words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from simile_plugin.encoder import split_parts
from simile_plugin.significance import Floats

Lists = Sequence[Sequence[str]]
# A reward of B lists of N hypotheses, B references and B sources: (B, N) numbers.
Scores = Callable[[Lists, Sequence[str], Sequence[str]], Floats]

LOWER = 1e-6  # a fall below this is rounding
HYPS_AT_ONCE = 8192
SEARCH_STEPS, SEARCH_REFS = 20, 200  # bounds of the search for a fixed text
ADDED, ADDED_FROM = 4, 50  # words that a climb adds, and how many it tries at each step


@dataclass(frozen=True)
class FixedText:
    """One text for every source. steps: changes of a word that led to it."""

    text: str
    score: float
    steps: int


def scores_in_parts(
    scores: Scores, lists: Lists, refs: Sequence[str], srcs: Sequence[str]
) -> Floats:
    """Return scores(lists, refs, srcs), (B, N), asked for HYPS_AT_ONCE hypotheses at a time."""
    rows = max(1, HYPS_AT_ONCE // len(lists[0]))
    starts = range(0, len(refs), rows)
    parts = [scores(lists[i : i + rows], refs[i : i + rows], srcs[i : i + rows]) for i in starts]
    return np.concatenate(parts)


def find_text(
    scores: Scores,
    refs: Sequence[str],
    srcs: Sequence[str],
    search_words: int,
    progress: Callable[[int], object] = lambda done: None,
) -> FixedText:
    """Search greedily for the text with the highest mean reward against all references.

    From the best of an empty text and some references, each of at most SEARCH_STEPS steps takes the
    best of: a word at the end, any word removed, the word at one place (the next at the next step)
    replaced. The words are the commonest of the references, the score is the mean over SEARCH_REFS
    of them, evenly spaced; the score that is returned is on all.

    Args:
        search_words: how many words are tried, and from how many references the search may begin.
    """
    split = [split_parts(ref) for ref in refs]
    counts = Counter(word for words, _ in split for word in words)
    space = Counter(space for _, space in split).most_common(1)[0][0]
    candidates = sorted(counts, key=lambda word: (-counts[word], word))[:search_words]
    every = -(-len(refs) // SEARCH_REFS)
    some_refs, some_srcs = refs[::every], srcs[::every]
    starts = ["", *refs[:: -(-len(refs) // search_words)]]
    means = _means(scores, starts, some_refs, some_srcs)
    words, best = split_parts(starts[int(means.argmax())])[0], means.max()
    steps = idle = 0
    for step in range(SEARCH_STEPS):
        progress(1)
        if idle > len(words):  # no change at any place was better
            continue
        tried = _neighbours(words, candidates, step)
        means = _means(scores, [space.join(text) for text in tried], some_refs, some_srcs)
        first = int(means.argmax())
        idle += 1
        if means[first] > best + LOWER:
            words, best, idle, steps = tried[first], means[first], 0, steps + 1
    text = space.join(words)
    return FixedText(text, float(_means(scores, [text], refs, srcs)[0]), steps)


def climb(
    scores: Scores,
    hyps: Sequence[str],
    refs: Sequence[str],
    srcs: Sequence[str],
    search_words: int,
) -> Floats:
    """Climb by words that are not in the reference: (n,) rewards with ADDED of them at the end.

    Each step adds the word with the highest reward, of the commonest words that the sentence's
    reference does not have: a training would exploit a reward that rises by them. NaN where the
    reference has all of these words.
    """
    split = [split_parts(ref) for ref in refs]
    counts = Counter(word.lower() for words, _ in split for word in words)
    common = sorted(counts, key=lambda word: (-counts[word], word))[: 4 * search_words]
    foreign = [
        [word for word in common if word not in {known.lower() for known in words}]
        for words, _ in split
    ]
    rows = [row for row, words in enumerate(foreign) if words]
    refs, srcs = ([lines[row] for row in rows] for lines in (refs, srcs))
    texts, values = [hyps[row] for row in rows], np.empty((len(rows), 1))
    most = min(ADDED_FROM, search_words)
    for _ in range(ADDED if rows else 0):
        tried = [  # (n, most): a sentence with fewer words repeats them
            [f"{text}{split[row][1]}{word}" for word in islice(cycle(foreign[row][:most]), most)]
            for text, row in zip(texts, rows, strict=True)
        ]
        values = scores_in_parts(scores, tried, refs, srcs)
        texts = [row[place] for row, place in zip(tried, values.argmax(1), strict=True)]
    best = np.full(len(hyps), np.nan)
    best[rows] = values.max(1)
    return best


def _neighbours(words: list[str], candidates: Sequence[str], step: int) -> list[list[str]]:
    """Return the texts that are one step of the search away."""
    texts = [[*words, word] for word in candidates]
    texts += [words[:i] + words[i + 1 :] for i in range(len(words))]
    if words:
        i = step % len(words)
        texts += [[*words[:i], word, *words[i + 1 :]] for word in candidates if word != words[i]]
    return texts


def _means(scores: Scores, hyps: Sequence[str], refs: Sequence[str], srcs: Sequence[str]) -> Floats:
    """Return the mean reward of each of N texts against all references, (N,)."""
    means: Floats = scores_in_parts(scores, [hyps] * len(refs), refs, srcs).mean(axis=0)
    return means

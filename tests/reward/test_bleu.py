"""BLEU's statistics of whole lists against a slow loop over sacreBLEU's own tokens."""

import random
import tracemalloc
from collections import Counter

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.reward import bleu, ngrams
from simile_plugin.reward.bleu import list_statistics
from tests.bleu import bleu_statistics

# Whatever the rules of 13a look at, white space of many kinds, and some letters.
ODD = "ab09..,,--&;:/%'\"<>()~` \t\u00a0\u2028\x1c\x85\u3000\r\né中²"
PIECES = st.sampled_from(
    [*ODD, "the ", "the heron ", "&quot;", "&amp;", "&lt;", "<skipped>", "1.5", "a.", " .", "-\n"]
)
SENTENCES = st.lists(PIECES, max_size=12).map("".join)


def slow_statistics(hyp, ref, tokenize):
    split = sacrebleu.metrics.BLEU(tokenize=tokenize).tokenizer
    tokens = [split(text.rstrip()).split() for text in (hyp, ref)]

    def counts(row, order):
        return Counter(tuple(row[i : i + order]) for i in range(len(row) - order + 1))

    grams = [[counts(row, order) for order in (1, 2, 3, 4)] for row in tokens]
    matches = [sum((mine & theirs).values()) for mine, theirs in zip(*grams, strict=True)]
    totals = [sum(found.values()) for found in grams[0]]
    return [len(tokens[0]), len(tokens[1]), *matches, *totals]


@pytest.mark.parametrize("tokenize", ["13a", "none", "char", "intl"])
@given(st.lists(st.tuples(SENTENCES, SENTENCES, SENTENCES), min_size=1, max_size=4))
@settings(max_examples=60)
def test_odd_text(tokenize, rows):
    found = list_statistics([row[1:] for row in rows], [row[0] for row in rows], tokenize)
    expected = [[slow_statistics(hyp, row[0], tokenize) for hyp in row[1:]] for row in rows]
    assert found.tolist() == expected


@given(st.lists(st.tuples(SENTENCES, SENTENCES, SENTENCES), min_size=1, max_size=4))
@settings(max_examples=60)
def test_long_lines_are_counted_without_a_table(rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "TABLE", 0)
        found = list_statistics([row[1:] for row in rows], [row[0] for row in rows])
    expected = [[slow_statistics(hyp, row[0], "13a") for hyp in row[1:]] for row in rows]
    assert found.tolist() == expected


def test_a_very_long_line_takes_memory_for_its_words():
    rng = random.Random(1)
    ref, hyp = (" ".join(f"w{rng.randrange(9000)}" for _ in range(50_000)) for _ in range(2))
    tracemalloc.start()  # numpy tells it of its arrays
    found = list_statistics([[hyp, ref]], [ref]).tolist()[0]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6  # a table of places and words would take 3.6 GB
    assert found == [slow_statistics(hyp, ref, "13a"), slow_statistics(ref, ref, "13a")]


def test_by_hand():
    # the (3 times, once in the reference) and heron; "the heron" and "heron the"; nothing longer
    found = bleu_statistics("the the heron the", "a heron the heron")
    assert found == [*(4, 4), *(2, 2, 0, 0), *(4, 3, 2, 1)]


def test_nothing_to_count():
    assert list_statistics([], []).shape == (0, 0, 10)
    assert list_statistics([[], []], ["a", "b"]).shape == (2, 0, 10)
    assert bleu_statistics("", "") == [0] * 10
    assert bleu_statistics("", "a b") == [0, 2] + [0] * 8


def test_the_memory_of_words_is_bounded(monkeypatch):
    monkeypatch.setattr(ngrams, "KNOWN_TOKENS", 12)
    bleu.bleu_words.cache_clear()
    for start in range(0, 60, 5):
        new = [f"w{i}" for i in range(start, start + 5)]
        found = list_statistics([[" ".join(new)]], [" ".join(new[:3])])
        assert found[0, 0].tolist() == [5, 3, 3, 2, 1, 0, 5, 4, 3, 2]
        known = bleu.bleu_words("13a")
        assert len(known) <= 12 + 5 and len(known.tokens) <= 12 + 5
    assert torch.is_tensor(found)

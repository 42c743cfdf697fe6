"""Features of translations: by hand, against a slow loop, and on text of every kind."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.encoder import cosine
from simile_plugin.reward import features as module
from simile_plugin.reward.features import (
    ALMOST,
    FEATURES,
    NEARBY,
    Lexicon,
    WordTable,
    make_lexicon,
    words_of,
)

LEXICON = Lexicon(
    known=frozenset("the heron waits beside cold water two boys is in a pond not".split()),
    common=frozenset("the in a is".split()),
)
REF = "the heron waits in the cold water"


class WordVectors:
    """An encoder of given vectors; a word that is not given is at right angles to all."""

    dim, fingerprint = 8, "0" * 12

    def embed_text(self, texts):
        given = {"heron": (3.0, 4.0), "crane": (4.0, 3.0), "cold": (1.0, 0.0), "icy": (0.6, 0.8)}
        rows = torch.zeros(len(texts), self.dim)
        for row, text in enumerate(texts):
            for place, value in enumerate(given.get(text, ())):
                rows[row, place] = value
        return rows


@pytest.fixture
def table():
    return WordTable(WordVectors(), LEXICON)


def features_of(table, hyp, ref=REF, sim=1.0):
    found, empty = table.count([[hyp]], [ref], torch.tensor([[sim]]))
    assert found.shape == (1, 1, 12) and empty.shape == (1, 1)
    return dict(zip(FEATURES, found[0, 0].tolist(), strict=True))


def only(found):
    return {name for name, value in found.items() if value}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Don't wait, Heron-No. 5!",
            ["don", "'t", "wait", ",", "heron", "-", "no", ".", "5", "!"],
        ),
        # the t of a negation alone is a word with its apostrophe
        ("A T-shirt; can't've 'tis", "a|t|-|shirt|;|can|'t|'|ve|'|tis".split("|")),
        # no spaces: each letter, with the signs upon it
        ("\u4e2d\u6587 2023\u5e74\u3002", ["\u4e2d", "\u6587", "2023", "\u5e74", "\u3002"]),
        ("\u0e17\u0e35\u0e48\u0e21\u0e32", ["\u0e17\u0e35\u0e48", "\u0e21", "\u0e32"]),
        # a joiner within a word is no mark of its own
        ("\u0645\u06cc\u200c\u0631\u0648\u0645", ["\u0645\u06cc\u200c\u0631\u0648\u0645"]),
    ],
)
def test_words(text, words):
    assert words_of(text) == words


def test_sim_by_hand(table):
    found = features_of(table, REF + " .", REF + " !", sim=0.84)
    assert found["sim"] == pytest.approx(0.16) and found["sim_root"] == pytest.approx(0.4)
    assert features_of(table, REF, sim=1 - 1e-6)["sim_root"] == 0
    # the same string has no distance, whatever rounding or an unknown script says
    assert only(features_of(table, REF, REF, sim=0.0)) == set()


def test_soft_pairs_by_hand(table):
    # heron/crane: (3 * 4 + 4 * 3) / 25 = 0.96; the pairs "the crane" and "crane waits" have it
    # as the less like of their words, "waits beside" is the same: 1 - (0.96 + 0.96 + 1) / 3
    found = features_of(table, "the crane waits beside", "the heron waits beside")
    share = 1 - (0.96 + 0.96 + 1) / 3
    assert found["pairs_p"] == found["pairs_r"] == pytest.approx(math.sqrt(share), abs=1e-6)
    assert found["breaks"] == 0
    # one word against one: 1 - 0.96; against three: the best, less its distance in place
    assert features_of(table, "crane", "heron")["pairs_p"] == pytest.approx(0.2, abs=1e-6)
    found = features_of(table, "heron", "cold heron water")
    # |0/1 - 1/3| * NEARBY is lost; the reference's other two: heron and cold 0.6, at 0; water 0
    near = 1 - NEARBY / 3
    assert found["pairs_p"] == pytest.approx(math.sqrt(1 - near), abs=1e-5)
    assert found["pairs_r"] == pytest.approx(math.sqrt(1 - (near + 0.6) / 3), abs=1e-5)


def test_breaks_by_hand(table):
    # matched words in the order 2 3 0 1 of the reference: one break in three steps
    assert features_of(table, "two boys the heron", "the heron two boys")[
        "breaks"
    ] == pytest.approx(1 / 3)
    assert features_of(table, "water", "water")["breaks"] == 0


def test_counts_by_hand(table):
    # "the" "heron" "the heron": 3 bigrams of 6 stood there before, none in the reference
    found = features_of(table, "the heron waits the heron waits the", "the heron waits")
    assert found["repeated"] == pytest.approx(3 / 6)
    assert features_of(table, "a a a", "a a a b")["repeated"] == 0
    # "reiher" twice is twice unknown; a mark or a number is not, nor is what the reference has
    found = features_of(table, "reiher waits reiher 7 % zug", "waits zug")
    assert found["unknown"] == pytest.approx(math.log(3))
    # common: the (2), in (1) of the reference; one "the" and "in" are missing
    assert features_of(table, "the heron waits cold water")["common_missing"] == pytest.approx(
        math.sqrt(2 / 3)
    )
    # one negation too many; "don't" lost its t; numbers by their digits
    assert features_of(table, "not " + REF)["negation"] == pytest.approx(math.log(2))
    assert features_of(table, "I do wait", "I don't wait")["negation"] == pytest.approx(math.log(2))
    assert features_of(table, "a T-shirt", "a shirt")["negation"] == 0
    assert features_of(table, "waits 12 a", "waits 13 a")["number"] == pytest.approx(math.log(3))


def test_lengths_by_hand(table):
    # characters with a space a word, and one: "a pond" 1+1 + 4+1 + 1 = 8, "pond" 4+1 + 1 = 6
    found = features_of(table, "a pond", "pond")
    assert (found["long"], found["short"]) == (pytest.approx(math.log(8 / 6)), 0)
    found = features_of(table, "pond", "a pond")
    assert (found["long"], found["short"]) == (0, pytest.approx(math.log(8 / 6)))


def test_the_lexicon_of_texts():
    texts = [["The heron, the pond", "A heron"], ["the ferry 9"], ["Tom the Tom Tom Tom"]]
    found = make_lexicon(texts)
    assert found.known == {"the", "heron", "pond", "a", "ferry", "tom"}
    # medians of the shares: the 2/6, 1/2 and 1/5; of the others at least two of three are 0
    assert found.common == {"the"}
    assert make_lexicon([["b a b"]]).common == {"a", "b"}


def slow_features(hyp, ref, sim, table):
    """One pair, one feature after the other, as the docstrings say."""
    h, r = words_of(hyp), words_of(ref)
    apart = 0.0 if hyp == ref or 1 - sim < 1e-5 else 1 - sim
    H, R = Counter(h), Counter(r)
    many, few = H - R, R - H
    bigrams = [Counter(pairwise(side)) for side in (h, r)]
    repeats = [sum(count - 1 for count in side.values()) for side in bigrams]
    lexicon = table.lexicon
    negations = {"'t" if word == "t" else word for word in lexicon.negations}
    sums = [
        sum(
            count for word, count in many.items() if word[0].isalpha() and word not in lexicon.known
        ),
        sum(count for word, count in few.items() if word in lexicon.common)
        / max(1, sum(count for word, count in R.items() if word in lexicon.common)),
        sum(c for side in (many, few) for word, c in side.items() if word in negations),
        sum(c for side in (many, few) for word, c in side.items() if any(map(str.isdigit, word))),
    ]
    ratio = math.log((sum(map(len, h)) + len(h) + 1) / (sum(map(len, r)) + len(r) + 1))
    p, q, breaks = slow_matches(h, r, table)
    return [
        *(apart, math.sqrt(apart), p, q, breaks),
        max(0, repeats[0] - repeats[1]) / max(1, len(h) - 1),
        *(math.log1p(sums[0]), math.sqrt(sums[1]), math.log1p(sums[2]), math.log1p(sums[3])),
        *(max(0, ratio), max(0, -ratio)),
    ]


def slow_matches(h, r, table):
    h, r = h[: module.MATCHED_WORDS], r[: module.MATCHED_WORDS]
    vectors = {word: table.encoder.embed_text([word])[0] for word in {*h, *r}}

    def like(i, j):
        same = min(ALMOST, max(0.0, float(cosine(vectors[h[i]], vectors[r[j]]))))
        far = abs(np.float32(i / len(h)) - np.float32(j / len(r)))
        return np.float32((1.0 if h[i] == r[j] else same) - NEARBY * far)

    s = np.array([[like(i, j) for j in range(len(r))] for i in range(len(h))]).reshape(
        len(h), len(r)
    )
    pairs = s
    if len(h) > 1 and len(r) > 1:
        pairs = np.minimum(s[:-1, :-1], s[1:, 1:])

    def unlike(best, count):
        return math.sqrt(max(0.0, 1 - np.maximum(best, 0).sum() / max(1, count)))

    p = unlike(pairs.max(1, initial=0), pairs.shape[0])
    q = unlike(pairs.max(0, initial=0), pairs.shape[1])
    mutual = [
        (i, j)
        for i in range(len(h))
        for j in range(len(r))
        if s[i, j] > 0 and s[i, j] >= s[i].max() - 1e-6 and s[i, j] >= s[:, j].max() - 1e-6
    ]
    kept = sum((i + 1, j + 1) in mutual for i, j in mutual)
    return p, q, 1 - kept / (len(mutual) - 1) if len(mutual) > 1 else 0.0


WORDS = ["the", "heron", "waits", "cold", "water", ".", "not", "boys", "12", "Reiher", "é–b"]
SENTENCE = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


@settings(max_examples=60)
@given(st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=5))
def test_lists_equal_the_slow_loop(encoder, triples):
    table = WordTable(encoder, LEXICON)
    refs, hyps = [ref for ref, *_ in triples], [row[1:] for row in triples]
    sim = torch.tensor([[0.1 * n, -0.5] for n in range(len(refs))])
    found, empty = table.count(hyps, refs, sim)
    for row, (ref, *candidates) in enumerate(triples):
        for column, hyp in enumerate(candidates):
            expected = slow_features(hyp, ref, sim[row, column].item(), table)
            assert found[row, column].tolist() == pytest.approx(expected, abs=2e-3)
            assert empty[row, column] == (not hyp or not ref)


TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["", " ", "\u0301", "a" * 3000]
)


@settings(max_examples=80)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4))
def test_any_text_has_finite_features_and_its_reference_none(encoder, pairs):
    table = WordTable(encoder, LEXICON)
    refs = [ref for ref, _ in pairs]
    found, empty = table.count(pairs, refs, torch.full((len(refs), 2), 0.3))
    assert np.isfinite(found).all() and (found >= 0).all()
    assert (found[~empty[:, 0], 0] == 0).all()
    assert empty[:, 0].tolist() == [not ref.split() for ref in refs]


def test_neighbours_groups_and_forgotten_words_change_nothing(table, monkeypatch):
    refs = ["the heron waits", "two boys in the cold water", "a pond", ""]
    hyps = [["the crane waits", ""], ["boys in icy water", "two"], ["a pond", "b"], ["a", ""]]
    sim = torch.rand(4, 2, generator=torch.Generator().manual_seed(1))
    whole, _ = table.count(hyps, refs, sim)
    for row in range(4):
        alone, _ = table.count([hyps[row]], [refs[row]], sim[row : row + 1])
        np.testing.assert_allclose(alone[0], whole[row], atol=1e-6)
    monkeypatch.setattr(module, "CELLS", 1)
    monkeypatch.setattr(module, "KNOWN_WORDS", 2)
    assert np.allclose(table.count(hyps, refs, sim)[0], whole, atol=1e-6)
    assert len(table.words.tokens) < 20

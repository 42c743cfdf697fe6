"""Harm made of plain text: what each kind does, and that the same is done again."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.evaluation.harm import HARMS, Material, harmed_sentences
from simile_plugin.reward import make_lexicon

TEXTS = (
    ["The grey heron waits beside Ada 's pond", "the ferry and the boys cross to Malta"],
    ["In the morning the baker and Paul Haller fold the map", "the the the and and"],
)
MATERIAL = Material(TEXTS, make_lexicon([["the and to in is"] * 9]))
HYP = "In 2019 the ferry to Malta is not late and Ada waits"
REF = "In 2019 the ferry to Malta was not late , Ada waited"
SEEDS = range(60)


def draws(name, hyp=HYP, ref=REF, material=MATERIAL):
    harm = dict(HARMS)[name]
    return [harm(hyp.split(), ref.split(), random.Random(seed), material) for seed in SEEDS]


def test_repeat_says_a_phrase_again():
    for words, share in draws("repeat"):
        more = Counter(words) - Counter(HYP.split())
        assert not Counter(HYP.split()) - Counter(words)
        assert share == pytest.approx(more.total() / 12)
        assert len({*pairwise(words)}) < len(words) - 1


def test_drop_takes_a_phrase_away():
    for words, share in draws("drop"):
        gone = 12 - len(words)
        assert share == gone / 12 and 1 <= gone <= 6
        assert any(HYP.split()[:i] + HYP.split()[i + gone :] == words for i in range(13))


def test_append_adds_content_words():
    for words, share in filter(None, draws("append")):  # a sentence without a content word: None
        more = Counter(words) - Counter(HYP.split())
        assert share == more.total() / 12 and 1 <= more.total() <= 6
        assert all(MATERIAL.is_content(word) for word in more)


def test_shuffle_moves_words():
    for words, share in filter(None, draws("shuffle")):  # nothing moved: None
        assert Counter(words) == Counter(HYP.split())
        moved = sum(a != b for a, b in zip(words, HYP.split(), strict=True))
        assert share == 0.5 * moved / 12 and moved


def test_negations_are_dropped_or_added():
    assert {" ".join(words) for words, _ in draws("negation")} == {HYP.replace(" not", "")}
    added = draws("negation", "the ferry is late", "the ferry was late")
    assert {(" ".join(words), share) for words, share in added} == {("the ferry is not late", 0.25)}
    # nothing to do where one side has one: the harm is there, or would be undone
    assert draws("negation", "it is late", "it isn't late") == [None] * len(SEEDS)
    assert draws("negation", "it never came", "it came") == [None] * len(SEEDS)


def test_other_languages_have_no_negations_and_german_no_names():
    german = [["In der Stadt wartet ein Reiher am Teich"] * 700]
    material = Material(german, make_lexicon(german))
    assert not material.lexicon.negations and material.has_capital_nouns
    assert draws("negation", "was ist los", "was ist los", material) == [None] * len(SEEDS)
    assert draws("name", material=material) == [None] * len(SEEDS)
    assert not Material(TEXTS, MATERIAL.lexicon).has_capital_nouns


def test_numbers_and_names_that_are_right_become_wrong():
    for words, share in draws("number"):
        assert words[0::1][1] != "2019" and words[1].isdecimal() and len(words[1]) == 4
        assert [words[0], *words[2:]] == [HYP.split()[0], *HYP.split()[2:]] and share == 0.15
    names = set()
    for words, share in draws("name"):
        (new,) = (Counter(words) - Counter(HYP.split())).elements()
        (old,) = (Counter(HYP.split()) - Counter(words)).elements()
        assert old in ("Malta", "Ada") and share == 0.15
        names.add(new)
    assert names == {"Paul", "Haller"}
    kept = draws("name", 'we saw "Ada".', "we saw Ada")
    assert {words[2] for words, _ in kept} <= {'"Paul".', '"Haller".', '"Malta".'}
    assert draws("number", "in 2019", "in 2020") == [None] * len(SEEDS)


def test_harm_depends_on_kind_seed_and_sentence_alone():
    hyps, refs = [HYP, "the boys", "it is late"], [REF, "two boys", "it was late"]
    found = harmed_sentences(hyps, refs, MATERIAL, 7)
    again = harmed_sentences(hyps[::-1], refs[::-1], MATERIAL, 7)
    assert {(one.kind, one.text, one.row) for one in found} == {
        (one.kind, one.text, 2 - one.row) for one in again
    }
    assert found != harmed_sentences(hyps, refs, MATERIAL, 8)
    many = [one for seed in SEEDS for one in harmed_sentences([HYP], [REF], MATERIAL, seed)]
    assert {HARMS[one.kind][0] for one in many} == {name for name, _ in HARMS}
    assert all(one.text != hyps[one.row] and 0 < one.share <= 1 for one in found)


def test_text_without_spaces_is_harmed_by_letters():
    hyps, refs = ["他在2019年用硬币付了票钱。"], ["2019年他用硬币付了票。"]
    material = Material([refs, ["鹭在池塘边等。"]], make_lexicon([["的在了"] * 9]))
    found = [one for seed in SEEDS for one in harmed_sentences(hyps, refs, material, seed)]
    kinds = {HARMS[one.kind][0] for one in found}
    assert kinds == {"repeat", "drop", "append", "shuffle", "number", "untranslated"}
    size = len(hyps[0]) - 3  # words: a number is one
    for one in found:
        kind, more = HARMS[one.kind][0], len(one.text) - len(hyps[0])
        assert " " not in one.text and one.share <= 1
        assert more > 0 or kind not in ("repeat", "append")
        assert more < 0 or kind != "drop"
        assert sorted(one.text) == sorted(hyps[0]) or kind not in ("shuffle", "untranslated")
        assert kind != "untranslated" or one.share == 1 / size


WORDS = st.lists(
    st.sampled_from(["a", "The", "not", "12,5", "Ada.", "''", "\u4e2d", "n't"]), max_size=8
)


@settings(max_examples=60)
@given(WORDS, WORDS, st.integers(0, 9))
def test_any_words_can_be_harmed_or_not(hyp, ref, seed):
    for _, harm in HARMS:
        before = [*hyp], [*ref]
        found = harm(hyp, ref, random.Random(seed), MATERIAL)
        assert before == (hyp, ref)
        assert found is None or found[1] > 0

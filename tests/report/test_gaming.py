"""Faults and signs of gaming: by hand, bands and warnings."""

import pytest

from simile_plugin.encoder.models import Encoder
from simile_plugin.report.answer import Passages, Table
from simile_plugin.report.questions.gaming import (
    FAULTS,
    Gaming,
    Signs,
    answer_gaming,
    faults,
    in_wrong_language,
    is_copied,
    repeated_share,
    system_signs,
    system_warnings,
)
from simile_plugin.reward import Scorer

from .test_results import REFS, noisy, system

SOURCES = [f"eins zwei drei vier fünf {i}" for i in range(len(REFS))]


def test_repetition_by_hand() -> None:
    # bigrams: ab ba ab ba ab (5, of which 3 said before); none in a word; four different ones
    sentences = [list("ababab"), list("a"), list("vwxyz")]
    assert repeated_share(sentences) == 3 / 9
    assert repeated_share([["a"]]) == 0.0


@pytest.mark.parametrize(
    ("hyp", "source", "ref", "copied"),
    [
        ("he said in Ulm um Ulm", "in Ulm um Ulm herum", "he said around Ulm", True),  # 4 in a row
        ("he said in Ulm um", "in Ulm um Ulm herum", "he said around Ulm", False),  # 3 only
        ("Herr Otto Karl Maria", "Herr Otto Karl Maria", "Herr Otto Karl Maria", False),
        ("nein", "nein", "no", True),  # a short sentence, whole
        ("nein no", "nein", "no", False),  # not whole
        ("a", "", "a", False),
        ("ich war 在北京的公园", "我在北京的公园。", "ich war im Park", True),
        ("the 7 : 3 ( CSU )", "das 7 : 3 ( CSU )", "a win for CSU", False),
    ],
)
def test_untranslated_copies(hyp: str, source: str, ref: str, copied: bool) -> None:
    assert is_copied(hyp.split(), source.split(), ref.split()) == copied


def test_faults_by_their_rules() -> None:
    refs = ["the cat sat on the mat today", "we saw it very well", "he is so so so happy", "yes"]
    sources = ["die Katze sass auf der Matte", "wir sahen es sehr gut", "er ist so froh", "ja"]
    output = [
        "die Katze sass heute auf der Matte",  # German
        "we saw it it it very well",  # a loop that the reference has not
        "he is so so so happy",  # one that it has
        "",
    ]
    words = [[text.split() for text in texts] for texts in (output, refs, sources)]
    found = faults(output, words[0], refs, words[1], words[2], limit=20.0)
    assert found == {
        "empty": [3],
        "copied": [],  # no four in a row
        "wrong language": [0],
        "loops": [1],
        "hallucinated": [0],  # as far from its reference as a stranger's
    }
    assert in_wrong_language([["это", "было"]], words[1], None) == [0]  # by its script alone
    # whatever the tokeniser: of characters "10000" repeats one, and so does "www"
    texts = ["\u4ed6\u670910000\u5143 www", "\u54c8\u54c8\u54c8\u54c8"], ["\u4ed6", "\u4ed6"]
    characters = [[[*text] for text in side] for side in texts]
    assert faults(texts[0], characters[0], texts[1], characters[1], None, 0.0)["loops"] == [1]
    assert "copied" not in faults(output, words[0], refs, words[1], None, limit=12.0)


def test_signs_of_outputs(encoder: Encoder) -> None:
    good = noisy(0.1, 1)
    gamed = tuple(f"{line} and the the the the the the" for line in REFS)
    copied = tuple(SOURCES[:8]) + good[8:]
    systems = [system("MLE", noisy(0.6, 2)), system("gamed", gamed), system("copied", copied)]
    signs = system_signs(systems, REFS, Scorer(encoder=encoder), "MLE", SOURCES)
    mle, game, copy = signs
    tokens = [line.split() for line in gamed]
    assert game.repeated == repeated_share(tokens) > 0.1
    assert game.distinct == len({token for line in tokens for token in line})
    ref_types = len({token for line in REFS for token in line.split()})
    assert game.distinct_ratio == pytest.approx(game.distinct / ref_types)
    words = sum(len(line.split()) for line in REFS)
    assert game.length_ratio == pytest.approx((words + 7 * len(REFS)) / words)
    assert mle.outside == [] and {"length", "repetition"} <= {*game.outside}
    assert copy.copied == 0.1 and "copies" in copy.outside
    assert (game.sim or 0) > (mle.sim or 100) and (game.reward or 0) > (mle.reward or 100)
    warning = next(text for text in system_warnings(signs, "MLE") if text.startswith("gamed: SIM"))
    assert " and SIMILE is " in warning and warning.endswith("around MLE")
    assert "MLE's, but length and repetition outside" in warning


def test_faults_of_several_seeds_are_their_mean() -> None:
    counts = {"loops": 11 / 3, "empty": 1234.0, "copied": 7.0}
    signs = Signs("SIMILE", 1.0, 0.0, 1.0, 1.0, 0.0, 30.0, None, None, counts, {})
    answer = answer_gaming(Gaming([signs], [], "", [], FAULTS, {}), Passages({}))
    table = answer.parts[0]
    assert isinstance(table, Table)
    assert [cell.text for cell in table.groups[0][0]] == ["SIMILE", "3.7", "1234", "7"]

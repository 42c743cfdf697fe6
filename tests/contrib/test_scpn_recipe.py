"""SCPN's recipe: brackets, requests and counts by hand."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from recipes.quickstart import toy
from simile_plugin.encoder import cosine, load_encoder
from simile_plugin.files import InputError
from tests.contrib.papers import SCPN, script

scpn, toy_counts = script(SCPN, "scpn"), script(SCPN, "toy_counts")
brackets, tree = script(SCPN, "brackets"), script(SCPN, "toy_trees").tree
Tree, read_tree = brackets.Tree, brackets.read_tree

SLEPT = "(S (NP (PRP He)) (VP (VBD slept)) (. .))"
RAIN = "(S (PP (IN in) (NP (NN rain))) (, ,) (NP (PRP he)) (VP (VBD slept)) (. .))"


def test_a_tree_without_its_words_and_its_template_by_hand() -> None:
    parsed = read_tree("(ROOT " + SLEPT + ")")
    assert parsed == Tree("S", (Tree("NP", (Tree("PRP"),)), Tree("VP", (Tree("VBD"),)), Tree(".")))
    assert str(parsed) == "(S (NP (PRP)) (VP (VBD)) (.))"
    assert parsed.template == "(S (NP) (VP))"
    assert read_tree(RAIN).template == "(S (PP) (,) (NP) (VP))"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("(S (NP he)", "column 11: found the end, expected the ) of (S"),
        ("(ROOT (A a) (B b))", "the root holds 2 trees; expected one"),
        ("(S" * 5000, "column 401: found 201 open brackets, expected at most 200"),
    ],
)
def test_malformed_brackets_are_one_line(line: str, error: str) -> None:
    with pytest.raises(InputError) as raised:
        read_tree(line)
    assert str(raised.value) == error


def test_a_passive_by_hand() -> None:
    subject = "(NP-SBJ-1 (DT the) (JJ old) (NN dog))"
    passive = "(VP (VBD was) (VP (VBN seen) (PP (IN by) (NP-LGS (DT the) (NNS cats)))))"
    front = "(PP-TMP (IN on) (NP (NNP monday)))"
    expected = f"(S {front} (, ,) {subject} {passive} (. .))"
    assert tree("On Monday, the old dog was seen by the cats.") == expected
    assert tree("The old dog was see by the cats.") is None
    assert tree("The dog, saw the cats.") is None
    assert tree("The old dog that is red saw the cats.") is None


def pair(one: str, other: str) -> tuple[Any, Any]:
    return (f"{one}{other}", Tree(one, (Tree("X"),))), (f"{other}{one}", Tree(other, (Tree("X"),)))


def test_requests_by_hand() -> None:
    # Training pairs, both ways: A is beside B twice and C once, B beside A twice, C beside A once.
    pairs = [pair("A", "B"), pair("C", "C"), pair("A", "B"), pair("B", "A"), pair("C", "A")]
    asked = list(scpn.requests(pairs, test=1, valid=1, more=2, count=1))
    short = [(r.kind, r.row, r.source, r.own[1], r.wanted[1], r.target) for r in asked]
    assert short == [
        ("gold", "0", "AB", "A", "B", "(B (X))"),
        # A three times, B twice, C once; not its own
        ("frequent", "0", "AB", "A", "B", "-"),
        ("paired", "0", "AB", "A", "B", "-"),
        ("more", "2", "AB", "A", "B", "-"),
        ("more", "3", "BA", "B", "A", "-"),
    ]


def test_counts_by_hand() -> None:
    active, front = "(S (NP-SBJ) (VP) (PP-TMP))", "(S (PP-TMP) (,) (NP-SBJ) (VP))"
    source = "The dog saw the cat at night."

    def counts(text: str) -> tuple[bool, ...]:
        return toy_counts.Output(source, text, "", "", active, front, "").counts()

    assert counts("After dark, the hound spotted the cat.") == (True, True, True, False)
    assert counts("At night, the dog saw the cats.") == (True, False, False, False)
    assert counts("The dog noticed the cat at night.") == (False, True, False, True)
    assert counts("The dog the cat.") == (False, False, False, False)


def test_similarities_of_questions_are_means(encoder_folder: Path) -> None:
    rng, pairs = Random(4), []
    for _ in range(20):
        meaning = toy.draw_meaning(rng)
        pairs.append("\t".join(toy.english(meaning, rng) for _ in range(2)))
    asked = list(toy_counts.questions(pairs, 1))
    encoder, told = load_encoder(str(encoder_folder)), 0
    several = [([*first, right], right, wrong) for first, right, wrong in asked]
    for references, right, wrong in several:
        for sentence in wrong:
            sums = [0.0, 0.0]
            for reference in references:
                vectors = encoder.embed_counted([reference, right, sentence]).vectors
                for i in (0, 1):
                    sums[i] += float(cosine(vectors[0], vectors[i + 1]))
            told += sums[0] > sums[1]
    assert toy_counts.judged(encoder_folder, several) == pytest.approx(told)  # of 100

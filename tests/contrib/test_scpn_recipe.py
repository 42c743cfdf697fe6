"""SCPN's recipe: brackets by hand, the toy's trees, requests, controls and counts."""

import re
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
Tree, frequent, read_tree = brackets.Tree, brackets.frequent, brackets.read_tree

SLEPT = "(S (NP (PRP He)) (VP (VBD slept)) (. .))"
RAIN = "(S (PP (IN in) (NP (NN rain))) (, ,) (NP (PRP he)) (VP (VBD slept)) (. .))"


def test_a_tree_without_its_words_and_its_template_by_hand() -> None:
    parsed = read_tree("(ROOT " + SLEPT + ")")
    assert parsed == Tree("S", (Tree("NP", (Tree("PRP"),)), Tree("VP", (Tree("VBD"),)), Tree(".")))
    assert str(parsed) == "(S (NP (PRP)) (VP (VBD)) (.))"
    assert parsed.template == "(S (NP) (VP))"
    assert read_tree(RAIN).template == "(S (PP) (,) (NP) (VP))"


@pytest.mark.parametrize(
    "line",
    [
        *(f"({root} {SLEPT})" for root in ("", "TOP", "S1", "VROOT")),
        SLEPT.replace(" ", "  "),
        SLEPT.replace("slept", "1\u00a01/2\u2028"),
    ],
)
def test_other_parsers_roots_and_spaces(line: str) -> None:
    assert read_tree(line) == read_tree(SLEPT)


def test_marks_beside_the_sentence_as_german_treebanks_have_them() -> None:
    inside = "(S (NP (PPER Er)) (VVFIN schlief))"
    parsed = read_tree(f"(VROOT ($*LRB* -) {inside} ($. .))")
    assert str(parsed) == "(S ($*LRB*) (NP (PPER)) (VVFIN) ($.))"
    assert parsed.template == "(S ($*LRB*) (NP) (VVFIN))"
    assert read_tree("(ROOT (. .))") == Tree(".")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "column 1: found the end, expected ("),
        ("(S (NP he)", "column 11: found the end, expected the ) of (S"),
        ("(S (NP he) slept)", "column 12: found slept, expected the ) of (S"),
        ("(NP the (NN rain))", "column 9: found (, expected the ) of (NP"),
        ("(ROOT (A a) (B b))", "the root holds 2 trees; expected one"),
        ("(())", "the root holds 0 trees; expected one"),
        ("(S" * 5000, "column 401: found 201 open brackets, expected at most 200"),
    ],
)
def test_malformed_brackets_are_one_line(line: str, error: str) -> None:
    with pytest.raises(InputError) as raised:
        read_tree(line)
    assert str(raised.value) == error


def test_the_toys_trees_hold_the_sentence_and_come_back() -> None:
    rng = Random(3)
    for _ in range(300):
        sentence = toy.english(toy.draw_meaning(rng), rng)
        brackets = tree(sentence)
        assert brackets, sentence
        words = sentence.lower().replace(",", " ,").replace(".", " .").split()
        assert re.findall(r"[^\s()]+(?=\))", brackets) == words
        parsed = read_tree(brackets)
        assert read_tree(str(parsed)) == parsed
        assert len(str(parsed).split()) == brackets.count("(")


def test_a_passive_by_hand() -> None:
    subject = "(NP-SBJ-1 (DT the) (JJ old) (NN dog))"
    passive = "(VP (VBD was) (VP (VBN seen) (PP (IN by) (NP-LGS (DT the) (NNS cats)))))"
    front = "(PP-TMP (IN on) (NP (NNP monday)))"
    expected = f"(S {front} (, ,) {subject} {passive} (. .))"
    assert tree("On Monday, the old dog was seen by the cats.") == expected
    assert tree("The old dog was see by the cats.") is None
    assert tree("The dog, saw the cats.") is None
    assert tree("The old dog that is red saw the cats.") is None


def test_a_template_suits_where_a_paraphrase_of_the_meaning_has_it() -> None:
    rng, templates = Random(8), set[str]()
    meanings: list[set[str]] = []
    while len(meanings) < 6:
        meaning = toy.draw_meaning(rng, 1)
        ways = [read_tree(tree(way) or "").template for way in toy.paraphrases(meaning)]
        meanings.append({*ways})
        templates |= {*ways}
    assert len(templates) > 6
    for possible in meanings:
        for own in possible:
            for wanted in templates:
                output = toy_counts.Output("", "", "", "", own, wanted, "")
                assert output.suits() == (wanted in possible)


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


def test_what_the_models_read() -> None:
    source, target = ("he slept", read_tree(SLEPT)), ("in rain , he slept", read_tree(RAIN))
    spaced = "|".join
    t, p = "(S (PP) (,) (NP) (VP))", "(S (PP (IN) (NP (NN))) (,) (NP (PRP)) (VP (VBD)) (.))"

    def pieces(text: str) -> str:
        return spaced(text.split())

    read = {m: scpn.example(m, source, target, pieces) for m in ("parse", "paraphrase", "plain")}
    assert read == {
        "parse": (f"{t} <and> (S (NP (PRP)) (VP (VBD)) (.))", p),
        "paraphrase": (f"he|slept <and> {p}", "in|rain|,|he|slept"),
        "plain": ("he|slept", "in|rain|,|he|slept"),
    }


@pytest.mark.parametrize(
    ("pairs", "trees", "error"),
    [
        ("a\tb\n", f"{SLEPT}\t(S\n", "trees {t}:1: second tree, column 3: found the end, ex"),
        ("a\tb\na\n", f"{SLEPT}\t{RAIN}\n" * 2, "pairs {p}:2: found one column, expected two"),
        ("a\tb\n", SLEPT + "\n", "trees {t}:1: found one column, expected two by a TAB"),
        ("a\tb\n" * 2, f"{SLEPT}\t{RAIN}\n" * 2, "pairs {p} has 2 lines, expected more than"),
    ],
)
def test_bad_input_is_one_line(
    pairs: str, trees: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"p": tmp_path / "pairs.tsv", "t": tmp_path / "trees.tsv"}
    files["p"].write_text(pairs)
    files["t"].write_text(trees)
    assert scpn.main(["prepare", str(tmp_path / "d"), *map(str, files.values())]) == 2
    said = capsys.readouterr().err
    assert said.startswith("scpn.py: error: " + error.format(**files)) and said.count("\n") == 1


def test_the_nearest_sentence_of_a_template(encoder_folder: Path) -> None:
    texts = ["the old ferry", "he paid for tickets", "she folded the map", "the cold water"]
    train = [f"{text}\t{'AB'[i % 2]}" for i, text in enumerate(texts)]
    asked = [scpn.Request("gold", "0", "she paid for the map", "", "", t) for t in "ABC"]
    embed = load_encoder(str(encoder_folder)).embed_counted

    def sim(text: str) -> float:
        vectors = embed([asked[0].source, text]).vectors
        return float(cosine(vectors[0], vectors[1]))

    expected = [max(texts[0::2], key=sim), max(texts[1::2], key=sim), "-"]
    assert list(scpn.nearest(asked, train, encoder_folder)) == expected


def test_counts_by_hand() -> None:
    active, front = "(S (NP-SBJ) (VP) (PP-TMP))", "(S (PP-TMP) (,) (NP-SBJ) (VP))"
    source = "The dog saw the cat at night."

    def counts(text: str) -> tuple[bool, ...]:
        return toy_counts.Output(source, text, "", "", active, front, "").counts()

    assert counts("After dark, the hound spotted the cat.") == (True, True, True, False)
    assert counts("At night, the dog saw the cats.") == (True, False, False, False)
    assert counts("The dog noticed the cat at night.") == (False, True, False, True)
    assert counts("The dog the cat.") == (False, False, False, False)


def test_wrong_sentences_differ_in_one_slot_and_similarities_are_means(
    encoder_folder: Path,
) -> None:
    rng, pairs = Random(4), []
    for _ in range(20):
        meaning = toy.draw_meaning(rng)
        pairs.append("\t".join(toy.english(meaning, rng) for _ in range(2)))
    asked = list(toy_counts.questions(pairs, 1))
    for (reference,), right, wrong in asked:
        meaning = toy.parse(reference) or pytest.fail(reference)
        assert toy.parse(right) == meaning and len(wrong) == toy_counts.WRONG
        for sentence in wrong:
            said = toy.parse(sentence) or pytest.fail(sentence)
            slots = zip(said.slots().items(), meaning.slots().items(), strict=True)
            assert sum(one != other for one, other in slots) == 1
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

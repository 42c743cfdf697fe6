"""Examples: the kinds against a slow loop, marks, equal and trivial outputs, people."""

import numpy as np
import pytest

from simile_plugin.report.answer import Passages
from simile_plugin.report.inputs.buckets import cut
from simile_plugin.report.questions.examples import (
    Compared,
    Examples,
    answer_examples,
    choose_examples,
    marked,
)

from .test_results import REFS, noisy, system

FIRST, SECOND = noisy(0.3, 1), noisy(0.2, 2)
PAIR = system("BLEU", FIRST), system("SIMILE", SECOND, noisy(0.2, 3))
SOURCES = [f"source {i}" for i in range(len(REFS))]
RNG = np.random.default_rng(3)
SCORES = {name: RNG.uniform(0, 100, (len(REFS), 2)) for name in ("BLEU", "SIM")}
WAY = cut("length", "Length", [len(ref.split()) for ref in REFS], (8, 12))


@pytest.fixture(scope="module")
def result() -> Examples:
    return choose_examples(Compared(PAIR, REFS, SOURCES), SCORES, number=5, ways=[WAY])


def test_the_kinds_are_those_of_a_slow_loop(result: Examples) -> None:
    found: dict[str, dict[int, float]] = {
        kind: {} for kind in ("first_better", "second_better", "disagree", "by_bleu", "by_sim")
    }
    for i, (first, second) in enumerate(zip(FIRST, SECOND, strict=True)):
        bleu, sim = (float(SCORES[name][i, 1] - SCORES[name][i, 0]) for name in ("BLEU", "SIM"))
        if first == second:
            continue
        found["by_bleu"][i] = abs(bleu) - abs(sim)
        found["by_sim"][i] = abs(sim) - abs(bleu)
        if bleu * sim < 0:
            found["disagree"][i] = min(abs(bleu), abs(sim))
        else:
            found["first_better"][i] = -(bleu + sim) / 2
            found["second_better"][i] = (bleu + sim) / 2
    for kind, values in found.items():
        ranked = sorted((-value, i) for i, value in values.items() if value > 0)
        assert [one.line - 1 for one in result.kinds[kind]] == [i for _, i in ranked[:5]]
    one = result.kinds["disagree"][0]
    row = one.line - 1
    texts = [one.source, one.ref, one.first, one.second]
    assert texts == [SOURCES[row], REFS[row], FIRST[row], SECOND[row]]
    assert one.tags == [f"length-{WAY.places[row]}"]
    # The page has sentences of every bucket, however small.
    shown = [one for chosen in (*result.kinds.values(), result.of_buckets) for one in chosen]
    assert {tag for one in shown for tag in one.tags} == {f"length-{b}" for b in {*WAY.places}}


def test_equal_outputs_once_and_trivial_differences_last() -> None:
    refs = ["a b", "c d", "e f"]
    first, second = system("A", ["x", "C  D", "e"]), system("B", ["x", "c d", "e g"])
    other = system("other", ["x", "c d", "e g"])
    scores = {"BLEU": np.array([[0.0, 0.0], [0.0, 90.0], [0.0, 10.0]])}
    data = choose_examples(Compared((first, second), refs, others=[other]), scores)
    assert data.different == 2
    assert [one.line for one in data.kinds["second_better"]] == [
        3,
        2,
    ]  # 2 differs in case and spaces
    (part,) = answer_examples(data).parts
    assert isinstance(part, Passages)
    labels = [label for label, _ in part.kinds["B better"][0].lines]
    assert labels == ["reference", "A", "other, B"]


def test_marked_words() -> None:
    """Of the words that differ: green what the reference has in its place, amber the others."""
    assert marked("a red & old boat", "a blue boat now", "a blue old boat") == (
        [("a", ""), ("red &", "differs"), ("old", "agrees"), ("boat", "")],
        [("a", ""), ("blue", "agrees"), ("boat", ""), ("now", "differs")],
    )
    assert marked("", "x", "x") == ([], [("x", "agrees")])


def test_a_third_system_and_what_people_said() -> None:
    mle = system("MLE", noisy(0.4, 4))
    different = [i for i, (a, b) in enumerate(zip(FIRST, SECOND, strict=True)) if a != b]
    one, other, half = different[:3]
    rated = {
        (one + 1, FIRST[one]): 1.0,
        (one + 1, SECOND[one]): 4.5,
        (one + 1, mle.outputs[0][one]): 2.0,
        (other + 1, FIRST[other]): 3.0,
        (other + 1, SECOND[other]): 0.5,
        (half + 1, SECOND[half]): 5.0,  # its rival was not rated: neither better nor worse
    }
    found = choose_examples(Compared(PAIR, REFS, others=[mle]), SCORES, number=2, ratings=rated)
    assert [e.line for e in found.kinds["better"]] == [one + 1]
    assert [e.line for e in found.kinds["worse"]] == [other + 1]
    assert found.kinds["better"][0].ratings == {"BLEU": 1.0, "SIMILE": 4.5, "MLE": 2.0}
    (part,) = answer_examples(found).parts
    assert isinstance(part, Passages)
    (passage,) = part.kinds["people prefer SIMILE"]
    labels = [label for label, _ in passage.lines]
    assert labels == ["reference", "MLE (2.0)", "BLEU (1.0)", "SIMILE (4.5)"]

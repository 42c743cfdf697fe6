"""The results table: scores, averages over seeds, tests, marks, layout."""

import random
from collections.abc import Sequence

import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF

from simile_plugin.encoder import load_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.report.comparison import Comparison, References, compare_systems
from simile_plugin.report.inputs.options import PairedTest, choose_baselines
from simile_plugin.report.inputs.texts import System
from simile_plugin.report.questions.results import answer_results
from simile_plugin.report.render.text import render_text
from simile_plugin.reward import Scorer
from simile_plugin.reward.spec import Reward
from simile_plugin.significance.tables import markdown_table, text_table
from tests.conftest import SENTENCES

REFS = SENTENCES * 10


def noisy(share: float, seed: int) -> tuple[str, ...]:
    """The references with a share of their words replaced."""
    rng = random.Random(seed)
    words = [word for sentence in SENTENCES for word in sentence.split()]
    return tuple(
        " ".join(rng.choice(words) if rng.random() < share else word for word in ref.split())
        for ref in REFS
    )


def system(name: str, *outputs: Sequence[str]) -> System:
    files = tuple(f"{name}{i}.txt" for i in range(len(outputs)))
    return System(name, files, tuple(tuple(output) for output in outputs))


SYSTEMS = [
    system("MLE", noisy(0.4, 1)),
    system("BLEU", noisy(0.3, 2)),
    system("SIMILE", noisy(0.1, 3), noisy(0.15, 4)),
    system("copy", noisy(0.4, 1)),
]
GIVEN = References("ref.txt", REFS)
FEW = PairedTest(resamples=200)


@pytest.fixture(scope="module")
def results(encoder: Encoder) -> Comparison:
    return compare_systems(SYSTEMS, GIVEN, Scorer(encoder=encoder), FEW)


def test_bleu_chrf_and_length_ratio_are_sacrebleus(results: Comparison) -> None:
    for row, source in zip(results.systems, SYSTEMS, strict=True):
        for i, output in enumerate(source.outputs):
            expected = BLEU().corpus_score(list(output), [REFS])
            assert row.scores["bleu"].seeds[i] == pytest.approx(expected.score, abs=1e-9)
            assert row.length_ratio.seeds[i] == pytest.approx(expected.ratio, abs=1e-12)
            chrf = CHRF().corpus_score(list(output), [REFS])
            assert row.scores["chrf"].seeds[i] == pytest.approx(chrf.score, abs=1e-9)
        mean = sum(row.scores["bleu"].seeds) / len(source.outputs)
        assert row.scores["bleu"].value == pytest.approx(mean, abs=1e-9)


def test_sim_and_simile_are_the_means_of_scorer_lists(
    results: Comparison, encoder: Encoder
) -> None:
    for row, source in zip(results.systems, SYSTEMS, strict=True):
        for i, output in enumerate(source.outputs):
            direct = Scorer(encoder=encoder).lists([[hyp] for hyp in output], REFS)
            assert direct.sim is not None and direct.simile is not None
            sim, simile = (100 * t.double().mean().item() for t in (direct.sim, direct.simile))
            assert row.scores["sim"].seeds[i] == pytest.approx(sim, abs=1e-5)
            assert row.scores["simile"].seeds[i] == pytest.approx(simile, abs=1e-5)


def test_a_fault_of_one_output_is_told_before_those_of_all() -> None:
    """Three outputs with tags, and a fourth that stands a line too low as well."""
    rng = random.Random(6)
    words = [start + end for start in "bdfgkl" for end in ("ale", "orn", "ist", "ump", "eet")]
    refs = [f"The {' '.join(rng.sample(words, 7))}." for _ in range(60)]
    tagged = [f"{ref.replace('The', 'A')} </s>" for ref in refs]
    systems = [system(name, tagged) for name in "ABC"] + [system("D", tagged[1:] + tagged[:1])]
    data = compare_systems(systems, References("ref.txt", refs), Scorer(), FEW)
    apart, marks = data.text_warnings
    assert apart.startswith("line 1 of D0.txt (") and "like line 2 of the references" in apart
    assert marks.startswith("A0.txt has lines with '</s>'")
    assert marks.endswith(" (and 3 of the other outputs)")
    shown = render_text(answer_results(data))
    assert shown.index(apart) < shown.index(marks) and "more of the text" not in shown


def test_what_is_not_told_of_texts_is_counted() -> None:
    refs = [f"House {n} of this street waits for the rain of spring." for n in range(100)]
    ends = ("</s>", "caf\ufffd", "a\u200bb", "@@ x", "&amp;")
    systems = [system(str(n), [f"{ref} {end}" for ref in refs]) for n, end in enumerate(ends)]
    data = compare_systems(systems, References("ref.txt", refs), Scorer(), FEW)
    assert len(data.text_warnings) == 5
    shown = render_text(answer_results(data))
    assert "warning: 2 more of the text: simile score tells all of every file" in shown
    assert data.text_warnings[2] in shown and data.text_warnings[3] not in shown


def test_the_learned_reward_beside_the_encoder_of_the_package(results: Comparison) -> None:
    """One more column, tested as the others are, whose numbers it does not change."""
    encoder, learned = load_encoder("default"), Reward("learned").learned
    found = compare_systems(SYSTEMS, GIVEN, Scorer(encoder=encoder, learned=learned), FEW)
    first, second, *_ = found.systems
    assert [*first.scores] == ["bleu", "sim", "simile", "learned", "chrf"]
    assert "learned" not in results.systems[0].scores
    for row, source in zip((first, second), SYSTEMS, strict=False):
        lists = [[hyp] for hyp in source.outputs[0]]
        scores = Scorer(encoder=encoder, learned=learned).lists(lists, REFS)
        assert scores.learned is not None
        mean = 100 * scores.learned.double().mean().item()
        assert row.scores["learned"].value == pytest.approx(mean, abs=1e-5)
    assert second.scores["bleu"] == results.systems[1].scores["bleu"]
    assert found.signatures["LEARNED"].startswith("learned:e3ea2760a527|enc:0a392971bd6e|")


@pytest.mark.parametrize(
    ("ref", "tokenize", "warned"),
    [
        ("我们明天去海", "13a", True),
        ("พรุ่งนี้เราจะไปทะเล", "zh", True),
        ("we see it", "13a", False),
    ],
)
def test_text_without_spaces_is_warned_of(ref: str, tokenize: str, warned: bool) -> None:
    settings = Scorer(tokenize=tokenize)
    found = compare_systems([system("A", [ref])], References("ref.txt", [ref]), settings, FEW)
    told = "the references have next to no spaces" in render_text(answer_results(found))
    assert told == found.unspaced == warned


def test_comparisons(results: Comparison) -> None:
    rows = {row.name: row.scores["bleu"] for row in results.systems}
    assert results.baselines == ["MLE", "BLEU"]
    assert rows["MLE"].against == []
    assert [c.baseline for c in rows["BLEU"].against] == ["MLE"]
    assert [c.baseline for c in rows["SIMILE"].against] == ["MLE", "BLEU"]
    for comparison in rows["SIMILE"].against:
        expected = rows["SIMILE"].value - rows[comparison.baseline].value
        assert comparison.difference == pytest.approx(expected)
        assert comparison.p_value == 1 / 201
        assert comparison.p_holm == pytest.approx(5 / 201)  # of five comparisons
    copied = rows["copy"].against[0]
    assert (copied.difference, copied.p_value) == (0.0, 1.0)
    around = rows["MLE"].interval
    assert around.low < rows["MLE"].value < around.high


def test_sentence_scores_become_a_tested_metric(encoder: Encoder) -> None:
    # 80 sentences: 20 right, then 60 and 70 right by seed: 25.0 %, and (75 + 87.5) / 2 = 81.25 %
    right = {
        "A": [[1.0] * 20 + [0.0] * 60],
        "B": [[0.0] * 20 + [1.0] * 60, [1.0] * 70 + [0.0] * 10],
    }
    pair = [system("A", noisy(0.2, 1)), system("B", noisy(0.2, 2), noisy(0.2, 5))]
    results = compare_systems(pair, GIVEN, Scorer(), FEW, more={"meaning": right})
    found = [row.scores["meaning"] for row in results.systems]
    assert found[0].value == pytest.approx(25.0)
    assert found[1].seeds == pytest.approx((75.0, 87.5))
    assert found[1].value == pytest.approx(81.25)
    assert found[1].against[0].difference == pytest.approx(56.25)
    assert found[1].against[0].p_value == 1 / 201


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [
        (["SIMILE", "bleu", "MLE"], [], ("MLE", "bleu")),
        (["x", "BLEU"], [], ("BLEU",)),
        (["x", "y"], [], ("x",)),
        (["x", "y", "MLE"], ["y", "x"], ("y", "x")),
    ],
)
def test_baselines(names: list[str], wanted: list[str], chosen: tuple[str, ...]) -> None:
    assert choose_baselines(names, wanted) == chosen


def test_bad_baselines_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^--baseline: got .*; expected one"):
        choose_baselines(["x", "y", "w"], ["x", "x"])


def test_scores_that_are_not_numbers_are_refused(encoder: Encoder) -> None:
    # Products of such weights overflow: inf / inf.
    broken = Encoder(torch.full_like(encoder.weight, 1e30), encoder.segmenter)
    with pytest.raises(ValueError, match=r"^MLE0.txt:1: SIMILE is not a finite number"):
        compare_systems(SYSTEMS[:1], GIVEN, Scorer(encoder=broken), FEW)


# --- layout ---


def test_text_table_by_hand() -> None:
    grid = [["System", "BLEU"], ["MLE", "9.50"], ["SIMILE-risk", "10.25"]]
    assert text_table(grid).splitlines() == [
        "System        BLEU",
        "------------------",
        "MLE           9.50",
        "SIMILE-risk  10.25",
    ]


def test_markdown_escapes_what_would_break_the_table() -> None:
    assert markdown_table([["a|b", "c"], ["  seed 1", "<x>"]]).splitlines() == [
        r"| a\|b | c |",
        "| :--- | ---: |",
        r"| &nbsp;&nbsp;seed 1 | \<x> |",
    ]


def test_text_shows_scores_seeds_marks_and_p_values(results: Comparison) -> None:
    text = render_text(answer_results(results))
    row = {row.name: row for row in results.systems}["SIMILE"]
    value, seeds = row.scores["bleu"].value, row.scores["bleu"].seeds
    lines = text.splitlines()
    assert lines[0] == "Results on 80 sentences of ref.txt"
    simile = lines.index(next(line for line in lines if line.startswith("SIMILE ")))
    assert lines[simile].split()[:3] == ["SIMILE", "2", f"{value:.2f}"]
    assert lines[simile].count("‡†") == 4
    for i in (0, 1):
        assert lines[simile + 1 + i].split()[:3] == ["seed", str(i + 1), f"{seeds[i]:.2f}"]
    copied = next(line for line in lines if line.startswith("copy "))
    assert "‡" not in copied and "†" not in copied
    assert any(line.startswith("copy - MLE") and "+0.00 (p 1.000)" in line for line in lines)
    assert "‡ better than MLE, † better than BLEU: p < 0.05, after Holm over 5 comparisons" in text
    assert results.signatures["BLEU"] in text and results.signatures["SIM, SIMILE"] in text
    # decimal points of a column stand under each other
    decimal = {line.index(".") for line in lines[simile : simile + 3]}
    assert len(decimal) == 1

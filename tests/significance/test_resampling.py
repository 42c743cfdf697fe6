"""Paired tests against sacreBLEU's own, slow loops, and hand arithmetic."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from simile_plugin.reward.bleu import corpus_bleu
from simile_plugin.significance import resampling as significance
from simile_plugin.significance.resampling import (
    Floats,
    SentenceStatistics,
    bootstrap,
    bootstrap_p_value,
    holm,
    interval,
    mean_statistics,
    resample_counts,
    sacrebleu_p_value,
)
from tests.bleu import bleu_statistics

WORDS = "the a grey heron waits beside cold water while two boys skip stones over it".split()


def make_outputs(seed: int, noise: Sequence[float], sentences: int) -> list[list[str]]:
    """A reference and one noisy copy of it per entry of `noise` (share of replaced words)."""
    rng = random.Random(seed)
    refs = [[rng.choice(WORDS) for _ in range(rng.randint(4, 14))] for _ in range(sentences)]
    outputs = [[" ".join(ref) for ref in refs]]
    for share in noise:
        noisy = [[rng.choice(WORDS) if rng.random() < share else w for w in ref] for ref in refs]
        outputs.append([" ".join(words) for words in noisy])
    return outputs


def bleu(*seeds: Sequence[str], refs: Sequence[str]) -> SentenceStatistics:
    values = [[bleu_statistics(h, r) for h, r in zip(hyps, refs, strict=True)] for hyps in seeds]
    return SentenceStatistics(np.array(values, dtype=np.int32), score_bleu)


def score_bleu(sums: Floats) -> Floats:
    return corpus_bleu(torch.from_numpy(sums)).numpy()


def sacrebleu_results(
    kind: str, samples: int, outputs: Sequence[Sequence[str]], refs: Sequence[str]
) -> Any:
    named: list[tuple[str, Sequence[str]]] = [(f"system {i}", h) for i, h in enumerate(outputs)]
    test = PairedTest(
        named, {"BLEU": BLEU()}, [list(refs)], kind, samples, n_ar_confidence=-1, n_jobs=1
    )
    return test()[1]["BLEU"]


# --- agreement with sacreBLEU, at the same seed: the same resamples, so the same p ---


@pytest.mark.parametrize(("noise", "seed"), [((0.3, 0.28), 2), ((0.4, 0.3), 3)])
def test_bootstrap_is_sacrebleus(
    noise: tuple[float, float], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    refs, base, other = make_outputs(seed, noise, 150)
    theirs = sacrebleu_results("bs", 300, [base, other], refs)
    systems = [bleu(base, refs=refs), bleu(other, refs=refs)]
    scores = bootstrap(systems, resamples=300, seed=7)
    difference = systems[1].corpus() - systems[0].corpus()
    assert sacrebleu_p_value(scores[0], scores[1], difference, 150) == theirs[1].p_value
    for ours, system, result in zip(scores, systems, theirs, strict=True):
        limits = interval(ours)
        assert system.corpus() == pytest.approx(result.score, abs=1e-9)
        # sacreBLEU divides sums in float32
        assert limits.mean == pytest.approx(result.mean, abs=1e-6)
        assert (limits.high - limits.low) / 2 == pytest.approx(result.ci, abs=1e-5)


def test_identical_outputs_are_not_significant_here_but_are_for_sacrebleu() -> None:
    refs, base = make_outputs(1, [0.3], 40)
    assert sacrebleu_results("bs", 99, [base, base], refs)[1].p_value == 1 / 100
    system = bleu(base, refs=refs)
    scores = bootstrap([system, system], resamples=99)
    assert bootstrap_p_value(scores[0], scores[1], 0.0, 40) == 1.0


# --- the draws do not depend on how they are cut into chunks ---


@pytest.mark.parametrize("cells", [1, 500, 10**6])
def test_draws_do_not_depend_on_the_chunks(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "CHUNK_CELLS", cells)
    drawn = np.random.default_rng(3).choice(37, size=(90, 37), replace=True)
    counts = np.array([np.bincount(row, minlength=37) for row in drawn])
    assert np.array_equal(np.concatenate(list(resample_counts(37, 90, seed=3))), counts)


# --- slow loops that follow the definitions ---


def test_bootstrap_agrees_with_a_slow_loop_over_seeds_and_sentences() -> None:
    refs, *outputs = make_outputs(5, (0.2, 0.3, 0.4), 30)
    one, two = bleu(outputs[0], refs=refs), bleu(*outputs[1:], refs=refs)
    scores = bootstrap([one, two], resamples=25, seed=11)
    rng = np.random.default_rng(11)
    metric = BLEU()
    for resample, drawn in enumerate(rng.choice(30, size=(25, 30), replace=True)):
        drawn_refs = [[refs[i] for i in drawn]]
        slow = [metric.corpus_score([o[i] for i in drawn], drawn_refs).score for o in outputs]
        assert scores[0, resample] == pytest.approx(slow[0], abs=1e-9)
        assert scores[1, resample] == pytest.approx((slow[1] + slow[2]) / 2, abs=1e-9)


# --- hand arithmetic ---


def test_p_value_by_hand() -> None:
    # d = 1, -2, 6, 0: two of four are not above 0, (2 + 1) / (4 + 1); three are not below it
    baseline, system = np.array([5.0, 5.0, 5.0, 5.0]), np.array([6.0, 3.0, 11.0, 5.0])
    assert bootstrap_p_value(baseline, system, 2.5, 9) == 3 / 5
    assert bootstrap_p_value(baseline, system, -2.5, 9) == 4 / 5
    assert bootstrap_p_value(baseline, system, 0.0, 9) == 1


def test_p_value_of_sacrebleu_by_hand() -> None:
    # |d| = 1, 2, 6, 3, mean 3; |d| - mean = -2, -1, 3, 0; one of four is >= 2.5: (1+1)/(4+1)
    baseline, system = np.array([5.0, 5.0, 5.0, 5.0]), np.array([6.0, 3.0, 11.0, 2.0])
    assert sacrebleu_p_value(baseline, system, 2.5, 9) == 2 / 5
    assert sacrebleu_p_value(baseline, system, -2.5, 9) == 2 / 5
    # a tie counts: 3 >= 3
    assert sacrebleu_p_value(baseline, system, 3.0, 9) == 2 / 5
    assert sacrebleu_p_value(baseline, system, 3.1, 9) == 1 / 5


def test_holm_by_hand() -> None:
    # 0.01 x 3, then 0.02 x 2, then 0.03 x 1, which may not fall below the one before
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_single_sentence_is_no_evidence() -> None:
    pair = [mean_statistics(np.array([[value]])) for value in (0.2, 0.9)]
    draws = bootstrap(pair, 50)
    assert bootstrap_p_value(draws[0], draws[1], 0.7, 1) == 1.0


def test_interval_by_hand() -> None:
    # 80 // 40 = 2 of 80 scores lie outside at each end of 0, 1, ..., 79
    limits = interval(np.random.default_rng(0).permutation(80).astype(np.float64))
    assert (limits.low, limits.high, limits.mean) == (2.0, 77.0, 39.5)


def test_seed_mean_by_hand() -> None:
    # seeds (0, 1, 2) and (4, 4, 1): means 1 and 3, the system's score 2
    system = mean_statistics(np.array([[0.0, 1.0, 2.0], [4.0, 4.0, 1.0]]))
    assert system.seed_scores().tolist() == [1.0, 3.0]
    assert system.corpus() == 2.0


# --- properties ---

SCORES = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=12)


@settings(max_examples=40)
@given(SCORES, st.integers(0, 5))
def test_order_of_systems_and_of_seeds_does_not_matter(scores: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a: NDArray[np.float64] = np.array(scores)[None]
    b = rng.uniform(-1, 1, (2, len(scores)))
    one, two, reordered = mean_statistics(a), mean_statistics(b), mean_statistics(b[::-1])
    draws = bootstrap([one, two, reordered], 64, seed)
    difference = two.corpus() - one.corpus()
    forward = bootstrap_p_value(draws[0], draws[1], difference, len(scores))
    assert forward == bootstrap_p_value(draws[1], draws[0], -difference, len(scores))
    assert forward == bootstrap_p_value(draws[0], draws[2], difference, len(scores))


def test_false_alarms_come_as_often_as_the_docstrings_say() -> None:
    # Pairs of equal systems: a bootstrap test looks at one tail, so p < 0.05 in 5 of 100 tests in
    # each direction. 400 tests: a standard error of 1.1 of 100.
    rng = np.random.default_rng(0)
    alarms = {"better": 0, "worse": 0}
    for _ in range(400):
        pair = [mean_statistics(rng.normal(size=(1, 100))) for _ in range(2)]
        difference = pair[1].corpus() - pair[0].corpus()
        draws = bootstrap(pair, 200)
        if bootstrap_p_value(draws[0], draws[1], difference, 100) < 0.05:
            alarms["better" if difference > 0 else "worse"] += 1
    assert all(0.015 * 400 <= count <= 0.085 * 400 for count in alarms.values()), alarms


@pytest.mark.parametrize("sizes", [(3, 4), (0, 0)])
def test_unequal_or_empty_test_sets_are_refused(sizes: tuple[int, int]) -> None:
    systems = [mean_statistics(np.zeros((1, size))) for size in sizes]
    with pytest.raises(ValueError, match=r"paired test: got outputs of .* sentences; expected"):
        bootstrap(systems)

"""Labelled pairs, folds without leaks, classifiers on problems with a known answer."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.contrib.detection import (
    DetectionSet,
    best_threshold,
    evaluate_detection,
    fit_perceptron,
    group_folds,
    read_detection,
    shared_sentence_groups,
)

# --- files ---


def read(tmp_path: Path, text: str) -> DetectionSet:
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8")
    return read_detection(path, "--train")


def test_opusparcus_layout(tmp_path: Path) -> None:
    lines = ["fi-D1\tja niin\tniin kai\t4.0", "fi-D2\ta .\tb .\t2.5", "fi-D3\tc .\td .\t1.5"]
    found = read(tmp_path, "\n".join([*lines, "fi-D4\te .\tf .\t3.0"]) + "\n")
    assert found.left == ["ja niin", "c .", "e ."]
    assert found.labels.tolist() == [True, False, True]
    assert found.dropped == 1


@pytest.mark.parametrize(
    "text",
    [
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\ta\tb\t1\n2\t3\t4\tc\td\t0\n",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta\tb\n0\t9\t5\tc\td\n",
        "sentence1\tsentence2\tlabel\na\tb\tTrue\nc\td\tFalse\n",
    ],
)
def test_headers_of_others(tmp_path: Path, text: str) -> None:
    (tmp_path / "pairs").write_text(text)
    found = read_detection(tmp_path / "pairs", "--train")
    assert (found.left, found.right) == (["a", "c"], ["b", "d"])
    assert found.labels.tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\t1\nc\td\n", "pairs.tsv:2: got 2 tab-separated columns, expected 3 as in"),
        ("a\tb\t4\nc\td\t0\n", "pairs.tsv:2: got grade 0, expected 1 to 4"),
        ("i\ta\tb\t1\nj\tc\t \t0\n", "pairs.tsv:2: an empty sentence"),
        ("a\tb\t3\nc\td\t4\n", "2 of its 2 pairs are paraphrases, expected pairs of both"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


# --- folds ---


def test_pairs_that_share_a_sentence_are_one_group() -> None:
    left, right = ["a", "c", "b", "e", "g"], ["b", "d", "c", "f", "e"]
    # a-b, b-c, c-d hang together, e-f and g-e too.
    assert shared_sentence_groups(left, right).tolist() == [0, 0, 0, 1, 1]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=12, max_size=60),
    st.integers(2, 4),
)
def test_folds_share_no_sentence(pairs: list[tuple[int, int]], folds: int) -> None:
    left, right = [f"s{a}" for a, _ in pairs], [f"s{b}" for _, b in pairs]
    groups = shared_sentence_groups(left, right)
    if groups.max() + 1 < folds:
        with pytest.raises(ValueError, match="--folds"):
            group_folds(groups, folds, 1)
        return
    found = group_folds(groups, folds, 1)
    assert set(found.tolist()) == set(range(folds))
    of_sentence: dict[str, set[int]] = {}
    for one, other, fold in zip(left, right, found.tolist(), strict=True):
        of_sentence.setdefault(one, set()).add(fold)
        of_sentence.setdefault(other, set()).add(fold)
    assert all(len(where) == 1 for where in of_sentence.values())


# --- classifiers ---


def test_threshold_by_hand() -> None:
    labels = np.array([True, True, False, True, False])
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.1])
    # right with t in the gaps from above: 2, 3, 4, 3, 4, 3 of 5; of the two fours the higher t
    assert best_threshold(scores, labels) == pytest.approx(0.75)
    # With the labels exchanged: 3, 2, 1, 2, 1, 2 of 5, so nothing is a paraphrase.
    assert best_threshold(scores, ~labels) == math.inf
    assert best_threshold(scores, np.ones(5, dtype=bool)) == -math.inf


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_classifies_better(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([score / 4 for score, _ in rows])
    labels = np.array([label for _, label in rows])
    best = ((scores >= best_threshold(scores, labels)) == labels).sum()
    cuts = [-1.0, *sorted(set(scores + 0.125)), 9.0]
    assert best == max(((scores >= cut) == labels).sum() for cut in cuts)


def test_the_perceptron_learns_what_is_not_linear() -> None:
    torch.manual_seed(0)
    x = torch.randn(600, 2)
    labels = ((x[:, 0] * x[:, 1]) > 0).numpy()  # exclusive or
    predict = fit_perceptron(x[:400] * 50 + 7, labels[:400], 1, epochs=60)
    assert (predict(x[400:] * 50 + 7) == labels[400:]).mean() > 0.9


# --- the evaluation ---


def embed(sentences: Sequence[str]) -> torch.Tensor:
    """Sentences are angles in degrees."""
    angles = torch.tensor([math.radians(float(s.split()[0])) for s in sentences])
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def angle_set(count: int, seed: int, name: str = "x") -> DetectionSet:
    """A pair is a paraphrase if its two angles are near; a third of the pairs are."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3 == 0
    first = rng.uniform(0, 360, count)
    apart = np.where(labels, rng.uniform(0, 20, count), rng.uniform(40, 90, count))
    left = [f"{a:.4f} {name}{i}" for i, a in enumerate(first)]
    right = [f"{a:.4f} {name}{i}" for i, a in enumerate(first + apart)]
    return DetectionSet(name, left, right, labels, 0)


def test_trained_on_one_set_and_tested_on_another() -> None:
    found = evaluate_detection(embed, angle_set(600, 1), angle_set(300, 2, "y"), resamples=200)
    assert found.protocol == "trained on x, tested on y"
    assert (found.pairs, found.train_pairs) == (300, 600)
    assert (found.threshold, found.auc) == (100, 100)  # 20 degrees against 40
    assert found.perceptron_mean == pytest.approx(np.mean(found.perceptron))
    assert found.perceptron_mean > found.majority
    low, high = found.perceptron_interval
    assert low < found.perceptron_mean < high
    assert found.threshold_interval == (100, 100)
    assert found.all_paraphrases == pytest.approx(100 / 3)
    assert found.majority == pytest.approx(200 / 3)


def test_cross_validation_tests_every_pair_once() -> None:
    trainings: list[int] = []
    pairs = angle_set(90, 3)
    found = evaluate_detection(
        embed, pairs, folds=3, seeds=(1, 2), resamples=50, progress=trainings.append
    )
    assert found.pairs == 90
    assert found.train_pairs == 60
    assert sum(trainings) == 6
    assert found.threshold == 100
    assert "3-fold cross-validation on x" in found.protocol
    again = evaluate_detection(embed, pairs, folds=3, seeds=(1, 2), resamples=50)
    assert again == found


def test_an_encoder_of_another_script_is_refused() -> None:
    with pytest.raises(ValueError, match="knows no piece of any sentence"):
        evaluate_detection(lambda s: torch.zeros(len(s), 2), angle_set(30, 1))

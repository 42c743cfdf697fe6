"""Sums that are logged: hand arithmetic."""

import math

import pytest
import torch

from simile_plugin.reward import ListScores, repetition
from simile_plugin.risk.list_reward import Judged
from simile_plugin.risk.update_log import Scored, sums_over_sentences


def test_repetition_by_hand() -> None:
    # ab ba ab: one of three again; cc cc: one of two; one word has none
    assert repetition([[*"abab"], [*"ccc"], ["d"], []]) == pytest.approx(1 / 3 + 1 / 2)
    # a sentence that loops counts once, however long
    assert repetition([["a"] * 1000, [*"abcd"]]) < 1


def test_sums_over_sentences_by_hand() -> None:
    # Two sentences, a reference and two candidates each. The second has no member, and a
    # reference without a finite score: its loss and its tokens do not count, its cost is 1.
    scored = Scored(
        token_lprobs=torch.zeros(2, 3, 1),
        mean_lprobs=torch.zeros(2, 1),
        reward=torch.tensor([[0.9, 0.6, 0.2], [0.9, 0.0, 0.0]]),
        members=torch.tensor([[False, True, True], [False, False, False]]),
        references=torch.tensor([True, False]),
        dropped=torch.tensor([0, 3]),
        distribution=torch.tensor([[0.0, 0.75, 0.25], [0.0, 0.0, 0.0]]),
        risk=torch.tensor([0.5, 1.0]),
        nll=torch.tensor([4.0, 0.0]),
        loss=torch.tensor([2.0, 9.0]),
    )
    stats = torch.zeros(2, 3, 10, dtype=torch.int64)
    stats[..., 0] = torch.tensor([[4, 5, 3], [7, 2, 0]])  # words
    stats[..., 1] = torch.tensor([[4], [7]])  # of the reference
    scores = ListScores(
        bleu_stats=stats,
        bleu=torch.tensor([[1.0, 0.5, 0.1], [1.0, 0.3, 0.0]]),
        sim=torch.tensor([[1.0, 0.7, 0.6], [1.0, 0.4, 0.0]]),
        simile=torch.tensor([[1.0, 0.8, 0.4], [1.0, 0.2, 0.0]]),
    )
    hyps = [["r", "a b", "a b"], ["r", "c c c", ""]]
    lengths = torch.tensor([[0.0, 1 / 4, -1 / 4], [0.0, -5 / 7, -1.0]])
    judged = Judged(hyps, scores, torch.zeros(2, 3), lengths)
    found = sums_over_sentences(scored, judged, torch.tensor([5, 8]))
    # lengths relative to 4 words: 1/4 and -1/4, mean 1/8; costs 0.4 and 0.8, mean 0.5
    expected = {
        "loss": 2.0,
        "nonfinite": 3,
        "unscored": 1,
        "empty": 1,
        "nll_loss": 4.0,
        "ntokens": 5,
        "nsentences": 2,
        "references": 2,
        "sample_size": 2,
        "cost": 1.5,
        "distinct": 1 / 2 + 1,
        "entropy_q": -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)),
        "reward_std": 0.2,  # 0.6 and 0.2 about 0.4
        "zero_std": 1,
        "candidates": 2,
        "cost_bleu": 0.75 * 0.5 + 0.25 * 0.9 + 1,
        "cost_simile": 0.75 * 0.2 + 0.25 * 0.6 + 1,
        "sim": 0.7 + 0.4,
        "simile": 0.8 + 0.2,
        "length_covariance": 0.75 * -0.1 * 1 / 8 + 0.25 * 0.3 * -3 / 8,
        "length_variance": 0.75 * (1 / 8) ** 2 + 0.25 * (3 / 8) ** 2,
        "expected_words": 0.75 * 5 + 0.25 * 3,
        "words": 4,
        "repetition": 1 / 2,
    }
    assert found.pop("bleu_stats").tolist() == [5 + 2, 4 + 7, *[0] * 8]
    numbers = {name: float(value) for name, value in found.items()}
    assert numbers == pytest.approx(expected, rel=1e-5)

"""Scores of sentence pairs by every metric that is compared with people: (n,) each.

One way, the second sentence is the reference; "sym." is the mean of both directions, as the paper's
Table 65 has it for metrics that tell hypothesis from reference. SIM and SIMILE are symmetric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation.meteor import Meteor
from simile_plugin.files import InputError
from simile_plugin.reward import (
    SIMILE_ALPHA,
    LearnedReward,
    Scorer,
    chrf_statistics,
    corpus_chrf,
)
from simile_plugin.significance import Floats, spearman

SYMMETRIC = " sym."
# Of scores that follow nothing, Spearman's correlation has a standard deviation of 1 / sqrt(n - 1).
SURE = 2.33  # deviations below 0: one in a hundred by chance
LEAST = 0.1  # correlation; below it, metrics that see little of the meaning may well be wrong
DIGITS = 6  # of what is made of cosines: by the seventh, float32 tells equal pairs apart


def without_rounding(values: Floats) -> Floats:
    """Round to DIGITS digits, so that pairs which an encoder cannot tell apart tie in ranks."""
    return np.round(values, DIGITS)


def check_direction(
    scores: Mapping[str, Floats], people: Floats, where: str, column: int = 0, highest: int = 0
) -> None:
    """Raise InputError where people's scores fall as every metric rises: low ones are good there.

    MQM's penalties, HTER and ranks are such scores. All metrics must have a Spearman correlation
    below 0, and the lowest of them by more than chance.

    Args:
        scores: metric -> (n,), higher is better.
        people: (n,) human scores.
        where: flag and file, for the message.
        column: of the human scores in that file, from 1; 0 where it is not known.
        highest: score of their scale; 0 without a scale.
    """
    correlations = {name: spearman(values, people) for name, values in scores.items()}
    correlations = {name: value for name, value in correlations.items() if value == value}
    if not correlations or max(correlations.values()) >= 0:
        return
    lowest = min(correlations.values())
    if lowest > -LEAST or -lowest * (len(people) - 1) ** 0.5 < SURE:
        return
    listed = ", ".join(f"{name} {100 * value:.1f}" for name, value in correlations.items())
    cell = f"${column or 'N'}"
    raise InputError(
        f"{where}: every metric correlates below 0 with the human scores (Spearman: {listed}), as "
        "where low scores are good (penalties of MQM, HTER, ranks, distances); expected high ones "
        "to be good. Turn them round: zcat -f FILE | awk -F'\\t' -v OFS='\\t' "
        f"'{cell} + 0 == {cell} {{ {cell} = {highest} - {cell} }} 1'"
        f"{'' if column else ', N the column of the scores'}"
    )


@dataclass(frozen=True)
class Metrics:
    """The metrics that are compared with people, on sentence pairs and on translations.

    Attributes:
        encoders: by name; SIM and SIMILE of each.
        alpha: exponent of SIMILE's length penalty.
        tokenize: sacreBLEU tokeniser of BLEU.
        meteor: METEOR, where it can run.
        learned: a learned reward, on translations, beside the encoder of its fit.
        rewards: specs of --reward, on translations; of each encoder where a reward needs one.
    """

    encoders: Mapping[str, RewardEncoder]
    alpha: float = SIMILE_ALPHA
    tokenize: str = "13a"
    meteor: Meteor | None = None
    learned: LearnedReward | None = None
    rewards: Sequence[str] = ()

    def of_encoders(
        self, left: Sequence[str], right: Sequence[str], srcs: Sequence[str] | None = None
    ) -> dict[str, Floats]:
        """Return SIM and SIMILE, (n,) each; of several encoders "SIM of NAME", "SIMILE of NAME".

        LEARNED stands beside the encoder of its fit. All are rounded by `without_rounding`.
        """
        scores = {}
        for name, encoder in self.encoders.items():
            learned = self.learned
            if learned is not None and learned.encoder != encoder.fingerprint:
                learned = None
            read = srcs if learned is not None and learned.needs_sources else None
            scorer = Scorer(encoder=encoder, alpha=self.alpha, learned=learned)
            outputs = scorer.outputs([left], right, read)
            suffix = f" of {name}" if len(self.encoders) > 1 else ""
            assert outputs.sim is not None and outputs.simile is not None
            scores["SIM" + suffix] = _column(outputs.sim)
            scores["SIMILE" + suffix] = _column(outputs.simile)
            if outputs.learned is not None:
                scores["LEARNED"] = _column(outputs.learned)
        return scores

    def of_surface(
        self, left: Sequence[str], right: Sequence[str], both: bool = False
    ) -> dict[str, Floats]:
        """Return BLEU, chrF and METEOR by :func:`surface_scores`."""
        return surface_scores(left, right, self.meteor, both, self.tokenize)


def _column(scores: Tensor) -> Floats:
    """Return the scores (n,) of a single system, (n, 1), rounded."""
    return without_rounding(scores[:, 0].double().numpy())


def surface_scores(
    left: Sequence[str],
    right: Sequence[str],
    meteor: Meteor | None = None,
    both: bool = False,
    tokenize: str = "13a",
) -> dict[str, Floats]:
    """Return sentence BLEU (+1 on orders 2 to 4), sacreBLEU's sentence chrF and METEOR, if given.

    Args:
        left, right: n hypotheses and n references.
        both: also the mean of both directions of each.
        tokenize: sacreBLEU tokeniser of BLEU.
    """
    chrf = chrf_statistics([left], right)[0].astype(np.float64)
    forward = {"BLEU": _bleu(left, right, tokenize), "chrF": corpus_chrf(chrf)}
    if meteor:
        forward["METEOR"] = meteor.scores(left, right)
    if not both:
        return forward
    # Statistics are n-grams of the hypothesis, of the reference and in both, for each order.
    swapped = chrf.reshape(len(chrf), -1, 3)[:, :, [1, 0, 2]].reshape(chrf.shape)
    back = {"BLEU": _bleu(right, left, tokenize), "chrF": corpus_chrf(swapped)}
    if meteor:
        back["METEOR"] = meteor.scores(right, left)
    ordered: dict[str, Floats] = {}
    for name, values in forward.items():
        ordered |= {name: values, name + SYMMETRIC: (values + back[name]) / 2}
    return ordered


def _bleu(hyps: Sequence[str], refs: Sequence[str], tokenize: str) -> Floats:
    return Scorer(tokenize=tokenize).outputs([hyps], refs).bleu[:, 0].double().numpy()


def differences(mean: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return SIM, SIMILE and LEARNED minus every other metric, and minus encoders before them.

    Rewards are held against BLEU, chrF and METEOR, too.
    """
    ours = [name for name in mean if name.startswith(("SIM", "LEARNED"))]
    theirs = [name for name in mean if name not in ours]
    surface = [name for name in theirs if name.startswith(("BLEU", "chrF", "METEOR"))]
    rewards = [name for name in theirs if name not in surface]
    pairs = [(name, other) for name in ours for other in theirs]
    pairs += [(name, other) for name in rewards for other in surface]
    pairs += [
        (name, other)
        for number, name in enumerate(ours)
        for other in ours[:number]
        if name.split()[0] == other.split()[0]
    ]
    return {f"{name} - {other}": mean[name] - mean[other] for name, other in pairs}

"""One update of minimum risk training, for any framework, in five steps.

    L = gamma L_TokLS + (1 - gamma) scale L_Risk,   L_Risk = sum_u cost(u) Q(u|x)

L_TokLS is 0 for a sentence without a reference: its target is padding alone, and none of it counts.
A framework is one adapter, a :class:`Translator`: fairseq's and transformers' are in ring 2. What
is computed of a batch, in which order, and what the host does while the device is busy stands here.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from simile_plugin.files import InputError
from simile_plugin.risk.gradient_portions import Portion, Portions
from simile_plugin.risk.length_control import LengthControl
from simile_plugin.risk.list_reward import Judged, ListReward
from simile_plugin.risk.objective import Objective
from simile_plugin.risk.risk_set import RiskSet
from simile_plugin.risk.update_log import Scored, Stopwatch, sums_over_sentences

Batch = TypeVar("Batch")


class Translator(Protocol[Batch]):
    """A framework, as an update uses it, with batches of B sentence pairs."""

    @property
    def pad(self) -> int:
        """Id at padding of targets."""

    @property
    def vocabulary(self) -> int:
        """V, over which labels are smoothed."""

    def candidates(self, model: nn.Module, batch: Batch) -> RiskSet:
        """Generate the lists of a batch without gradient, and put the references before them."""

    def texts(self, risk_set: RiskSet) -> list[list[str]]:
        """Return B lists of 1 + N strings, the reference first in each, or "" for none."""

    def sources(self, batch: Batch) -> list[str]:
        """Return the B source sentences."""

    def counted(self, risk_set: RiskSet) -> Tensor:
        """Return (B, 1 + N, T) bool, False at padding and at targets that are given, not scored."""

    def some(self, batch: Batch, rows: slice) -> Batch:
        """Return some sentences of a batch."""

    def score(
        self, model: nn.Module, batch: Batch, risk_set: RiskSet, max_tokens: int
    ) -> tuple[Tensor, Tensor]:
        """Score the rows of a risk set with gradient.

        Args:
            max_tokens: bound on the padded target tokens decoded at once (0: none).

        Returns:
            (B, 1 + N, T) log-probabilities of the targets, 0 at those that are not counted and at
            candidates outside the risk set; (B, T) mean log-probability over the vocabulary at each
            target of the reference. float32, or float64 for a float64 model.
        """

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """Return what a distributed wrapper of the model is called with."""

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context in which the model is scored: mixed precision, or none."""


@dataclass(frozen=True)
class Update:
    """The result of an update.

    Attributes:
        loss: summed over the sentences, ready for ``backward``.
        sums: the logging output, sums over sentences; the same keys on every rank.
        risk_set, judged, scored: the lists, what they are worth, and what the model makes of them.
    """

    loss: Tensor
    sums: dict[str, Any]
    risk_set: RiskSet
    judged: Judged
    scored: Scored


def risk_update(
    translator: Translator[Batch],
    model: nn.Module,
    batch: Batch,
    *,
    reward: ListReward,
    objective: Objective,
    length_control: LengthControl,
    portions: Portions,
    clock: Stopwatch,
    training: bool,
) -> Update:
    """Compute the loss of a batch, with its gradient, and what is logged of it.

    Args:
        model: in its distributed wrapper if there is one, which sees one call.
        portions: cuts the batch where memory is bounded.
        training: whether length costs something; validation's loss is that of the reward alone.
    """
    # 1. Candidates, without gradient.
    with clock.phase("generation"):
        risk_set = translator.candidates(model, batch)
        # Before torch 2.11 autocast keeps the copies of weights that the search made, which have no
        # gradient, and the second scoring would use them.
        torch.clear_autocast_cache()
    counted = translator.counted(risk_set)
    lengths = counted[:, 0].sum(-1)
    divisors = objective.token_divisors(lengths)
    length_price = length_control.multiplier if training else 0.0
    if not risk_set.lengths(translator.pad)[:, 0].all():
        reward.refuse_missing_references("a batch")
        if not training:
            raise InputError(
                "a validation has sentences without a reference; expected all with one"
            )

    # 2. Their texts and rewards, once for the batch; step 3 asks for them when the device is busy.
    @functools.cache
    def judge() -> Judged:
        with clock.phase("text"):
            hyps = translator.texts(risk_set)
        with clock.phase("reward"):
            return reward(hyps, risk_set, lambda: translator.sources(batch))

    def portion_loss(model: nn.Module, portion: Portion) -> tuple[Tensor, Scored]:
        # 3. Second scoring: each source is encoded once, a prefix that rows share decoded once.
        rows, part = portion.rows, risk_set.part(portion.rows)
        some = translator.some(batch, rows)
        token_lprobs, mean_lprobs = translator.score(model, some, part, portion.max_tokens)
        # A GPU is at work on these scores by now: the host is free to judge.
        judged = judge()
        return objective.loss(
            token_lprobs=token_lprobs,
            mean_lprobs=mean_lprobs,
            token_mask=counted[rows],
            members=part.mask,
            reward=judged.reward[rows],
            length_cost=length_price * judged.lengths[rows],
            divisors=divisors[rows],
            vocabulary=translator.vocabulary,
        )

    # 4. Loss and gradient, in portions that fit into memory.
    tokens = risk_set.sentence_tokens(translator.pad)
    with translator.precision():
        loss, found = portions(model, translator.inputs(batch), tokens, portion_loss, clock.phase)

    # 5. Sums to log.
    scored, judged = Scored.cat(found), judge()
    sums = sums_over_sentences(scored, judged, lengths, chrf=not training)
    sums |= {f"seconds_{name}": value for name, value in clock.seconds.items()}
    sums["length_multiplier"] = len(lengths) * length_control.multiplier
    return Update(loss, sums, risk_set, judged, scored)

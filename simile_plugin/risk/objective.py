"""The loss of some sentences of which every list is scored and judged."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from simile_plugin.risk import policy_gradient
from simile_plugin.risk.control_rewards import MODEL, rank_reward
from simile_plugin.risk.distribution import (
    beyond_bleu_distribution,
    candidate_distribution,
    candidate_scores,
    expected_cost,
)
from simile_plugin.risk.log_probabilities import label_smoothed_nll
from simile_plugin.risk.nonfinite import FiniteRows, cost_without_members, finite_rows
from simile_plugin.risk.settings import RiskSettings
from simile_plugin.risk.update_log import Scored


@dataclass(frozen=True)
class Objective:
    """L = gamma L_TokLS + (1 - gamma) scale L_Risk (Wieting et al. 2019, eq. 1).

    Attributes:
        mle_weight: gamma.
        label_smoothing: of L_TokLS.
        cost_scale: factor on costs in [0, 1].
        sharpness: a of Q(u|x) = p(u|x)^a / sum_u' p(u'|x)^a.
        normalize: log p(u|x) is divided by the tokens of u.
        beyond_bleu: Q of the code released with the paper.
        reward_is_rank: the reward is the rank by the model's own score (``--reward model``).
        kind: "mrt"; or, in the place of L_Risk, "rloo" or "grpo", see `policy_gradient`, whose
            lists are samples. Their Q, in what is logged, is 1 / N.
        kl_weight: beta of GRPO.
    """

    mle_weight: float
    label_smoothing: float
    cost_scale: float
    sharpness: float = 1.0
    normalize: bool = False
    beyond_bleu: bool = False
    reward_is_rank: bool = False
    kind: str = policy_gradient.MRT
    kl_weight: float = 0.0

    @classmethod
    def of(cls, settings: RiskSettings) -> Objective:
        """Return the objective that a training's settings name."""
        return cls(
            settings.mle_weight,
            settings.label_smoothing,
            settings.risk_cost_scale,
            settings.risk_alpha,
            normalize=settings.risk_score == "mean",
            reward_is_rank=settings.reward == MODEL,
            kind=settings.risk_objective,
            kl_weight=settings.risk_kl_weight,
        )

    @property
    def needs_start(self) -> bool:
        """Return whether a KL term asks for what the training began from."""
        return self.kind == policy_gradient.GRPO and self.kl_weight > 0

    def token_divisors(self, lengths: Tensor) -> Tensor:
        """Return what each reference's smoothed loss is divided by to be L_TokLS: its tokens, (B,).

        The released code divides by the batch's tokens: the mean, times its sentences.
        """
        lengths = lengths.clamp(min=1)
        if self.beyond_bleu:
            return (lengths.sum() / len(lengths)).expand(len(lengths))
        return lengths

    def distribution(self, token_lprobs: Tensor, token_mask: Tensor, members: Tensor) -> Tensor:
        """Q over each risk set: (B, 1 + N), 0 outside it.

        Args:
            token_lprobs, token_mask: (B, 1 + N, T); ``members``: (B, 1 + N) bool.
        """
        if self.kind != policy_gradient.MRT:
            return members / members.sum(-1, keepdim=True).clamp(min=1)
        scores = candidate_scores(token_lprobs, token_mask, self.normalize)
        if self.beyond_bleu:
            return beyond_bleu_distribution(scores, members)
        return candidate_distribution(scores, members, self.sharpness)

    def loss(
        self,
        *,
        token_lprobs: Tensor,
        mean_lprobs: Tensor,
        token_mask: Tensor,
        members: Tensor,
        reward: Tensor,
        length_cost: Tensor,
        divisors: Tensor,
        vocabulary: int,
        start_lprobs: Tensor | None = None,
    ) -> tuple[Tensor, Scored]:
        """L of some sentences, summed, and all that went into it.

        Args:
            token_lprobs: (B, 1 + N, T) log-probabilities of the rows' tokens, the reference first.
            mean_lprobs: (B, T) mean log-probability over the vocabulary, of the reference.
            token_mask: (B, 1 + N, T) bool, False at padding.
            members: (B, 1 + N) bool, the risk set.
            reward, length_cost: (B, 1 + N).
            divisors: (B,) what the reference's smoothed loss is divided by: its tokens.
            vocabulary: V.
            start_lprobs: (B, 1 + N, T) of the model that the training began from, for a KL term.
        """
        if self.reward_is_rank:
            scores = candidate_scores(token_lprobs, token_mask, self.normalize)
            reward = rank_reward(scores, members)
        rows = finite_rows(token_lprobs, mean_lprobs, reward.to(token_lprobs), members)
        q = self.distribution(rows.token_lprobs, token_mask, rows.members)
        expected = expected_cost(q, 1.0 - rows.reward) + cost_without_members(rows.members)
        reference = rows.token_lprobs[:, 0], rows.mean_lprobs
        token_loss, nll = label_smoothed_nll(*reference, self.label_smoothing, vocabulary)
        length_cost = length_cost.to(q)
        risk = expected + expected_cost(q, length_cost)
        surrogate = risk
        if self.kind != policy_gradient.MRT:
            surrogate = self._of_samples(rows, token_mask, rows.reward - length_cost, start_lprobs)
        gamma = self.mle_weight
        loss = gamma * token_loss / divisors + (1 - gamma) * self.cost_scale * surrogate
        found = vars(rows) | {"distribution": q, "risk": expected, "nll": nll, "loss": loss}
        return loss.sum(), Scored(**{name: value.detach() for name, value in found.items()})

    def _of_samples(
        self, rows: FiniteRows, token_mask: Tensor, reward: Tensor, start_lprobs: Tensor | None
    ) -> Tensor:
        """Return the policy gradient's loss of each sentence: (B,)."""
        members, scored = rows.members, (rows.token_lprobs, token_mask)
        if self.kind == policy_gradient.RLOO:
            advantages = policy_gradient.leave_one_out(reward, members)
            return policy_gradient.reinforce(*scored, advantages, members)
        advantages = policy_gradient.group_relative(reward, members)
        return policy_gradient.grpo(*scored, advantages, members, start_lprobs, self.kl_weight)

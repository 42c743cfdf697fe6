"""The loss of some sentences of which every list is scored and judged."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from simile_plugin.risk.control_rewards import MODEL, rank_reward
from simile_plugin.risk.distribution import (
    beyond_bleu_distribution,
    candidate_distribution,
    candidate_scores,
    cost_without_members,
    expected_cost,
    finite_rows,
)
from simile_plugin.risk.log_probabilities import label_smoothed_nll
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
    """

    mle_weight: float
    label_smoothing: float
    cost_scale: float
    sharpness: float = 1.0
    normalize: bool = False
    beyond_bleu: bool = False
    reward_is_rank: bool = False

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
        )

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
        """
        if self.reward_is_rank:
            scores = candidate_scores(token_lprobs, token_mask, self.normalize)
            reward = rank_reward(scores, members)
        rows = finite_rows(token_lprobs, mean_lprobs, reward.to(token_lprobs), members)
        q = self.distribution(rows.token_lprobs, token_mask, rows.members)
        expected = expected_cost(q, 1.0 - rows.reward) + cost_without_members(rows.members)
        reference = rows.token_lprobs[:, 0], rows.mean_lprobs
        token_loss, nll = label_smoothed_nll(*reference, self.label_smoothing, vocabulary)
        risk = expected + expected_cost(q, length_cost.to(q))
        gamma = self.mle_weight
        loss = gamma * token_loss / divisors + (1 - gamma) * self.cost_scale * risk
        found = vars(rows) | {"distribution": q, "risk": expected, "nll": nll, "loss": loss}
        return loss.sum(), Scored(**{name: value.detach() for name, value in found.items()})

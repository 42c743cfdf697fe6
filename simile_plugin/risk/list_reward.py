"""Strings of candidates -> their rewards, on the device, without waiting for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from simile_plugin.encoder import load_encoder, to_device
from simile_plugin.files import InputError, flag_name
from simile_plugin.reward import FirstLook, ListScores, Reward, Scorer, signature
from simile_plugin.risk.control_rewards import MODEL, NOISE, SHUFFLED, exchange, noise, read_control
from simile_plugin.risk.length_control import relative_length
from simile_plugin.risk.risk_set import RiskSet
from simile_plugin.risk.settings import RiskSettings

logger = logging.getLogger(__name__)

# Settings that change nothing in what is optimised.
NOT_OPTIMISED = {"_name", "risk_max_tokens", "seed"}


@dataclass(frozen=True)
class Judged:
    """Rewards and lengths of a batch's lists, the reference first in each.

    Attributes:
        hyps: B lists of 1 + N strings.
        scores: their SIMILE and BLEU, (B, 1 + N).
        reward: (B, 1 + N), what is trained on; of ``--reward model``, BLEU until it is scored.
        lengths: (B, 1 + N), see :func:`relative_length`.
    """

    hyps: list[list[str]]
    scores: ListScores
    reward: Tensor
    lengths: Tensor


def encoder_identity(encoder: str | None) -> str:
    """Return what identifies an encoder, wherever its folder lies; "none" where there is none.

    Raises:
        InputError: for one that cannot be read.
    """
    return load_encoder(encoder).fingerprint if encoder else "none"


class ListReward:
    """The reward of a training, as its settings name it.

    No nn.Module: its encoder is neither trained nor saved.

    Args:
        seed: of the run, on which shuffled and random rewards depend.

    Raises:
        InputError: for a reward, or an encoder, that cannot be had.
    """

    def __init__(self, settings: RiskSettings, seed: int) -> None:
        self.control, spec = read_control(settings.reward)
        self.seed = seed
        reward, encoder = Reward(spec), None
        if settings.simile_encoder:
            encoder = load_encoder(settings.simile_encoder)
        else:
            reward.refuse_missing_encoder("--simile-encoder")
        alpha, tokenize = settings.simile_alpha, settings.risk_bleu_tokenize
        self.scorer = Scorer(reward, encoder, alpha, tokenize)
        self.look = FirstLook(tokenize, logger.warning, encoder)
        scored = signature(encoder, alpha) if encoder else "no encoder"
        logger.info(f"reward: {settings.reward} ({scored})")
        if encoder is None:
            logger.warning("no --simile-encoder: SIM, SIMILE and their costs are not reported")

    def refuse_missing_references(self, where: str) -> None:
        """Raise InputError, for sentences without a reference, where the reward reads one."""
        reward, control = self.scorer.reward, self.control in (NOISE, MODEL)
        if reward.needs_references and reward.function is None and not control:
            raise InputError(
                f"{where}: --reward {reward.spec} reads a reference, which some sentences do "
                "not have; expected source, your own module:function, or a control (model, noise)"
            )

    def __call__(
        self, hyps: list[list[str]], risk_set: RiskSet, sources: Callable[[], list[str]]
    ) -> Judged:
        """Judge the lists of a risk set.

        Args:
            hyps: B lists of 1 + N strings, the reference first, "" where there is none.
            sources: makes the B source sentences, which only a user's function asks for.
        """
        device = risk_set.tokens.device
        # Mixed precision is for the model: it makes ties of rewards that are near each other.
        with torch.autocast(device.type, enabled=False):
            members = torch.from_numpy(risk_set.on_host[1])
            reward, scores = self.scorer.values_and_scores(hyps, members, sources, device)
            if self.control == NOISE:
                reward = to_device(noise(hyps, self.seed), device)
            elif self.control == SHUFFLED:
                order = exchange(risk_set.on_host[1].tolist(), hyps, self.seed)
                reward = reward.gather(-1, to_device(order, reward.device))
            self.look(hyps, scores)
            words = scores.bleu_stats
            lengths = relative_length(words[..., 0], words[:, 0, 1])
            return Judged(hyps, scores, reward, lengths)

    def optimised(self, settings: Any, kind: type) -> dict[str, str]:
        """Return what is optimised, by flag: the same on all ranks, and in a run that is resumed.

        Args:
            kind: the dataclass whose fields are the settings.
        """
        names = [field.name for field in fields(kind) if field.name not in NOT_OPTIMISED]
        flags = {flag_name(name): str(getattr(settings, name)) for name in names}
        scorer = self.scorer
        encoder = scorer.encoder.fingerprint if scorer.encoder is not None else "none"
        reward = scorer.reward.identity
        if self.control:
            reward = self.control + reward if self.control == SHUFFLED else self.control
        return flags | {"--reward": reward, "--simile-encoder": encoder}

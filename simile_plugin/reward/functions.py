"""The reward as a function of TRL's trainers, for decoder-only translation models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from simile_plugin.encoder import RewardEncoder
from simile_plugin.files import InputError
from simile_plugin.reward.lists import refuse_surrogates, refuse_text
from simile_plugin.reward.simile import SIMILE_ALPHA
from simile_plugin.reward.source import source_scores
from simile_plugin.reward.spec import Reward

RewardOfCompletions = Callable[..., list[float | None]]


def as_reward_function(
    spec: str = "simile",
    encoder: RewardEncoder | None = None,
    references: str = "reference",
    sources: str | None = None,
    alpha: float = SIMILE_ALPHA,
    tokenize: str = "13a",
) -> RewardOfCompletions:
    """A reward as TRL's GRPO trainers call it: (prompts, completions, **columns) -> floats.

    Args:
        spec: what --reward names.
        encoder: the reward encoder, or None where the reward can do without.
        references: column of the data set with the reference translations.
        sources: column with the source sentences, for `source` and a reward of your own; default:
            the prompts.
        alpha: exponent of SIMILE's length penalty.
        tokenize: sacreBLEU tokeniser of the BLEU statistics.

    Returns:
        a function whose values are higher-is-better, one a completion; NaN where a reward of your
        own is not finite, None where the row has no reference. Its name is that of the reward,
        for TRL's logs.

    Raises:
        InputError: for a bad spec or a missing encoder at once; for a missing column when called.
    """
    reward = Reward(spec)
    if reward.needs_encoder and encoder is None:
        raise InputError(f"encoder: not given, but the reward {spec} needs one; see load_encoder")
    if reward.learned is not None and encoder is not None:
        reward.learned.use(encoder)
    if reward.needs_sources and encoder is not None:
        source_scores([], [], encoder, alpha)  # refuses one of a single language

    def score(
        prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        refuse_text(completions, "completions")
        refs = [""] * len(completions)
        if reward.needs_references:
            refs = _column(columns, references, "references")
        for number, ref in enumerate(refs, 1):
            if not (isinstance(ref, str) or _missing(ref)):
                raise InputError(
                    f"references: column '{references}' has {ref!r} for completion {number}; "
                    "expected one string: the reference translation"
                )
        hyps = [[_text(completion).strip()] for completion in completions]
        srcs: list[str] = []
        if reward.function is not None or reward.needs_sources:
            srcs = list(map(_text, _column(columns, sources, "sources") if sources else prompts))
        mask = torch.ones(len(hyps), 1, dtype=torch.bool)
        known = ["" if _missing(ref) else ref for ref in refs]
        refuse_surrogates((hyp for row in hyps for hyp in row), "completions")
        refuse_surrogates(known, "references")
        refuse_surrogates(srcs, "sources")
        values = reward.values(hyps, known, srcs, mask, encoder, alpha, tokenize)[:, 0].tolist()
        return [None if _missing(ref) else value for ref, value in zip(refs, values, strict=True)]

    score.__name__ = reward.spec
    return score


def _column(columns: dict[str, Any], name: str, what: str) -> list[Any]:
    found = columns.get(name)
    if found is None:
        raise InputError(
            f"{what}: the data set has no column '{name}'; it has "
            f"{', '.join(sorted(columns)) or 'none'}"
        )
    refuse_text(found, f"column '{name}'")
    return list(found)


def _missing(reference: Any) -> bool:
    """Say whether there is none: None, or NaN, as pandas writes it."""
    return reference is None or (isinstance(reference, float) and math.isnan(reference))


def _text(value: Any) -> str:
    """A completion as text; of a conversation, what its last message says, "" if nothing."""
    if isinstance(value, str):
        return value
    said = (value[-1].get("content") if value else None) or ""
    # of several parts those that are text
    return said if isinstance(said, str) else "".join(part.get("text") or "" for part in said)

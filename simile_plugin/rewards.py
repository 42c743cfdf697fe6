"""The rewards by name, for frameworks that take a dotted name: TRL, verl, OpenRLHF.

    trl grpo --reward_funcs simile_plugin.rewards.half ...

`simile`, `half`, `bleu`, `chrf`, `source` and `learned` are what --reward names. Each loads what it
needs at its first call, as these variables of the environment say:

SIMILE_ENCODER   reward encoder, a folder or a name (default: `default`, for English targets)
SIMILE_LEARNED   folder of `simile fit-reward`, for `learned` (default: the package's, for English)
SIMILE_LANGUAGE  ISO 639-1 code of the target's language: a completion in another one is worth 0
                 (needs py3langid; default: no gate)
SIMILE_REWARD    what verl and OpenRLHF train on, whose functions have a fixed name (default: half)

For other settings, write a module of your own with a line such as
``reward = CompletionReward(Scorer(Reward("half"), load_encoder("encoder"), tokenize="zh"))``, both
of `simile_plugin.reward`, and name it instead.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Sequence
from typing import Any

import torch

from simile_plugin.encoder import RewardEncoder, load_encoder
from simile_plugin.files import InputError
from simile_plugin.reward import CompletionReward, Reward, Scorer

# Special tokens of chat templates and decoders, which OpenRLHF leaves in its queries.
SPECIAL_TOKENS = re.compile(r"<[|｜][^<>]*[|｜]>|</?s>|<pad>|<eos>|<end_of_turn>")
LOADING = threading.RLock()  # verl and OpenRLHF call from several threads
load_encoder_once = functools.cache(load_encoder)


def load_reward(name: str) -> CompletionReward:
    """Return `make_reward` of a name, made once."""
    with LOADING:
        return make_reward(name)


@functools.cache
def make_reward(name: str) -> CompletionReward:
    """Make a reward with the encoder and the language of the environment.

    Args:
        name: what --reward names; `learned` is of the folder in SIMILE_LEARNED, if it is set.

    Raises:
        InputError: for what cannot be loaded.
    """
    fitted = os.environ.get("SIMILE_LEARNED") if name == "learned" else None
    spec = f"learned:{fitted}" if fitted else name
    encoder: RewardEncoder | None = None
    reward = Reward(spec, "SIMILE_REWARD")
    if reward.needs_encoder:
        folder = os.environ.get("SIMILE_ENCODER") or "default"
        try:
            encoder = load_encoder_once(folder)
        except InputError as error:
            raise InputError(f"SIMILE_ENCODER: {error}") from error
    scorer = Scorer(reward, encoder)
    return CompletionReward(scorer, language=os.environ.get("SIMILE_LANGUAGE") or None)


class NamedReward:
    """A reward of this module, as TRL's GRPO trainers call it; see `CompletionReward`.

    It is pickled as its name, so that a process that reads it loads its own encoder.

    Args:
        name: the reward's, and that of the variable of this module.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """Return what the completions are worth; higher is better."""
        return load_reward(self.__name__)(prompts, completions, **columns)

    def __reduce__(self) -> str:
        return self.__name__


simile = NamedReward("simile")
half = NamedReward("half")
bleu = NamedReward("bleu")
chrf = NamedReward("chrf")
source = NamedReward("source")
learned = NamedReward("learned")


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, float]:
    """Return SIMILE_REWARD of a completion, as verl calls it (custom_reward_function).

    Args:
        data_source: is not read.
        solution_str: the completion.
        ground_truth: the reference translation.
        extra_info: has the source sentence as `source`, where the reward reads sources.
        kwargs: what else verl passes is not read.

    Returns:
        `score`, and beside it the signs of a gamed reward, which verl logs, too.

    Raises:
        InputError: if the reward needs a source or reference, and there is none.
    """
    reward = load_reward(os.environ.get("SIMILE_REWARD") or "half")
    src = (extra_info or {}).get("source")
    if src is None and reward.scorer.reward.needs_sources:
        raise InputError(f"extra_info: has no 'source', which the reward {reward.__name__} reads")
    signs: dict[str, float] = {}
    (value,) = reward(
        [src or ""], [solution_str], signs.__setitem__, **{reward.references: [ground_truth]}
    )
    if value is None:
        raise InputError("ground_truth: got None; expected a string: the reference translation")
    return {"score": value, **signs}


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **kwargs: Any
) -> dict[str, Any]:
    """Return SIMILE_REWARD of completions, as OpenRLHF calls it (remote reward URL FILE.py).

    Args:
        queries: prompts with the completions behind them.
        prompts: the same prompts alone.
        labels: the reference translations.
        kwargs: what else OpenRLHF passes is not read.

    Returns:
        rewards: (B,) float32; NaN where there is no reference. scores: the same within [0, 1].
        extra_logs: the signs of a gamed reward by name, each a tensor of one number.
    """
    completions = [
        SPECIAL_TOKENS.sub("", query.partition(prompt)[2] if prompt and prompt in query else query)
        for query, prompt in zip(queries, prompts, strict=True)
    ]
    reward = load_reward(os.environ.get("SIMILE_REWARD") or "half")
    signs: dict[str, float] = {}
    values = reward(prompts, completions, signs.__setitem__, **{reward.references: labels})
    rewards = torch.tensor([torch.nan if value is None else value for value in values])
    logs = {name: torch.tensor(value) for name, value in signs.items()}
    return {"rewards": rewards, "scores": rewards.clamp(0, 1), "extra_logs": logs}

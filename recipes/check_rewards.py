#!/usr/bin/env python3
"""Whether each of some words is a reward: check_rewards.py REWARD..., before hours of training."""

from __future__ import annotations

import sys

from simile_plugin.files import as_script
from simile_plugin.reward import Reward


@as_script
def main(specs: list[str]) -> None:
    """Exit status 2 and one line for the first that is none."""
    for spec in specs:
        reward = spec.removeprefix("shuffled:")
        if spec not in ("noise", "model"):  # controls of a training, no rewards
            Reward(reward, "REWARDS")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

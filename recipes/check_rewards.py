#!/usr/bin/env python3
"""Whether each of some words is a reward: check_rewards.py REWARD..., before hours of training."""

from __future__ import annotations

import sys

from simile_plugin.files import InputError
from simile_plugin.reward import Reward


def main(specs: list[str]) -> int:
    """Exit status 2 and one line for the first that is none."""
    for spec in specs:
        try:
            Reward(spec, "REWARDS")
        except InputError as error:
            print(f"check_rewards.py: error: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Signs that a reward is gamed, for the training's watch and the report alike.

Training on SIMILE alone showed them, and training on BLEU did not: lengths 3 % beyond the start's
and 1, and a quarter more repeated bigrams.
"""

from __future__ import annotations

LENGTH_SIGN = 0.03  # of the length ratio, beyond the start's and 1
REPETITION_SIGN = 0.25  # of the usual share of repeated bigrams
REPETITION_FLOOR = 0.005  # of all bigrams: a difference below this is chance

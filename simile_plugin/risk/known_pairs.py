"""What gain to expect of training pairs: does the model know them by heart?

Candidates for pairs that a model was trained on are nearly the references, and their reward teaches
little. The cost of a sample of training sentences by the cost of validation says so before the
first update.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

SAMPLE = 300  # sentences; the ratio's standard error is about 0.02
# Trainings that gained in full had 0.93 and more; docs/how-to/choose-pairs.md has the table.
UNREAD = 0.93
# Trainings that gained nothing had 0.76 (Tatoeba) and 0.65 (MAFAND).
KNOWN_BY_HEART = 0.85


def draw_sample(indices: Sequence[int]) -> list[int]:
    """Return SAMPLE of the indices, or all where there are fewer; the same at every call."""
    places = random.Random(1).sample(range(len(indices)), min(SAMPLE, len(indices)))
    return sorted(indices[place] for place in places)


def what_to_expect(training: float, validation: float, sentences: int) -> str:
    """Return one line on the gain to expect.

    Args:
        training: mean cost of the candidates for a sample of training sentences.
        validation: the same of the validation set, above 0.
        sentences: of the sample.
    """
    ratio = training / validation
    measured = (
        f"candidates for {sentences} training sentences cost {training:.3f}, those of validation "
        f"{validation:.3f} (ratio {ratio:.2f})"
    )
    if ratio >= UNREAD:
        return f"{measured}: the model does not know these pairs by heart, expect the full gain"
    if ratio >= KNOWN_BY_HEART:
        return (
            f"{measured}: the model knows a part of these pairs, or they are easier than those of "
            "validation; expect a part of the gain. Pairs that it has not read give more (--train, "
            "docs/how-to/choose-pairs.md)"
        )
    return (
        f"{measured}: the model knows these pairs by heart, expect no gain; train on pairs that it "
        "has not read (--train, docs/how-to/choose-pairs.md)"
    )

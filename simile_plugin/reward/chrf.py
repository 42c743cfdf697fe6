"""chrF of many outputs of one test set, as statistics that can be resampled.

sacreBLEU's chrF2 with its defaults: character 6-grams, no word n-grams, beta 2, whitespace removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CHAR_ORDER = 6
BETA = 2
CHRF_STATS = 3 * CHAR_ORDER


def chrf_statistics(outputs: Sequence[Sequence[str]], refs: Sequence[str]) -> NDArray[np.int32]:
    """n-grams of the output, of the reference and in both, for orders 1 to 6.

    Args:
        outputs: S outputs of N sentences each.

    Returns:
        (S, N, 18), in sacreBLEU's order.
    """
    found = np.zeros((len(outputs), len(refs), CHRF_STATS), dtype=np.int32)
    for line, ref in enumerate(refs):
        ref_counts = _ngrams(ref)
        own: dict[str, list[int]] = {}  # systems often agree on a short sentence
        for row, output in enumerate(outputs):
            hyp = output[line]
            if hyp not in own:
                own[hyp] = _sentence(_ngrams(hyp), ref_counts)
            found[row, line] = own[hyp]
    return found


def _ngrams(sentence: str) -> list[Counter[str]]:
    text = "".join(sentence.split())
    return [
        Counter([text[i : i + order] for i in range(len(text) - order + 1)])
        for order in range(1, CHAR_ORDER + 1)
    ]


def _sentence(hyp: Sequence[Counter[str]], ref: Sequence[Counter[str]]) -> list[int]:
    numbers = []
    for own, wanted in zip(hyp, ref, strict=True):
        matches = sum(min(count, wanted[ngram]) for ngram, count in own.items() if ngram in wanted)
        # sacreBLEU leaves out the output's n-grams of an order that the reference does not have
        numbers += [own.total() if wanted else 0, wanted.total(), matches]
    return numbers


def corpus_chrf(sums: Floats) -> Floats:
    """chrF = (1 + 4) P R / (4 P + R), P and R averaged over the orders that both sides have.

    Args:
        sums: (..., 18) statistics summed over a corpus.

    Returns:
        (...) in [0, 100].
    """
    hyp, ref, matches = (sums[..., first::3] for first in range(3))
    both = (hyp > 0) & (ref > 0)
    orders = np.maximum(both.sum(-1), 1)
    precision = np.where(both, matches / np.maximum(hyp, 1), 0).sum(-1) / orders
    recall = np.where(both, matches / np.maximum(ref, 1), 0).sum(-1) / orders
    below = BETA**2 * precision + recall
    above = (1 + BETA**2) * precision * recall
    return 100 * np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def chrf_signature() -> str:
    """sacreBLEU's signature of `corpus_chrf`."""
    import sacrebleu

    return f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"

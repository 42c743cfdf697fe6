"""Nearness of a candidate to its source: a reward without a reference, for any two languages.

source(s, h) = LP(rho |s|, |h|)^alpha * max(0, cos(g(s) / |g(s)| - m, g(h))) * copies * language

rho: the usual ratio of lengths; m: the mean direction of sources, without which a text about
everything is near to each; copies: 1, or less where more of the candidate stands in the source than
is usual; language: 1, or less for what is not written in the target's. All are of the encoder's
bitext (`encoder/source_side.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder, cosine, to_device
from simile_plugin.files import InputError
from simile_plugin.reward.simile import length_penalty


def check_source_side(encoder: RewardEncoder) -> None:
    """Raise InputError for an encoder of a single language."""
    if encoder.source is None:
        raise InputError(
            f"the reward `source`: encoder {encoder.fingerprint} has no source side; expected one "
            "of two languages (made by simile distil-encoder)"
        )


def source_scores(
    hyps: Sequence[Sequence[str]], srcs: Sequence[str], encoder: RewardEncoder, alpha: float
) -> Tensor:
    """Score B lists of N candidates by their B sources: (B, N) float32 in [0, 1].

    Args:
        encoder: of two languages.
        alpha: exponent of the length penalty.

    Raises:
        InputError: for an encoder without a source side.
    """
    check_source_side(encoder)
    side = encoder.source
    assert side is not None
    shape = len(hyps), len(hyps[0]) if hyps else 0
    flat = [*chain.from_iterable(hyps)]
    of = [src for src in srcs for _ in range(shape[1])]
    index = {hyp: row for row, hyp in enumerate(dict.fromkeys(flat))}
    embedded, of_source = encoder.embed_counted([*index]), side.encoder.embed_counted(srcs)
    device = embedded.vectors.device
    rows = to_device(torch.tensor([index[hyp] for hyp in flat], dtype=torch.int64), device)
    rows = rows.view(shape)
    near = cosine(side.centred(of_source.vectors).to(device)[:, None], embedded.vectors[rows])
    wanted = side.length_ratio * of_source.lengths.to(device).double()
    lengths = length_penalty(wanted[:, None], embedded.lengths[rows])
    honest = torch.tensor([*map(side.not_copied, flat, of)]) * side.of_language(flat, of)
    return lengths**alpha * near.clamp(min=0) * to_device(honest, device).view(shape)

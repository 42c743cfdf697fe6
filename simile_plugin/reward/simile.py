"""SIMILE = LP^alpha * SIM (Wieting et al. 2019, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder, cosine, to_device
from simile_plugin.reward.lists import ListScores

SIMILE_ALPHA = 0.25  # exponent of the length penalty; the paper's value (section 3.2)


def length_penalty(ref_lengths: Tensor, hyp_lengths: Tensor) -> Tensor:
    """LP(r, h) = exp(1 - max(|r|, |h|) / min(|r|, |h|)) (Wieting et al. 2019, eq. 2).

    Args:
        ref_lengths, hyp_lengths: numbers of encoder pieces; shapes broadcast.

    Returns:
        Values in [0, 1]: 1 for equal lengths, 0 where either side is empty.
    """
    longer = torch.maximum(ref_lengths, hyp_lengths).double()
    shorter = torch.minimum(ref_lengths, hyp_lengths).double()
    penalty = torch.exp(1 - longer / shorter.clamp(min=1))
    return torch.where(shorter > 0, penalty, torch.zeros_like(penalty)).float()


def add_similarity(
    scores: ListScores,
    hyps: Sequence[Sequence[str]],
    refs: Sequence[str],
    encoder: RewardEncoder,
    alpha: float,
) -> None:
    """Fill in SIM and SIMILE of ``scores``; the encoder reads each distinct string once."""
    index: dict[str, int] = {}
    ref_rows = [index.setdefault(ref, len(index)) for ref in refs]
    hyp_rows = [[index.setdefault(hyp, len(index)) for hyp in candidates] for candidates in hyps]
    embedded = encoder.embed_counted(list(index))
    rows = torch.tensor([*ref_rows, *chain.from_iterable(hyp_rows)], dtype=torch.int64)
    of_refs = torch.tensor(ref_rows, dtype=torch.int64)
    scores.unknown_pieces = int(embedded.unknown[of_refs].sum())
    scores.tokens = int(embedded.tokens[of_refs].sum())
    vectors, lengths = embedded.vectors, embedded.lengths
    rows = to_device(rows, vectors.device)
    ref_index, hyp_index = rows[: len(refs)], rows[len(refs) :].view(scores.bleu.shape)
    scores.sim = cosine(vectors[ref_index].unsqueeze(1), vectors[hyp_index])
    scores.length_penalty = length_penalty(lengths[ref_index].unsqueeze(1), lengths[hyp_index])
    scores.simile = scores.length_penalty**alpha * scores.sim


def signature(encoder: RewardEncoder, alpha: float = SIMILE_ALPHA) -> str:
    """Return the signature of a SIM or SIMILE number, in sacreBLEU's manner."""
    from simile_plugin import __version__

    return (
        f"enc:{encoder.fingerprint}|kind:{encoder.kind}|dim:{encoder.dim}|"
        f"text:{encoder.text}|len:{encoder.unit}|alpha:{alpha:g}|version:{__version__}"
    )

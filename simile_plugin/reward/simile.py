"""SIMILE = LP^alpha * SIM (Wieting et al. 2019, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder

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


def signature(encoder: RewardEncoder, alpha: float = SIMILE_ALPHA) -> str:
    """Return the signature of a SIM or SIMILE number, in sacreBLEU's manner."""
    from simile_plugin import __version__

    return (
        f"enc:{encoder.fingerprint}|kind:{encoder.kind}|dim:{encoder.dim}|"
        f"text:{encoder.text}|len:{encoder.unit}|alpha:{alpha:g}|version:{__version__}"
    )

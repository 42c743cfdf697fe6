"""Which words of a candidate its similarity is owed to, in closed form."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder, to_device
from simile_plugin.files import InputError


def _sums(encoder: RewardEncoder, words: Sequence[str]) -> Tensor:
    """The sum of the embeddings of each word's pieces, (U, D)."""
    found = encoder.embed_counted(words)
    known = (found.tokens - found.unknown).to(found.vectors)
    return found.vectors * known.unsqueeze(-1)


def check_words_add_up(encoder: RewardEncoder) -> None:
    """Refuse an encoder whose sentence vector is no mean over pieces of single words.

    Raises:
        InputError: naming the flag.
    """
    words = ["the", "grey", "heron", "waits,", "patiently."]
    if not torch.allclose(
        _sums(encoder, words).sum(0), _sums(encoder, [" ".join(words)])[0], rtol=1e-3, atol=1e-4
    ):
        raise InputError(
            f"--risk-credit token: got an encoder of kind {encoder.kind}; expected one whose "
            "vector is the mean of the embeddings of pieces, such as simile train-encoder --kind sp"
        )


def word_credit(words: Sequence[Sequence[Sequence[str]]], encoder: RewardEncoder) -> Tensor:
    """What SIM gains with the weight of each word of a candidate: d SIM / d w_i at w = 1.

    With g(h) = sum_i w_i e_i, e_i the sum of the embeddings of word i, and unit vectors r^ of the
    reference and h^ of the candidate,

        d cos(r, h) / d w_i = (r^ e_i - cos(r, h) h^ e_i) / |g(h)|.

    Over a candidate these sum to 0, for the cosine does not see lengths of vectors: they say how
    credit is shared, not how much there is. A word that the reference has, too, is above 0, one
    that leads away from it, or is said once too often, below.

    Args:
        words: B lists of 1 + N rows of words, the reference first.

    Returns:
        (B, 1 + N, W) float32, W words of the longest row; 0 beyond a row's own.
    """
    index: dict[str, int] = {"": 0}  # the zero vector
    rows = [
        [[index.setdefault(word, len(index)) for word in row] for row in list_] for list_ in words
    ]
    longest = max((len(row) for list_ in rows for row in list_), default=0)
    padded = [[row + [0] * (longest - len(row)) for row in list_] for list_ in rows]
    sums = _sums(encoder, list(index))
    sums[0] = 0.0
    vectors = sums[to_device(torch.tensor(padded, dtype=torch.int64), sums.device)]
    whole = vectors.sum(2)
    norm = whole.norm(dim=-1, keepdim=True)
    unit = torch.where(norm > 0, whole / norm.clamp(min=1e-30), 0.0)
    similar = (unit * unit[:, :1]).sum(-1, keepdim=True)
    slope = torch.einsum("bnwd,bnd->bnw", vectors, unit[:, :1] - similar * unit)
    return torch.where(norm > 0, slope / norm.clamp(min=1e-30), 0.0)

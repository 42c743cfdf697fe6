"""The reward encoder: a sentence is the mean of its subword embeddings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.text import Segmenter

KIND = "sp"  # averaged sentencepiece embeddings: the only kind so far


def flatten(pieces: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Ragged rows of piece ids -> (flat ids (P,), start of each row (U,)), both int64."""
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    ids = np.fromiter(chain.from_iterable(pieces), dtype=np.int64, count=int(lengths.sum()))
    offsets = np.zeros_like(lengths)
    np.cumsum(lengths[:-1], out=offsets[1:])
    return torch.from_numpy(ids).to(device), torch.from_numpy(offsets).to(device)


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """SIM = cos(g(r), g(h)), and 0 where either vector is zero.

    Args:
        left, right: (..., D) sentence vectors; shapes broadcast.

    Returns:
        (...) in [-1, 1].
    """
    dot = (left * right).sum(-1)
    norms = left.norm(dim=-1) * right.norm(dim=-1)
    # torch's cosine_similarity clamps each norm, which bends the value of tiny vectors.
    return torch.where(norms > 0, dot / norms.clamp(min=1e-30), torch.zeros_like(dot)).clamp(-1, 1)


def usable_device(name: str) -> torch.device:
    """The torch device of a --device flag.

    Raises:
        ValueError: if torch does not know it or cannot use it here.
    """
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"--device: got {name!r}, which cannot be used here ({reason}); use cpu"
        ) from error
    return device


class Encoder(torch.nn.Module):
    """g(s) = mean of the embeddings of the known pieces of s (Wieting et al. 2019, section 3).

    Unknown pieces are left out of the mean, and a sentence without a known piece is the zero
    vector, whose cosine with anything is 0.

    Args:
        weight: (V, D) float32, one row per piece.
        segmenter: sentence -> pieces; V is its size.
        training: facts about the training, saved beside the weights.

    Raises:
        ValueError: if weight is not (len(segmenter), D) float32 and finite.
    """

    def __init__(
        self, weight: Tensor, segmenter: Segmenter, training: dict[str, Any] | None = None
    ) -> None:
        super().__init__()
        if weight.dim() != 2 or weight.dtype != torch.float32 or weight.shape[1] < 1:
            raise ValueError(
                f"embeddings: got {tuple(weight.shape)} {weight.dtype}, "
                "expected (pieces, dimensions) float32"
            )
        if weight.shape[0] != len(segmenter):
            raise ValueError(
                f"embeddings have {weight.shape[0]} rows, "
                f"but the sentencepiece model has {len(segmenter)} pieces"
            )
        if not bool(torch.isfinite(weight).all()):
            raise ValueError("embeddings hold NaN or infinite values")
        self.weight = torch.nn.Parameter(weight)
        self.segmenter = segmenter
        self.training_facts = dict(training or {})

    @property
    def dim(self) -> int:
        """Length D of a sentence vector."""
        return int(self.weight.shape[1])

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Mean embeddings (U, D) of the bags ``ids[offsets[u]:offsets[u + 1]]``."""
        return F.embedding_bag(
            ids, self.weight, offsets, mode="mean", padding_idx=self.segmenter.unk_id
        )

    @torch.no_grad()
    def embed(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        """Sentence vectors (U, D) float32 of rows of piece ids, without gradient."""
        return self._embed_flat(*flatten(pieces, self.weight.device))

    @torch.no_grad()
    def embed_text(self, sentences: Sequence[str]) -> Tensor:
        """Sentence vectors (U, D) float32 of plain sentences, without gradient."""
        ids, offsets = map(torch.from_numpy, self.segmenter.encode_flat(sentences))
        return self._embed_flat(ids.to(self.weight.device), offsets.to(self.weight.device))

    def _embed_flat(self, ids: Tensor, offsets: Tensor) -> Tensor:
        if not len(offsets):
            return torch.zeros(0, self.dim, device=self.weight.device)
        # As forward does it; taking the unknown pieces out first is twice as fast as padding_idx.
        known = ids != self.segmenter.unk_id
        before = F.pad(known.cumsum(0), (1, 0))
        return F.embedding_bag(ids[known], self.weight, before[offsets], mode="mean")

    def length(self, pieces: Sequence[int]) -> int:
        """Length of a sentence in the length penalty: its pieces, unknown ones included."""
        return len(pieces)

    @property
    def fingerprint(self) -> str:
        """12 hex digits of sha256 over weights, sentencepiece model, preprocessing and kind."""
        digest = hashlib.sha256()
        identity = {"kind": KIND, "preprocessing": asdict(self.segmenter.preprocessing)}
        digest.update(json.dumps(identity, sort_keys=True).encode())
        digest.update(self.segmenter.model_proto)
        weight = self.weight.detach().cpu().contiguous().numpy()
        digest.update(weight.astype("<f4", copy=False).tobytes())
        return digest.hexdigest()[:12]

    @property
    def config(self) -> dict[str, Any]:
        """What ``config.json`` of the encoder folder says, without the format version."""
        return {
            "kind": KIND,
            "dim": self.dim,
            "vocab_size": len(self.segmenter),
            "preprocessing": asdict(self.segmenter.preprocessing),
            "fingerprint": self.fingerprint,
            "training": self.training_facts,
        }

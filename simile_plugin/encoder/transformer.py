"""A Transformer's mean state as sentence vector: what `simile_plugin.contrib.bgt` exports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simile_plugin.encoder.averages import SequenceComposer
from simile_plugin.files import InputError

SETTINGS = ("layers", "heads", "feedforward", "latent")
LONGEST = 1024  # tokens of a sentence that are read, fairseq's limit in training
TOKENS_AT_ONCE = 1 << 14  # tokens, padding counted, that go through the layers together


def sinusoids(count: int, dim: int, like: Tensor) -> Tensor:
    """Positions (count, dim) of Vaswani et al. 2017: sines in the first half, then cosines."""
    half = (dim + 1) // 2
    rates = torch.exp(torch.arange(half, device=like.device) * (-math.log(1e4) / max(1, half - 1)))
    angles = torch.arange(count, device=like.device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :dim].to(like.dtype)


class TransformerComposer(SequenceComposer):
    """g(s) = W mean over t of h_t, the states h of a Transformer over x_1 ... x_T and an end.

    Args:
        dim: E, of the embeddings and the states.
        layers, heads, feedforward: of the Transformer (post-norm, ReLU).
        latent: D, of a sentence vector.
        dropout: in training.
    """

    kind = "transformer"

    def __init__(
        self,
        dim: int,
        layers: int,
        heads: int,
        feedforward: int,
        latent: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dim, self.dropout = latent, dropout
        self._settings = dict(zip(SETTINGS, (layers, heads, feedforward, latent), strict=True))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, feedforward, dropout, batch_first=True)
            for _ in range(layers)
        )
        self.end = nn.Parameter(torch.randn(dim) * dim**-0.5)
        self.mean = nn.Linear(dim, latent, bias=False)

    @property
    def settings(self) -> dict[str, Any]:
        """See Composer."""
        return dict(self._settings)

    def pooled(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Mean states (B, E), the end's among them.

        Args:
            embedded: (B, T + 1, E) embeddings of tokens; what stands at and after a sentence's
                length is not read.
            lengths: (B,) tokens of each sentence, at most T.
        """
        time = torch.arange(embedded.shape[1], device=embedded.device)
        at_end = (time == lengths[:, None])[..., None]
        beyond = time > lengths[:, None]
        states = torch.where(at_end, self.end, embedded) * math.sqrt(embedded.shape[2])
        states = states + sinusoids(embedded.shape[1], embedded.shape[2], embedded)
        states = F.dropout(states, self.dropout, self.training)
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=beyond)
        total = states.masked_fill(beyond[..., None], 0.0).sum(1)
        return total / (lengths + 1)[:, None]

    def forward(
        self, table: Tensor, rows: Tensor, starts: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Sentence vectors (U, D), see SequenceComposer; zero for a sentence without a token."""
        assert mask is None, "simile train-encoder refuses this kind"
        lengths = torch.diff(starts, append=starts.new_tensor([len(rows)])).clamp(max=LONGEST)
        vectors = table.new_zeros(len(starts), self.dim)
        for some in alike(lengths):
            time = torch.arange(int(lengths[some[0]]) + 1, device=rows.device)
            places = (starts[some, None] + time).clamp(max=len(rows) - 1)
            embedded = F.embedding(rows[places], table)
            vectors[some] = self.mean(self.pooled(embedded, lengths[some]))
        return vectors


def alike(lengths: Tensor) -> Iterator[Tensor]:
    """Numbers of sentences that have a token, the longest first, in parts of some TOKENS_AT_ONCE.

    Args:
        lengths: (U,) tokens of each sentence.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    order = order[lengths[order] > 0]
    while len(order):
        count = max(1, TOKENS_AT_ONCE // (int(lengths[order[0]]) + 1))
        yield order[:count]
        order = order[count:]


def make_transformer(dim: int, settings: dict[str, Any]) -> TransformerComposer:
    """The composer of what its `settings` say.

    Raises:
        InputError: for a setting that is missing, too many or impossible.
    """
    if set(settings) != set(SETTINGS):
        raise InputError(f"composer: got {sorted(settings)}, expected {', '.join(SETTINGS)}")
    for name, value in settings.items():
        if type(value) is not int or value < 1:
            raise InputError(f"{name}: got {value!r}, expected a number above 0")
    if dim % settings["heads"]:
        raise InputError(f"heads: got {settings['heads']}, expected a divisor of {dim}")
    # Not in training from the start: torch then runs a layer as one operation.
    return TransformerComposer(dim, *(settings[name] for name in SETTINGS)).eval()

"""The parts of a BGT: networks that read a sentence, and decoders that write one from its z."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simile_plugin.contrib.bgt.elbo import Posterior
from simile_plugin.contrib.encoder_kinds import TransformerComposer, sinusoids

# Where a decoder takes z in (5.4.1 and Table 54).
ATTENTION, LOGIT = "attention", "logit"
PLACES = (ATTENTION, LOGIT)


class InferenceNetwork(nn.Module):
    """q(z | x): mean and variance from the mean state of a Transformer.

    The composer is what an exported encoder has, so that both compute the same.

    Args:
        composer: embeddings -> mean of z.
        dim: of its states.
        variance: whether the posterior has one.
    """

    def __init__(self, composer: TransformerComposer, dim: int, variance: bool) -> None:
        super().__init__()
        self.composer = composer
        self.log_variance = nn.Linear(dim, composer.dim) if variance else None

    def forward(self, embedded: Tensor, lengths: Tensor) -> Posterior:
        """The posterior of sentences, see TransformerComposer.pooled."""
        pooled = self.composer.pooled(embedded, lengths)
        mean = self.composer.mean(pooled)
        return Posterior(mean, None if self.log_variance is None else self.log_variance(pooled))


class BesideLatent(nn.Module):
    """W [x; z] + b for each token's x and its sentence's z, without writing [x; z] down."""

    def __init__(self, dim: int, latent: int, out: int) -> None:
        super().__init__()
        self.of_token = nn.Linear(dim, out)
        self.of_latent = nn.Linear(latent, out, bias=False)

    def forward(self, tokens: Tensor, latent: Tensor) -> Tensor:
        """(B, T, out) of tokens (B, T, E) and latent (B, L)."""
        return self.of_token(tokens) + self.of_latent(latent)[:, None]


class DecoderLayer(nn.Module):
    """Self-attention, z as the context that attention to a source would give, feedforward."""

    def __init__(
        self, dim: int, heads: int, feedforward: int, latent: int, dropout: float, context: bool
    ) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, dropout, batch_first=True)
        self.context = BesideLatent(dim, latent, dim) if context else None
        self.wide = nn.Linear(dim, feedforward)
        self.narrow = nn.Linear(feedforward, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 + context))
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, latent: Tensor, future: Tensor) -> Tensor:
        """New states (B, T, E); future is the mask (T, T) of tokens that are not yet written."""
        attended = self.attention(states, states, states, attn_mask=future, need_weights=False)[0]
        states = self.norms[0](states + self.dropout(attended))
        if self.context is not None:
            states = self.norms[1](states + self.dropout(F.relu(self.context(states, latent))))
        wide = self.dropout(F.relu(self.wide(states)))
        return self.norms[-1](states + self.dropout(self.narrow(wide)))


class LatentDecoder(nn.Module):
    """log p(x | z): a Transformer that sees what is written so far, and z.

    Args:
        dim, heads, feedforward, layers, dropout: of the Transformer.
        latent: L, length of z = [z_sem; z_language].
        vocabulary: V.
        places: where z is taken in, see PLACES.
        languages: first inputs that there are, one for each language it writes.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        feedforward: int,
        layers: int,
        dropout: float,
        latent: int,
        vocabulary: int,
        places: Sequence[str],
        languages: int = 1,
    ) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(languages, dim) * dim**-0.5)
        context = ATTENTION in places
        self.layers = nn.ModuleList(
            DecoderLayer(dim, heads, feedforward, latent, dropout, context) for _ in range(layers)
        )
        at_logits = LOGIT in places
        self.logits: nn.Module = (
            BesideLatent(dim, latent, vocabulary) if at_logits else nn.Linear(dim, vocabulary)
        )
        self.dropout = dropout

    def forward(self, embedded: Tensor, latent: Tensor, language: int = 0) -> Tensor:
        """Logits (B, T + 1, V) of the next token, at the start and after each of T tokens.

        Args:
            embedded: (B, T, E) embeddings of what was written.
            latent: (B, L).
            language: number of the first input.
        """
        first = self.start[language].expand(len(embedded), 1, -1)
        states = torch.cat([first, embedded], 1) * math.sqrt(first.shape[2])
        states = states + sinusoids(states.shape[1], states.shape[2], states)
        states = F.dropout(states, self.dropout, self.training)
        length = states.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=states.device).triu(1)
        for layer in self.layers:
            states = layer(states, latent, future)
        if isinstance(self.logits, BesideLatent):
            return self.logits(states, latent)
        return self.logits(states)

"""The Bilingual Generative Transformer (Wieting et al. 2020; thesis, 5.4 to 5.6, MGT 5.11).

A translation pair comes from z_sem, what both sides say, and a variable of each language:

    p(x_1, x_2, z) = p(x_1 | z_sem, z_1) p(x_2 | z_sem, z_2) N(z; 0, I)

Importing this module registers "bgt" as a kind of encoder: with this folder on PYTHONPATH and
SIMILE_KINDS=bgt every `simile` command reads the folders that train_bgt.py writes.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simile_plugin.encoder import Composer, Encoder, Kind, Segmenter, register_kind
from simile_plugin.files import InputError

PADDING = -100  # what cross entropy leaves out
SMOOTHING = 0.1  # of the translation loss (5.6.2)
LONGEST = 512  # pieces of a sentence that an encoder reads
AT_ONCE = 64  # sentences that an encoder reads together


@dataclass(frozen=True)
class Variant:
    """The parts of a model (thesis, 5.6.1).

    Attributes:
        language: whether each language has a variable.
        prior: whether posteriors are Gaussians, held to N(0, I); else they are points.
        sides: which sides of a pair it writes.
        shared: MGT (5.11): one decoder, and inference networks that share all layers but the top.
    """

    language: bool = False
    prior: bool = False
    sides: tuple[int, ...] = (0, 1)
    shared: bool = False


VARIANTS = {
    "bgt": Variant(language=True, prior=True),
    "mgt": Variant(language=True, prior=True, shared=True),
    "no-prior": Variant(language=True),
    "variational-translation": Variant(prior=True),
    "multilingual-translation": Variant(),
    "english-translation": Variant(sides=(1,)),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model; the paper's are in brackets.

    Attributes:
        pieces: V, of the joint vocabulary (20,000).
        dim: E, of embeddings and states (1024).
        latent: K, of each variable (1024).
        layers: of an inference network (5); a decoder has one, as in the paper.
        heads, feedforward: of both (16, 2048).
        dropout: of embeddings, attention and layers.
    """

    pieces: int
    dim: int = 128
    latent: int = 128
    layers: int = 2
    heads: int = 4
    feedforward: int = 256
    dropout: float = 0.1


@dataclass(frozen=True)
class Posterior:
    """q(z | x) = N(mean, diag(exp(log_variance))), or the point `mean` without a prior.

    Attributes:
        mean: (B, K).
        log_variance: (B, K), or None.
    """

    mean: Tensor
    log_variance: Tensor | None = None

    def sample(self) -> Tensor:
        """Draw z = mean + exp(log_variance / 2) e, e ~ N(0, I): (B, K); of a point its mean."""
        if self.log_variance is None:
            return self.mean
        return self.mean + (self.log_variance / 2).exp() * torch.randn_like(self.mean)

    def kl(self) -> Tensor:
        """Return KL(q || N(0, I)) = sum over k of (exp(v_k) + m_k^2 - 1 - v_k) / 2, (B,) nats.

        m are the means, v the logarithms of the variances; a point has 0, for want of a prior.
        """
        if self.log_variance is None:
            return self.mean.new_zeros(len(self.mean))
        return (self.log_variance.exp() + self.mean**2 - 1 - self.log_variance).sum(1) / 2


def alternate(first: Posterior, second: Posterior, update: int) -> Posterior:
    """Take pair by pair the posterior of one side and of the other in turn (5.5).

    The turns move on by one with each update, so that every pair is read on both sides.
    """
    turn = ((torch.arange(len(first.mean), device=first.mean.device) + update) % 2 == 0)[:, None]
    mean = torch.where(turn, first.mean, second.mean)
    if first.log_variance is None or second.log_variance is None:
        return Posterior(mean)
    return Posterior(mean, torch.where(turn, first.log_variance, second.log_variance))


def sentence_nll(logits: Tensor, tokens: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return -log p(x | z) of each sentence, its end among the tokens: (B,) nats.

    Args:
        logits: (B, T, V + 1), the last of them the end's.
        tokens: (B, T), PADDING behind.
        smoothing: epsilon; the target is (1 - epsilon) the token, epsilon uniform.
    """
    nll = F.cross_entropy(
        logits.flatten(0, 1),
        tokens.flatten(),
        ignore_index=PADDING,
        reduction="none",
        label_smoothing=smoothing,
    )
    return nll.view(tokens.shape).sum(1)


def kl_weight(update: int, anneal: int) -> float:
    """Return the weight of the KL term: 0 at update 0, linear, 1 from `anneal` on (5.6.2)."""
    return min(1.0, update / anneal)


def sinusoids(count: int, dim: int, like: Tensor) -> Tensor:
    """Return positions (count, dim) of Vaswani et al. 2017: sines, then cosines."""
    half = (dim + 1) // 2
    rates = torch.exp(torch.arange(half, device=like.device) * (-math.log(1e4) / max(1, half - 1)))
    angles = torch.arange(count, device=like.device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :dim].to(like.dtype)


class Reader(Composer):
    """g(x) = W mean over t of h_t, the states h of a Transformer over x_1 ... x_T and an end.

    It is the mean of q(z | x), and the composer of an encoder folder. The end tells MGT's networks
    apart.
    """

    kind = "bgt"

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
        names = ("layers", "heads", "feedforward", "latent")
        self._settings = dict(zip(names, (layers, heads, feedforward, latent), strict=True))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, feedforward, dropout, batch_first=True)
            for _ in range(layers)
        )
        self.end = nn.Parameter(torch.randn(dim) * dim**-0.5)
        self.mean = nn.Linear(dim, latent, bias=False)

    @property
    def settings(self) -> dict[str, Any]:
        """See Composer; dropout is for training alone."""
        return dict(self._settings)

    def pooled(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Return mean states (B, E) of embeddings (B, T, E), padding behind, and lengths (B,)."""
        embedded = F.pad(embedded, (0, 0, 0, 1))
        count, dim = embedded.shape[1:]
        time = torch.arange(count, device=embedded.device)
        at_end, beyond = time == lengths[:, None], time > lengths[:, None]
        states = torch.where(at_end[..., None], self.end, embedded) * math.sqrt(dim)
        states = states + sinusoids(count, dim, embedded)
        states = F.dropout(states, self.dropout, self.training)
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=beyond)
        total = states.masked_fill(beyond[..., None], 0.0).sum(1)
        return total / (lengths + 1)[:, None]

    def forward(self, weight: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
        """Return sentence vectors (U, D), see Composer: zero for a sentence without a token."""
        lengths = torch.diff(starts, append=starts.new_tensor([len(ids)])).clamp(max=LONGEST)
        vectors = weight.new_zeros(len(starts), self.dim)
        order = torch.argsort(lengths, descending=True, stable=True)[: int((lengths > 0).sum())]
        for start in range(0, len(order), AT_ONCE):
            some = order[start : start + AT_ONCE]
            time = torch.arange(int(lengths[some[0]]), device=ids.device)
            places = (starts[some, None] + time).clamp(max=len(ids) - 1)
            pooled = self.pooled(F.embedding(ids[places], weight), lengths[some])
            vectors[some] = self.mean(pooled)
        return vectors


def make_reader(dim: int, settings: dict[str, Any]) -> Reader:
    """Make the composer of a folder from what its config.json says."""
    try:
        return Reader(dim, **settings).eval()
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise InputError(f"composer: got {settings}: {error}") from error


register_kind("bgt", Kind(("sp",), make_reader, mixes=False))


class InferenceNetwork(nn.Module):
    """q(z | x), by a Reader, and a variance where there is a prior."""

    def __init__(self, sizes: Sizes, prior: bool) -> None:
        super().__init__()
        of_layers = sizes.layers, sizes.heads, sizes.feedforward, sizes.latent, sizes.dropout
        self.reader = Reader(sizes.dim, *of_layers)
        self.log_variance = nn.Linear(sizes.dim, sizes.latent) if prior else None

    def share(self, other: InferenceNetwork, top: bool) -> None:
        """Take the layers of another network; with `top` all, the end alone stays this one's."""
        mine, shared = self.reader, other.reader
        if top:
            mine.layers, mine.mean = shared.layers, shared.mean
            self.log_variance = other.log_variance
        else:
            mine.layers = nn.ModuleList([*shared.layers[:-1], mine.layers[-1]])

    def forward(self, embedded: Tensor, lengths: Tensor) -> Posterior:
        """Return the posterior of sentences, see Reader.pooled."""
        pooled = self.reader.pooled(embedded, lengths)
        variance = None if self.log_variance is None else self.log_variance(pooled)
        return Posterior(self.reader.mean(pooled), variance)


class BesideLatent(nn.Module):
    """W [x; z] + b for each token's x and its sentence's z, without writing [x; z] down."""

    def __init__(self, dim: int, latent: int, out: int) -> None:
        super().__init__()
        self.of_token = nn.Linear(dim, out)
        self.of_latent = nn.Linear(latent, out, bias=False)

    def forward(self, tokens: Tensor, latent: Tensor) -> Tensor:
        """Return (B, T, out) of tokens (B, T, E) and latent (B, L)."""
        states: Tensor = self.of_token(tokens) + self.of_latent(latent)[:, None]
        return states


class Decoder(nn.Module):
    """log p(x | z): one Transformer layer over what is written so far, and z (5.4.1).

    Args:
        latent: L, length of z = [z_sem; z_language].
        context: whether z also stands where attention to a source would (BGT; MGT: before the
            logits alone).
        languages: first inputs, one for each language that it writes.
    """

    def __init__(self, sizes: Sizes, latent: int, context: bool, languages: int) -> None:
        super().__init__()
        dim = sizes.dim
        self.start = nn.Parameter(torch.randn(languages, dim) * dim**-0.5)
        self.attention = nn.MultiheadAttention(dim, sizes.heads, sizes.dropout, batch_first=True)
        self.context = BesideLatent(dim, latent, dim) if context else None
        self.wide = nn.Linear(dim, sizes.feedforward)
        self.narrow = nn.Linear(sizes.feedforward, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 + context))
        self.dropout = nn.Dropout(sizes.dropout)
        self.logits = BesideLatent(dim, latent, sizes.pieces + 1)

    def forward(self, embedded: Tensor, latent: Tensor, language: int) -> Tensor:
        """Return logits (B, T + 1, V + 1) of the next token, at the start and after each of T.

        Args:
            embedded: (B, T, E) embeddings of what was written.
            latent: (B, L).
            language: number of the first input.
        """
        first = self.start[language].expand(len(embedded), 1, -1)
        states = torch.cat([first, embedded], 1) * math.sqrt(first.shape[2])
        count = states.shape[1]
        states = self.dropout(states + sinusoids(count, states.shape[2], states))
        future = torch.ones(count, count, dtype=torch.bool, device=states.device).triu(1)
        attended = self.attention(states, states, states, attn_mask=future, need_weights=False)[0]
        states = self.norms[0](states + self.dropout(attended))
        if self.context is not None:
            context = F.relu(self.context(states, latent))
            states = self.norms[1](states + self.dropout(context))
        wide = self.dropout(F.relu(self.wide(states)))
        logits: Tensor = self.logits(
            self.norms[-1](states + self.dropout(self.narrow(wide))), latent
        )
        return logits


class Bgt(nn.Module):
    """A BGT, MGT or ablation. One table of embeddings serves all networks.

    Args:
        variant: key of VARIANTS.
    """

    def __init__(self, sizes: Sizes, variant: str) -> None:
        super().__init__()
        self.sizes, self.name, self.variant = sizes, variant, VARIANTS[variant]
        parts = self.variant
        self.embed = nn.Embedding(sizes.pieces, sizes.dim)
        nn.init.normal_(self.embed.weight, std=sizes.dim**-0.5)
        self.semantic = InferenceNetwork(sizes, parts.prior)
        self.language = [InferenceNetwork(sizes, parts.prior) for _ in range(2 * parts.language)]
        self._language = nn.ModuleList(self.language)  # for torch to see them
        if parts.shared:
            self.language[0].share(self.semantic, top=False)
            self.language[1].share(self.language[0], top=True)
        latent = (1 + parts.language) * sizes.latent
        decoders, languages = (1, len(parts.sides)) if parts.shared else (len(parts.sides), 1)
        self.decoders = nn.ModuleList(
            Decoder(sizes, latent, not parts.shared, languages) for _ in range(decoders)
        )

    def read(self, network: InferenceNetwork, tokens: Tensor) -> Posterior:
        """Return q(z | x) of sentences (B, T), each with its end, PADDING behind."""
        lengths = (tokens != PADDING).sum(1) - 1
        posterior: Posterior = network(self._embedded(tokens[:, :-1]), lengths)
        return posterior

    def write(self, side: int, semantic: Tensor, language: Tensor | None, tokens: Tensor) -> Tensor:
        """Return logits (B, T, V + 1) of the tokens (B, T) of a side, each given those before it.

        Args:
            semantic, language: (B, K); a language variable that is not given is the prior's mean.
        """
        if self.variant.language:
            beside = torch.zeros_like(semantic) if language is None else language
            semantic = torch.cat([semantic, beside], 1)
        number = self.variant.sides.index(side)
        decoder, first = (0, number) if self.variant.shared else (number, 0)
        logits: Tensor = self.decoders[decoder](self._embedded(tokens[:, :-1]), semantic, first)
        return logits

    def _embedded(self, tokens: Tensor) -> Tensor:
        # The end and padding have no embedding; readers put their end there, decoders never look.
        vectors: Tensor = self.embed(
            tokens.masked_fill((tokens < 0) | (tokens >= self.sizes.pieces), 0)
        )
        return vectors

    def losses(self, sides: tuple[Tensor, Tensor], update: int) -> dict[str, Tensor]:
        """Return the terms of the objective, each (B,) in nats.

        ELBO = E_q [log p(x_1 | z_sem, z_1) + log p(x_2 | z_sem, z_2)] - KL(q || N(0, I)), where
        q = q(z_sem | one side in turn) q(z_1 | x_1) q(z_2 | x_2), E at one sample (5.5): it is
        -(nll + kl). `translation` is the label-smoothed loss of each side written from the mean
        of the other side's z_sem, which the paper adds. Without language variables nll writes each
        side from a sample of the other side's z_sem, and kl is that of both.

        Args:
            sides: tokens (B, T) of the pair, each with its end, PADDING behind.
        """
        parts = self.variant
        semantic = [self.read(self.semantic, side) for side in sides[: len(parts.sides)]]
        terms = {name: semantic[0].mean.new_zeros(len(sides[0])) for name in ("nll", "kl")}
        if parts.language:
            common = alternate(semantic[0], semantic[1], update)
            z_sem, terms["kl"] = common.sample(), common.kl()
            for side, network in enumerate(self.language):
                q = self.read(network, sides[side])
                terms["kl"] = terms["kl"] + q.kl()
                logits = self.write(side, z_sem, q.sample(), sides[side])
                terms["nll"] = terms["nll"] + sentence_nll(logits, sides[side])
        elif parts.prior:
            for side in parts.sides:
                q = semantic[1 - side]
                terms["kl"] = terms["kl"] + q.kl()
                logits = self.write(side, q.sample(), None, sides[side])
                terms["nll"] = terms["nll"] + sentence_nll(logits, sides[side])
        terms["translation"] = torch.zeros_like(terms["kl"])
        for side in parts.sides:
            logits = self.write(side, semantic[1 - side].mean, None, sides[side])
            terms["translation"] = terms["translation"] + sentence_nll(
                logits, sides[side], SMOOTHING
            )
        return terms

    def encoder(
        self, segmenter: Segmenter, network: InferenceNetwork, facts: dict[str, Any]
    ) -> Encoder:
        """Return the mean of a network's posterior as an encoder: of `semantic` z_sem."""
        reader = deepcopy(network.reader).eval()
        reader.dropout = 0.0
        weight = self.embed.weight.detach().clone()
        return Encoder(weight, segmenter, {"from": self.name, **facts}, reader)

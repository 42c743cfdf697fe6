"""Kinds of encoders that are no averages: LSTM-AVG, BLSTM, GRAN and CHARAGRAM.

Importing this module registers them. Other commands read their folders with this one on PYTHONPATH
and SIMILE_KINDS=kinds. Wieting et al. 2016 (CHARAGRAM), Wieting and Gimpel 2017 and 2018 (GRAN,
LSTM-AVG), Wieting et al. 2019 (BLSTM), Sjöblom et al. 2018 (GRAN).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from simile_plugin.encoder import Average, Composer, Kind, register_kind
from simile_plugin.files import InputError

TOKENS = ("sp", "word", "trigram")  # that recurrent kinds read
SENTENCES_AT_ONCE = 64


class Charagram(Average):
    """g(s) = tanh(b + sum of the embeddings of all n-grams) (Wieting et al. 2016)."""

    def __init__(self, dim: int) -> None:
        super().__init__("charagram", dim)
        self.bias = nn.Parameter(torch.zeros(dim))

    def of_means(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Return sentence vectors (U, D), see Average."""
        counts = lengths[:, None].to(means.dtype)
        return torch.tanh(means * counts + self.bias) * (counts > 0)


class SequenceComposer(Composer):
    """A function of the embeddings in turn; zero for a sentence without a token."""

    def forward(self, weight: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
        """Return sentence vectors (U, D), see Composer: those of like length together."""
        lengths = torch.diff(starts, append=starts.new_tensor([len(ids)]))
        vectors = weight.new_zeros(len(starts), self.dim)
        order = torch.argsort(lengths, descending=True, stable=True)
        for some in order[lengths[order] > 0].split(SENTENCES_AT_ONCE):
            time = torch.arange(int(lengths[some[0]]), device=ids.device)
            places = (starts[some, None] + time).clamp(max=len(ids) - 1)
            vectors[some] = self.of_padded(F.embedding(ids[places], weight), lengths[some])
        return vectors

    def of_padded(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Return vectors (B, D).

        Args:
            embedded: (B, T, E) embeddings; what stands at and after a sentence's length is padding.
            lengths: (B,) tokens of each sentence, falling, none is 0.
        """
        raise NotImplementedError


def states_of(rnn: nn.RNNBase, embedded: Tensor, lengths: Tensor) -> Tensor:
    """Return hidden states (B, T, H), 0 at padding."""
    packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True)
    states: Tensor = pad_packed_sequence(rnn(packed)[0], batch_first=True)[0]
    return states


class LstmAverage(SequenceComposer):
    """The mean of an LSTM's hidden states (LSTM-AVG; with two directions BLSTM).

    Args:
        dim: of the embeddings.
        hidden: size of a direction's state.
        combine: of both directions, "mean" or "concat".
    """

    def __init__(
        self, kind: str, dim: int, hidden: int | None = None, combine: str = "mean"
    ) -> None:
        super().__init__()
        if combine not in ("mean", "concat") or (combine != "mean" and kind == "lstm"):
            raise ValueError(f"combine: got {combine!r}, expected mean, or concat of a blstm")
        self.kind, self.hidden, self.combine = kind, hidden or dim, combine
        self.dim = 2 * self.hidden if combine == "concat" else self.hidden
        self.rnn = nn.LSTM(dim, self.hidden, bidirectional=kind == "blstm")

    @property
    def settings(self) -> dict[str, Any]:
        """See Composer."""
        both = {"combine": self.combine} if self.rnn.bidirectional else {}
        return {"hidden": self.hidden, **both}

    def of_padded(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Return mean states, those of both directions averaged or side by side."""
        means = states_of(self.rnn, embedded, lengths).sum(1) / lengths[:, None]
        if self.dim == means.shape[1]:
            return means
        return means.view(len(means), 2, -1).mean(1)


class Gran(SequenceComposer):
    """Gated recurrent averaging network (Wieting & Gimpel 2017; Sjöblom et al. 2018).

    g(s) = mean over t of x_t * sigmoid(W_x x_t + W_h h_t + b), with h_t the state of PyTorch's GRU
    over the embeddings x_t.
    """

    kind = "gran"

    def __init__(self, dim: int, hidden: int | None = None) -> None:
        super().__init__()
        self.dim, self.hidden = dim, hidden or dim
        self.rnn = nn.GRU(dim, self.hidden)
        self.from_token = nn.Linear(dim, dim)
        self.from_state = nn.Linear(self.hidden, dim, bias=False)

    @property
    def settings(self) -> dict[str, Any]:
        """See Composer."""
        return {"hidden": self.hidden}

    def of_padded(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Return means of gated embeddings."""
        states = states_of(self.rnn, embedded, lengths)
        gated = embedded * torch.sigmoid(self.from_token(embedded) + self.from_state(states))
        beyond = torch.arange(embedded.shape[1], device=lengths.device) >= lengths[:, None]
        return gated.masked_fill(beyond[..., None], 0.0).sum(1) / lengths[:, None]


def make(composer: Callable[..., Composer], dim: int, settings: dict[str, Any]) -> Composer:
    """Make a composer of embeddings (V, dim).

    Raises:
        InputError: for settings that it does not have or cannot take.
    """
    try:
        return composer(dim, **settings)
    except (TypeError, ValueError) as error:
        raise InputError(f"composer: got {settings}: {error}") from error


register_kind("charagram", Kind(("ngram",), partial(make, Charagram)))
for name in ("lstm", "blstm"):
    register_kind(name, Kind(TOKENS, partial(make, partial(LstmAverage, name)), mixes=False))
register_kind("gran", Kind(TOKENS, partial(make, Gran), mixes=False))

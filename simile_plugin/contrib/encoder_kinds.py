"""Encoders that are no averages: LSTM-AVG, BLSTM, GRAN, CHARAGRAM, and the Transformer of a BGT.

`simile contrib train-encoder` trains all but the last. Their folders are encoder folders as any
other: encoder.kinds finds KINDS here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simile_plugin.contrib.encoder_config import RECURRENT
from simile_plugin.encoder import Average, Composer
from simile_plugin.files import InputError

COMBINE = ("mean", "concat")
SENTENCES_AT_ONCE = 1024  # that go through a recurrent layer together
TRANSFORMER = ("layers", "heads", "feedforward", "latent")  # its settings
LONGEST = 1024  # tokens of a sentence that a Transformer reads, fairseq's limit in training
TOKENS_AT_ONCE = 1 << 14  # padding counted, that go through a Transformer's layers together


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
    """A function of the embeddings in turn: the mean of some values over time.

    Attributes:
        hidden: size of the state.
        same_mask: dropout drops the same entries of all tokens of a sentence.
    """

    hidden: int
    same_mask = False

    def forward(self, weight: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
        """Return sentence vectors (U, D), see Composer."""
        if len(starts) > SENTENCES_AT_ONCE:
            limits = [*starts[::SENTENCES_AT_ONCE].tolist(), len(ids)]
            return torch.cat(
                [
                    self(weight, ids[first:end], some - first)
                    for (first, end), some in zip(
                        pairwise(limits), starts.split(SENTENCES_AT_ONCE), strict=True
                    )
                ]
            )
        distinct, rows = torch.unique(ids, return_inverse=True)
        return self.of_tokens(F.embedding(distinct, weight), rows, starts)

    def of_tokens(
        self, table: Tensor, rows: Tensor, starts: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Return sentence vectors (U, D).

        Args:
            table: (R, E) embeddings of the distinct tokens.
            rows: (P,) the tokens of all sentences, one after the other, as rows of the table.
            starts: (U,) where each sentence begins among them.
            mask: (P, E) what the embedding of each token is multiplied by (dropout).
        """
        lengths = torch.diff(starts, append=starts.new_tensor([len(rows)]))
        if not len(rows):
            return table.new_zeros(len(starts), self.dim)
        # Time by time, the longest sentences first, so that every step works on whole matrices.
        order = torch.argsort(lengths, descending=True, stable=True)
        time = torch.arange(int(lengths.max()), device=rows.device)[:, None]
        there = time < lengths[order]
        packed = (starts[order] + time)[there]
        rows, sizes = rows[packed], there.sum(1).tolist()
        if mask is not None:
            table = F.embedding(rows, table) * mask[packed]
            rows = torch.arange(len(rows), device=rows.device)
        values = self.steps(table, rows, sizes)
        # Sums in the order of time: equal on every run, on a GPU as well, whatever stands beside.
        place = torch.empty_like(packed)
        place[packed] = torch.arange(len(packed), device=packed.device)
        sums = F.embedding_bag(place, values, starts, mode="sum")
        return sums / lengths.clamp(min=1)[:, None]

    def steps(self, table: Tensor, rows: Tensor, sizes: list[int]) -> Tensor:
        """Return what is averaged over time, (P, D), of tokens time by time.

        Args:
            table: (R, E) embeddings. What is linear in them is computed once for each row.
            rows: (P,) tokens, first those at time 0, as rows of the table.
            sizes: (T,) sentences that have a t-th token.
        """
        raise NotImplementedError

    def reset(self, generator: torch.Generator) -> None:
        """Draw parameters uniformly in +-1 / sqrt(hidden), torch's choice for recurrent layers."""
        bound = 1 / math.sqrt(self.hidden)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound, generator=generator)


class LstmAverage(SequenceComposer):
    """The mean of an LSTM's hidden states (LSTM-AVG; with two directions BLSTM).

    Args:
        dim: of the embeddings.
        hidden: size of a direction's state.
        bidirectional: a second LSTM reads from the end.
        combine: of both directions, "mean" or "concat".
    """

    def __init__(self, dim: int, hidden: int, bidirectional: bool, combine: str = "mean") -> None:
        super().__init__()
        self.kind = "blstm" if bidirectional else "lstm"
        self.hidden, self.combine = hidden, combine
        self.dim = 2 * hidden if bidirectional and combine == "concat" else hidden
        self.rnn = nn.LSTM(dim, hidden, bidirectional=bidirectional)

    @property
    def settings(self) -> dict[str, Any]:
        """See Composer."""
        both = {"combine": self.combine} if self.rnn.bidirectional else {}
        return {"hidden": self.hidden, **both}

    def steps(self, table: Tensor, rows: Tensor, sizes: list[int]) -> Tensor:
        """Return hidden states, those of both directions averaged or side by side."""
        states = run_lstm(self.rnn, table, rows, sizes)
        if not self.rnn.bidirectional:
            return states
        flipped = reversal(sizes).to(rows.device)
        others = run_lstm(self.rnn, table, rows[flipped], sizes, "_reverse")[flipped]
        if self.combine == "concat":
            return torch.cat([states, others], 1)
        return (states + others) / 2


class Gran(SequenceComposer):
    """Gated recurrent averaging network (Wieting & Gimpel 2017; Sjöblom et al. 2018).

    g(s) = mean over t of x_t * sigmoid(W_x x_t + W_h h_t + b), with h_t the state of a GRU over the
    embeddings x_t, as in the second paper; the first has an LSTM. The GRU is PyTorch's, with tanh:
    the second paper's has leaky ReLU, and its reset gate inside of U. Dropout is variational (Gal &
    Ghahramani 2016).
    """

    kind = "gran"
    same_mask = True

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.dim, self.hidden = dim, hidden
        self.rnn = nn.GRU(dim, hidden)
        self.from_token = nn.Linear(dim, dim)
        self.from_state = nn.Linear(hidden, dim, bias=False)

    @property
    def settings(self) -> dict[str, Any]:
        """See Composer."""
        return {"hidden": self.hidden}

    def steps(self, table: Tensor, rows: Tensor, sizes: list[int]) -> Tensor:
        """Return gated embeddings."""
        states = run_gru(self.rnn, table, rows, sizes)
        gates = F.embedding(rows, self.from_token(table)) + self.from_state(states)
        return F.embedding(rows, table) * torch.sigmoid(gates)


def reversal(sizes: list[int]) -> Tensor:
    """Return where in packed rows (P,) the token stands that takes each one's place backwards."""
    starts = torch.tensor([0, *sizes]).cumsum(0)
    lengths = (torch.tensor(sizes)[:, None] > torch.arange(sizes[0])).sum(0)
    return torch.cat(
        [starts[lengths[:size] - 1 - time] + torch.arange(size) for time, size in enumerate(sizes)]
    )


def _weights(rnn: nn.RNNBase, suffix: str = "") -> list[Tensor]:
    """Return the weights of tokens and of the state, and both biases."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return [getattr(rnn, name + suffix) for name in names]


def run_lstm(
    rnn: nn.LSTM, table: Tensor, rows: Tensor, sizes: list[int], suffix: str = ""
) -> Tensor:
    """Return hidden states (P, H), as torch's own LSTM gives them, of tokens time by time.

    Three times as fast as it on the CPU: its backward pass of ragged rows fills a (P, 4 H) tensor
    with zeros at every time, and it multiplies every token with the weights, not every row.

    Args:
        table, rows, sizes: see SequenceComposer.steps.
        suffix: of the parameters' names, "_reverse" for those of the other direction.
    """
    from_token, from_state, bias, other = _weights(rnn, suffix)
    state = cell = table.new_zeros(sizes[0], rnn.hidden_size)
    states = []
    of_tokens = F.embedding(rows, F.linear(table, from_token, bias + other))
    for gates in of_tokens.split(sizes):
        count = len(gates)
        gates = torch.addmm(gates, state[:count], from_state.T)
        enter, forget, new, leave = gates.chunk(4, 1)
        cell = torch.sigmoid(forget) * cell[:count] + torch.sigmoid(enter) * torch.tanh(new)
        state = torch.sigmoid(leave) * torch.tanh(cell)
        states.append(state)
    return torch.cat(states)


def run_gru(rnn: nn.GRU, table: Tensor, rows: Tensor, sizes: list[int]) -> Tensor:
    """Return states (P, H), as torch's own GRU gives them, of tokens time by time; see run_lstm."""
    from_token, from_state, bias, other = _weights(rnn)
    state = table.new_zeros(sizes[0], rnn.hidden_size)
    states = []
    of_tokens = F.embedding(rows, F.linear(table, from_token, bias))
    for of_token in of_tokens.split(sizes):
        state = state[: len(of_token)]
        of_state = F.linear(state, from_state, other)
        reset, update, new = of_token.chunk(3, 1)
        reset_state, update_state, new_state = of_state.chunk(3, 1)
        new = torch.tanh(new + torch.sigmoid(reset + reset_state) * new_state)
        state = torch.lerp(new, state, torch.sigmoid(update + update_state))
        states.append(state)
    return torch.cat(states)


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
        self._settings = dict(zip(TRANSFORMER, (layers, heads, feedforward, latent), strict=True))
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
        """Return mean states (B, E), the end's among them.

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

    def of_tokens(
        self, table: Tensor, rows: Tensor, starts: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Return sentence vectors (U, D), see SequenceComposer; zero for one without a token."""
        assert mask is None, "it is not trained by train-encoder"
        lengths = torch.diff(starts, append=starts.new_tensor([len(rows)])).clamp(max=LONGEST)
        vectors = table.new_zeros(len(starts), self.dim)
        for some in alike(lengths):
            time = torch.arange(int(lengths[some[0]]) + 1, device=rows.device)
            places = (starts[some, None] + time).clamp(max=len(rows) - 1)
            embedded = F.embedding(rows[places], table)
            vectors[some] = self.mean(self.pooled(embedded, lengths[some]))
        return vectors


def sinusoids(count: int, dim: int, like: Tensor) -> Tensor:
    """Return positions (count, dim) of Vaswani et al. 2017: sines, then cosines."""
    half = (dim + 1) // 2
    rates = torch.exp(torch.arange(half, device=like.device) * (-math.log(1e4) / max(1, half - 1)))
    angles = torch.arange(count, device=like.device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :dim].to(like.dtype)


def alike(lengths: Tensor) -> Iterator[Tensor]:
    """Yield numbers of sentences with a token, the longest first, some TOKENS_AT_ONCE at a time.

    Args:
        lengths: (U,) tokens of each sentence.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    order = order[lengths[order] > 0]
    while len(order):
        count = max(1, TOKENS_AT_ONCE // (int(lengths[order[0]]) + 1))
        yield order[:count]
        order = order[count:]


def _make_recurrent(kind: str, dim: int, settings: dict[str, Any]) -> SequenceComposer:
    hidden, combine = settings.pop("hidden", dim), "mean"
    if type(hidden) is not int or hidden < 1:
        raise InputError(f"hidden: got {hidden!r}, expected a number above 0")
    if kind == "blstm":
        combine = settings.pop("combine", "mean")
    if combine not in COMBINE:
        raise InputError(f"combine: got {combine!r}, expected {' or '.join(COMBINE)}")
    _refuse(kind, settings)
    if kind == "gran":
        return Gran(dim, hidden)
    return LstmAverage(dim, hidden, kind == "blstm", combine)


def _make_charagram(dim: int, settings: dict[str, Any]) -> Charagram:
    _refuse("charagram", settings)
    return Charagram(dim)


def _refuse(kind: str, settings: dict[str, Any]) -> None:
    if settings:
        raise InputError(f"{', '.join(settings)}: no setting of a {kind} encoder")


def _make_transformer(dim: int, settings: dict[str, Any]) -> TransformerComposer:
    if set(settings) != set(TRANSFORMER):
        raise InputError(f"composer: got {sorted(settings)}, expected {', '.join(TRANSFORMER)}")
    for name, value in settings.items():
        if type(value) is not int or value < 1:
            raise InputError(f"{name}: got {value!r}, expected a number above 0")
    if dim % settings["heads"]:
        raise InputError(f"heads: got {settings['heads']}, expected a divisor of {dim}")
    # Not in training from the start: torch then runs a layer as one operation.
    return TransformerComposer(dim, *(settings[name] for name in TRANSFORMER)).eval()


# Attributes of encoder.kinds.Kind.
KINDS: dict[str, tuple[Any, ...]] = {
    "charagram": (("ngram",), _make_charagram),
    **{
        kind: (("sp", "word", "trigram"), partial(_make_recurrent, kind), False)
        for kind in RECURRENT
    },
    "transformer": (("sp",), _make_transformer, False),
}

"""From the embeddings of a sentence's tokens to its vector: the part in which encoders differ.

A BagComposer sees the mean of the embeddings only, and so no order; a SequenceComposer sees all of
them in turn. Unknown tokens have been taken out before. A sentence without a known token is the
zero vector, whatever the kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simile_plugin.encoder.kinds import COMBINE, MIXTURES, TRANSFORMER, check_kind
from simile_plugin.encoder.tokens import MIX
from simile_plugin.files import InputError


class Composer(nn.Module):
    """Base of all kinds.

    Attributes:
        kind: a key of kinds.KINDS, or several with + between them.
        dim: length D of a sentence vector.
    """

    kind: str
    dim: int

    @property
    def settings(self) -> dict[str, Any]:
        """What `config.json` says of it beside the kind; make_composer takes it back."""
        return {}

    def reset(self, generator: torch.Generator) -> None:
        """Draw initial parameters."""


class BagComposer(Composer):
    """A function of the mean embedding; this one is the mean itself (SP, WORD, TRIGRAM)."""

    def __init__(self, kind: str, dim: int) -> None:
        super().__init__()
        self.kind, self.dim = kind, dim

    def forward(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Sentence vectors (U, D).

        Args:
            means: (U, E) mean embeddings, zero for a sentence without a token.
            lengths: (U,) tokens of each sentence.
        """
        return means

    def bags(self, ids: Tensor, starts: Tensor) -> Tensor:
        """Where each bag begins (U,), whose mean is asked for, of sentences of known tokens.

        Args:
            ids: (P,) of all sentences; starts: (U,) where each begins among them.
        """
        return starts


class Charagram(BagComposer):
    """g(s) = tanh(b + sum of the embeddings of all n-grams) (Wieting et al. 2016)."""

    def __init__(self, dim: int) -> None:
        super().__init__("charagram", dim)
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Sentence vectors (U, D), see BagComposer."""
        counts = lengths[:, None].to(means.dtype)
        return torch.tanh(means * counts + self.bias) * (counts > 0)


class Mixture(BagComposer):
    """Sum, or concatenation, of the vectors of several bags of tokens of one sentence.

    Its tokens are those of a MixedTokenizer; the mean of each part's is an own bag.

    Args:
        parts: composer of each part.
        sizes: number of ids of each part.
        mix: "add" or "concat".
    """

    bounds: Tensor

    def __init__(self, parts: Sequence[BagComposer], sizes: Sequence[int], mix: str) -> None:
        kind = MIX.join(part.kind for part in parts)
        super().__init__(kind, sum(p.dim for p in parts) if mix == "concat" else parts[0].dim)
        self.parts = nn.ModuleList(parts)
        self.mix = mix
        self.register_buffer("bounds", torch.tensor(sizes).cumsum(0)[:-1], persistent=False)

    @property
    def settings(self) -> dict[str, Any]:
        """See Composer."""
        return {"mix": self.mix}

    def forward(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Sentence vectors (U, D), of the bags that `bags` gives."""
        count = len(self.parts)
        vectors = [
            part(means[number::count], lengths[number::count])
            for number, part in enumerate(self.parts)
        ]
        return torch.cat(vectors, 1) if self.mix == "concat" else torch.stack(vectors).sum(0)

    def bags(self, ids: Tensor, starts: Tensor) -> Tensor:
        """Where the bags (U * parts,) begin: all parts of the first sentence, of the second, ..."""
        # Training asks on the CPU, wherever the weights are.
        part_of = torch.bucketize(ids, self.bounds.to(ids.device), right=True)
        before = [F.pad((part_of < number).cumsum(0), (1, 0)) for number in range(len(self.parts))]
        ends = torch.cat([starts[1:], starts.new_tensor([len(ids)])])
        return torch.stack([starts + count[ends] - count[starts] for count in before], 1).flatten()


class SequenceComposer(Composer):
    """A function of the embeddings in turn."""

    hidden: int

    def forward(
        self, table: Tensor, rows: Tensor, starts: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Sentence vectors (U, D).

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
        """What is averaged over time, (P, D), of tokens time by time.

        Args:
            table: (R, E) embeddings. What is linear in them is computed once for each row.
            rows: (P,) tokens, first those at time 0, as rows of the table.
            sizes: (T,) sentences that have a t-th token.
        """
        raise NotImplementedError

    def reset(self, generator: torch.Generator) -> None:
        """Uniform in +-1 / sqrt(hidden), torch's choice for recurrent layers."""
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
        """Hidden states, those of both directions averaged or side by side."""
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
    the second paper's has leaky ReLU, and its reset gate inside of U.

    Args:
        dim: of the embeddings, and of a sentence vector.
        hidden: size of the GRU's state.
    """

    kind = "gran"

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
        """Gated embeddings."""
        states = run_gru(self.rnn, table, rows, sizes)
        gates = F.embedding(rows, self.from_token(table)) + self.from_state(states)
        return F.embedding(rows, table) * torch.sigmoid(gates)


def reversal(sizes: list[int]) -> Tensor:
    """Where in packed rows (P,) the token stands that takes each one's place read backwards."""
    starts = torch.tensor([0, *sizes]).cumsum(0)
    lengths = (torch.tensor(sizes)[:, None] > torch.arange(sizes[0])).sum(0)
    return torch.cat(
        [starts[lengths[:size] - 1 - time] + torch.arange(size) for time, size in enumerate(sizes)]
    )


def _weights(rnn: nn.RNNBase, suffix: str = "") -> list[Tensor]:
    """Of tokens and of the state, and both biases."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return [getattr(rnn, name + suffix) for name in names]


def run_lstm(
    rnn: nn.LSTM, table: Tensor, rows: Tensor, sizes: list[int], suffix: str = ""
) -> Tensor:
    """Hidden states (P, H), as torch's own LSTM gives them, of tokens time by time.

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
    """States (P, H), as torch's own GRU gives them, of tokens time by time; see run_lstm."""
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


def make_composer(
    kind: str, dim: int, settings: dict[str, Any] | None = None, sizes: Sequence[int] = ()
) -> Composer:
    """The composer of a kind.

    Args:
        kind: a key of kinds.KINDS, or several with + between them.
        dim: of the embeddings.
        settings: "hidden", "combine" and "mix", where the kind has them; of a transformer all of
            transformer.SETTINGS.
        sizes: number of ids of each part of a mixture.

    Raises:
        InputError: for an unknown kind, or settings that it does not have.
    """
    check_kind(kind)
    settings = dict(settings or {})
    if kind == TRANSFORMER:
        from simile_plugin.encoder.transformer import make_transformer

        return make_transformer(dim, settings)
    if MIX in kind:
        mix = settings.pop("mix", "add")
        if mix not in MIXTURES or settings:
            raise InputError(f"mix: got {mix!r} {settings or ''}, expected {' or '.join(MIXTURES)}")
        parts = [make_composer(part, dim) for part in kind.split(MIX)]
        return Mixture([part for part in parts if isinstance(part, BagComposer)], sizes, mix)
    hidden, combine = settings.pop("hidden", dim), settings.pop("combine", "mean")
    if type(hidden) is not int or hidden < 1:
        raise InputError(f"hidden: got {hidden!r}, expected a number above 0")
    if combine not in COMBINE:
        raise InputError(f"combine: got {combine!r}, expected {' or '.join(COMBINE)}")
    if settings:
        raise InputError(f"{', '.join(settings)}: no setting of a {kind} encoder")
    if kind in ("lstm", "blstm"):
        return LstmAverage(dim, hidden, kind == "blstm", combine)
    if kind == "gran":
        return Gran(dim, hidden)
    return Charagram(dim) if kind == "charagram" else BagComposer(kind, dim)

"""Encoders that are no averages: each beside a slow loop that follows its paper."""

import math

import pytest
import torch
from torch import Tensor, nn

from simile_plugin.contrib import encoder_kinds
from simile_plugin.contrib.encoder_kinds import (
    Charagram,
    Gran,
    LstmAverage,
    SequenceComposer,
    TransformerComposer,
)
from simile_plugin.encoder.averages import make_composer
from simile_plugin.files import InputError

DIM, HIDDEN = 5, 3
LENGTHS = (3, 0, 1, 7, 3, 2)


def sentences(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Embeddings (tokens, DIM) of some sentences, one of them without a token."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(length, DIM, generator=generator, dtype=dtype) for length in LENGTHS]


def composed(composer: SequenceComposer, given: list[Tensor]) -> Tensor:
    starts = torch.tensor([0, *map(len, given)]).cumsum(0)[:-1]
    table = torch.cat(given)
    with torch.no_grad():
        return composer(table, torch.arange(len(table)), starts)


def drawn(kind: str, **settings: object) -> SequenceComposer:
    torch.manual_seed(1)
    composer = make_composer(kind, DIM, {"hidden": HIDDEN, **settings})
    assert isinstance(composer, SequenceComposer)
    return composer.double()


def slow_lstm(composer: LstmAverage, tokens: Tensor, suffix: str = "") -> list[Tensor]:
    """Hidden states, gate by gate (Hochreiter & Schmidhuber 1997, in torch's order of gates)."""
    of_token, of_state, bias, other = (
        getattr(composer.rnn, f"{name}_l0{suffix}")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    state = cell = torch.zeros(HIDDEN, dtype=tokens.dtype)
    states = []
    for token in tokens:
        gates = of_token @ token + bias + of_state @ state + other
        enter, forget, new, leave = gates.split(HIDDEN)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        state = leave.sigmoid() * cell.tanh()
        states.append(state)
    return states


def mean(rows: list[Tensor], dim: int) -> Tensor:
    return torch.stack(rows).mean(0) if rows else torch.zeros(dim, dtype=torch.float64)


def test_lstm_is_a_slow_loop() -> None:
    composer = drawn("lstm")
    assert isinstance(composer, LstmAverage)
    expected = [mean(slow_lstm(composer, tokens), HIDDEN) for tokens in sentences()]
    torch.testing.assert_close(composed(composer, sentences()), torch.stack(expected))


@pytest.mark.parametrize("combine", ["mean", "concat"])
def test_blstm_is_a_slow_loop(combine: str) -> None:
    composer = drawn("blstm", combine=combine)
    assert isinstance(composer, LstmAverage)
    expected = []
    for tokens in sentences():
        forward = mean(slow_lstm(composer, tokens), HIDDEN)
        backward = mean(slow_lstm(composer, tokens.flip(0), "_reverse"), HIDDEN)
        both = torch.cat([forward, backward]) if combine == "concat" else (forward + backward) / 2
        expected.append(both)
    torch.testing.assert_close(composed(composer, sentences()), torch.stack(expected))
    assert composer.dim == len(expected[0])


def test_gran_is_a_slow_loop() -> None:
    composer = drawn("gran")
    assert isinstance(composer, Gran)
    of_token, of_state, bias, other = (
        getattr(composer.rnn, f"{name}_l0")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    expected = []
    for tokens in sentences():
        state, gated = torch.zeros(HIDDEN, dtype=torch.float64), []
        for token in tokens:
            left = (of_token @ token + bias).split(HIDDEN)
            right = (of_state @ state + other).split(HIDDEN)
            reset, update = (left[0] + right[0]).sigmoid(), (left[1] + right[1]).sigmoid()
            state = (1 - update) * (left[2] + reset * right[2]).tanh() + update * state
            gate = composer.from_token.weight @ token + composer.from_token.bias
            gate = (gate + composer.from_state.weight @ state).sigmoid()
            gated.append(token * gate)
        expected.append(mean(gated, DIM))
    torch.testing.assert_close(composed(composer, sentences()), torch.stack(expected))


def test_charagram_by_hand() -> None:
    composer = Charagram(2)
    with torch.no_grad():
        composer.bias.copy_(torch.tensor([0.1, -0.2]))
    # Two n-grams (1, 0) and (3, 1): mean (2, 0.5), sum (4, 1); the second sentence has none.
    vectors = composer.of_means(torch.tensor([[2.0, 0.5], [0.0, 0.0]]), torch.tensor([2, 0]))
    assert vectors[0].tolist() == pytest.approx([math.tanh(4.1), math.tanh(0.8)])
    assert vectors[1].tolist() == [0, 0]


SETTINGS = {"layers": 2, "heads": 2, "feedforward": 8, "latent": 3}
WIDE = 4


def transformer() -> TransformerComposer:
    torch.manual_seed(1)
    composer = make_composer("transformer", WIDE, dict(SETTINGS)).eval()
    assert isinstance(composer, TransformerComposer)
    return composer


def rows_of_a_table() -> tuple[Tensor, Tensor, Tensor]:
    """A table, tokens as its rows, and where sentences begin."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randint(5, (sum(LENGTHS),), generator=generator)
    starts = torch.tensor([0, *LENGTHS]).cumsum(0)[:-1]
    return torch.randn(5, WIDE, generator=generator), rows, starts


def attended(layer: nn.TransformerEncoderLayer, states: Tensor) -> Tensor:
    """Multi-head self-attention, position by position."""
    theirs = layer.self_attn
    queries, keys, values = (states @ theirs.in_proj_weight.T + theirs.in_proj_bias).chunk(3, 1)
    heads = []
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        rows = []
        for query in queries[:, part]:
            weights = torch.stack([query @ key / math.sqrt(2) for key in keys[:, part]]).softmax(0)
            rows.append(sum(w * value for w, value in zip(weights, values[:, part], strict=True)))
        heads.append(torch.stack(rows))
    return theirs.out_proj(torch.cat(heads, 1))


def test_transformer_is_a_slow_loop() -> None:
    composer, (table, rows, starts) = transformer(), rows_of_a_table()
    with torch.no_grad():
        found = composer(table, rows, starts)
        for number, (start, length) in enumerate(zip(starts.tolist(), LENGTHS, strict=True)):
            if not length:
                assert found[number].tolist() == [0.0] * 3
                continue
            tokens = table[rows[start : start + length]]
            states = torch.cat([tokens, composer.end[None]]) * math.sqrt(WIDE)
            for time in range(len(states)):
                angles = torch.tensor([time * 1.0, time / 1e4])
                states[time] += torch.cat([angles.sin(), angles.cos()])
            for layer in composer.layers:
                assert isinstance(layer, nn.TransformerEncoderLayer)
                states = layer.norm1(states + attended(layer, states))
                states = layer.norm2(states + layer.linear2(layer.linear1(states).relu()))
            torch.testing.assert_close(found[number], composer.mean(states.mean(0)))


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    composer, arguments = transformer(), rows_of_a_table()
    with torch.no_grad():
        whole = composer(*arguments)
        monkeypatch.setattr(encoder_kinds, "SENTENCES_AT_ONCE", 2)
        torch.testing.assert_close(composer(*arguments), whole)
        monkeypatch.setattr(TransformerComposer, "longest", 2)
        assert not torch.allclose(composer(*arguments)[3], whole[3])


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("sp+lstm", {}, r"kind: got 'sp\+lstm', expected a mixture of different ones of sp, word"),
        ("lstm", {"hidden": -1}, "composer: got .*hidden_size must be greater than zero"),
        ("gran", {"layers": 2}, "composer: got .*unexpected keyword argument 'layers'"),
        ("transformer", SETTINGS | {"heads": 3}, "composer: got .*divisible by num_heads"),
    ],
)
def test_wrong_settings(kind: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_composer(kind, DIM, settings)

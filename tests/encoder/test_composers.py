"""From tokens to a sentence vector: every kind beside a slow loop that follows its paper."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from simile_plugin.encoder.averages import (
    BagComposer,
    Charagram,
    Gran,
    LstmAverage,
    Mixture,
    SequenceComposer,
    make_composer,
    reversal,
)
from simile_plugin.encoder.kinds import KINDS, check_kind

DIM, HIDDEN = 5, 3
LENGTHS = (3, 0, 1, 7, 3, 2)


def sentences(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Embeddings (tokens, DIM) of some sentences, one of them without a token."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(length, DIM, generator=generator, dtype=dtype) for length in LENGTHS]


def composed(composer: SequenceComposer, given: list[Tensor]) -> Tensor:
    starts = torch.tensor([0, *map(len, given)]).cumsum(0)[:-1]
    table = torch.cat(given)
    result: Tensor = composer(table, torch.arange(len(table)), starts)
    return result


def drawn(kind: str, **settings: object) -> SequenceComposer:
    composer = make_composer(kind, DIM, {"hidden": HIDDEN, **settings})
    composer.reset(torch.Generator().manual_seed(1))
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


def test_recurrent_states_are_those_of_torch() -> None:
    composer = drawn("blstm", combine="concat")
    assert isinstance(composer, LstmAverage)
    rows = [composer.rnn(tokens[:, None])[0][:, 0].mean(0) for tokens in sentences() if len(tokens)]
    filled = [length > 0 for length in LENGTHS]
    torch.testing.assert_close(composed(composer, sentences())[filled], torch.stack(rows))


@pytest.mark.parametrize("kind", ["lstm", "blstm", "gran"])
def test_a_sentence_does_not_depend_on_its_batch(kind: str) -> None:
    composer, given = drawn(kind), sentences()
    together = composed(composer, given)
    alone = torch.cat([composed(composer, [tokens]) for tokens in given])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(composed(composer, given[::-1]), together.flip(0))
    assert not together[1].any()  # no token: the zero vector
    # A token that is used twice may be one row of the table.
    table, rows = given[3], torch.tensor([0, 2, 2, 1, 0])
    vectors: Tensor = composer(table, rows, torch.tensor([0, 3]))
    torch.testing.assert_close(vectors, composed(composer, [table[[0, 2, 2]], table[[1, 0]]]))


@pytest.mark.parametrize("kind", ["lstm", "blstm", "gran"])
def test_recurrent_kinds_see_the_order(kind: str) -> None:
    composer, (tokens, *_) = drawn(kind), sentences()
    forward, back = composed(composer, [tokens]), composed(composer, [tokens.flip(0)])
    assert float((forward - back).detach().abs().max()) > 1e-4


@pytest.mark.parametrize("kind", ["lstm", "blstm", "gran"])
def test_memory_is_not_that_of_the_longest_sentence_times_all(kind: str) -> None:
    numbers: list[int] = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found = function(*args, **(kwargs or {}))
            numbers.append(found.numel() if isinstance(found, Tensor) else 0)
            return found

    longest, others = 400, 300
    given = [torch.randn(1, DIM, dtype=torch.float64)] * others
    with Sizes(), torch.no_grad():
        composed(drawn(kind), [*given, torch.randn(longest, DIM, dtype=torch.float64)])
    assert max(numbers) <= longest * (others + 1)  # where which token stands; no values


def test_a_mask_hits_the_embeddings() -> None:
    composer, given = drawn("gran"), sentences()
    table = torch.cat(given)
    starts = torch.tensor([0, *map(len, given)]).cumsum(0)[:-1]
    mask = (torch.rand(table.shape, generator=torch.Generator().manual_seed(0)) < 0.5).double()
    masked: Tensor = composer(table, torch.arange(len(table)), starts, mask)
    dropped: Tensor = composer(table * mask, torch.arange(len(table)), starts)
    torch.testing.assert_close(masked, dropped)


def test_reversal_by_hand() -> None:
    # Sentences of 3, 2 and 1 tokens, time by time: a0 b0 c0 a1 b1 a2.
    # Backwards a2 b1 c0 a1 b0 a0 stands in these places.
    assert reversal([3, 2, 1]).tolist() == [5, 4, 2, 3, 1, 0]


def test_charagram_by_hand() -> None:
    composer = Charagram(2)
    with torch.no_grad():
        composer.bias.copy_(torch.tensor([0.1, -0.2]))
    # Two n-grams (1, 0) and (3, 1): mean (2, 0.5), sum (4, 1); the second sentence has none.
    vectors = composer(torch.tensor([[2.0, 0.5], [0.0, 0.0]]), torch.tensor([2, 0]))
    assert vectors[0].tolist() == pytest.approx([math.tanh(4.1), math.tanh(0.8)])
    assert vectors[1].tolist() == [0, 0]


@pytest.mark.parametrize("mix", ["add", "concat"])
def test_mixtures_by_hand(mix: str) -> None:
    # Ids 0 and 1 are of the first part, 2 to 4 of the second; the second sentence has only those.
    mixture = make_composer("sp+trigram", 2, {"mix": mix}, (2, 3))
    assert isinstance(mixture, Mixture)
    ids, starts = torch.tensor([0, 1, 4, 2, 3, 3, 1]), torch.tensor([0, 3, 6])
    bags = mixture.bags(ids, starts)
    assert bags.tolist() == [0, 2, 3, 3, 6, 7]
    table = torch.tensor([[1.0, 0], [3, 2], [4, 4], [5, 0], [0, 6]])
    means = torch.nn.functional.embedding_bag(ids, table, bags, mode="mean")
    found = mixture(means, torch.tensor([2, 1, 0, 3, 1, 0]))
    # ((1, 0) + (3, 2)) / 2 and (0, 6); nothing and ((4, 4) + 2 (5, 0)) / 3; (3, 2) and nothing.
    first = torch.tensor([[2.0, 1], [0, 0], [3, 2]])
    second = torch.tensor([[0.0, 6], [14 / 3, 4 / 3], [0, 0]])
    expected = torch.cat([first, second], 1) if mix == "concat" else first + second
    torch.testing.assert_close(found, expected)
    assert mixture.dim == expected.shape[1]


def test_plain_averages_have_no_parameters() -> None:
    for kind in ("sp", "word", "trigram"):
        composer = make_composer(kind, DIM)
        assert type(composer) is BagComposer
        assert not list(composer.parameters())


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("elmo", {}, "kind: got 'elmo', expected one of sp, word"),
        ("sp+lstm", {}, r"kind: got 'sp\+lstm', expected a mixture of different ones of sp, word"),
        ("sp+sp", {}, "expected a mixture of different ones"),
        ("lstm", {"hidden": 0}, "hidden: got 0, expected a number above 0"),
        ("lstm", {"hidden": True}, "hidden: got True"),
        ("blstm", {"combine": "max"}, "combine: got 'max', expected mean or concat"),
        ("gran", {"layers": 2}, "layers: no setting of a gran encoder"),
        ("sp+word", {"mix": "max"}, "mix: got 'max' , expected add or concat"),
    ],
)
def test_wrong_settings(kind: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_composer(kind, DIM, settings, (2, 2))


def test_all_kinds_are_kinds() -> None:
    for kind in KINDS:
        check_kind(kind)

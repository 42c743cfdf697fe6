"""The Transformer encoder: a slow loop beside it, parts, settings, and who may train it."""

import math

import pytest
import torch

from simile_plugin.encoder import transformer
from simile_plugin.encoder.averages import make_composer
from simile_plugin.encoder.transformer import TransformerComposer, alike
from simile_plugin.encoder_training import TrainingConfig
from simile_plugin.files import InputError

SETTINGS = {"layers": 2, "heads": 2, "feedforward": 8, "latent": 3}
LENGTHS = (3, 0, 1, 7, 3, 2)
DIM = 4


def made() -> TransformerComposer:
    torch.manual_seed(1)
    composer = make_composer("transformer", DIM, dict(SETTINGS)).eval()
    assert isinstance(composer, TransformerComposer)
    return composer


def given() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A table, tokens as its rows, and where sentences begin."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randint(5, (sum(LENGTHS),), generator=generator)
    starts = torch.tensor([0, *LENGTHS]).cumsum(0)[:-1]
    return torch.randn(5, DIM, generator=generator), rows, starts


def attended(layer: torch.nn.TransformerEncoderLayer, states: torch.Tensor) -> torch.Tensor:
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


def test_beside_a_slow_loop() -> None:
    composer, (table, rows, starts) = made(), given()
    with torch.no_grad():
        found = composer(table, rows, starts)
        for number, (start, length) in enumerate(zip(starts.tolist(), LENGTHS, strict=True)):
            if not length:
                assert found[number].tolist() == [0.0] * 3
                continue
            tokens = table[rows[start : start + length]]
            states = torch.cat([tokens, composer.end[None]]) * math.sqrt(DIM)
            for time in range(len(states)):
                angles = torch.tensor([time * 1.0, time / 1e4])
                states[time] += torch.cat([angles.sin(), angles.cos()])
            for layer in composer.layers:
                assert isinstance(layer, torch.nn.TransformerEncoderLayer)
                states = layer.norm1(states + attended(layer, states))
                states = layer.norm2(states + layer.linear2(layer.linear1(states).relu()))
            torch.testing.assert_close(found[number], composer.mean(states.mean(0)))


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    composer, arguments = made(), given()
    with torch.no_grad():
        whole = composer(*arguments)
        monkeypatch.setattr(transformer, "TOKENS_AT_ONCE", 5)
        lengths = torch.tensor(LENGTHS)
        assert [part.tolist() for part in alike(lengths)] == [[3], [0], [4], [5], [2]]
        torch.testing.assert_close(composer(*arguments), whole)
        monkeypatch.setattr(transformer, "LONGEST", 2)
        assert not torch.allclose(composer(*arguments)[3], whole[3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "heads: got 3, expected a divisor of 4"),
        ({"latent": 0}, "latent: got 0, expected a number above 0"),
        ({"layers": 1.5}, "layers: got 1.5, expected a number above 0"),
        ({"hidden": 3}, "composer: got .*, expected layers, heads, feedforward, latent"),
    ],
)
def test_wrong_settings(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_composer("transformer", DIM, SETTINGS | change)


def test_it_is_not_trained_by_train_encoder() -> None:
    with pytest.raises(InputError, match="--kind: got transformer, which is exported from a BGT"):
        TrainingConfig(steps=1, kind="transformer")
    with pytest.raises(InputError, match="got 'sp\\+transformer', expected a mixture"):
        make_composer("sp+transformer", DIM)

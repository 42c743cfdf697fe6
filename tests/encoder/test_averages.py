"""From tokens to a sentence vector: averages and mixtures of them."""

import pytest
import torch

from simile_plugin.encoder.averages import Mixture, make_composer

DIM = 5


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
    found = mixture.of_means(means, torch.tensor([2, 1, 0, 3, 1, 0]))
    # ((1, 0) + (3, 2)) / 2 and (0, 6); nothing and ((4, 4) + 2 (5, 0)) / 3; (3, 2) and nothing.
    first = torch.tensor([[2.0, 1], [0, 0], [3, 2]])
    second = torch.tensor([[0.0, 6], [14 / 3, 4 / 3], [0, 0]])
    expected = torch.cat([first, second], 1) if mix == "concat" else first + second
    torch.testing.assert_close(found, expected)
    assert mixture.dim == expected.shape[1]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("elmo", {}, "kind: got 'elmo', expected one of sp, word"),
        ("sp+word", {"mix": "max"}, "mix: got 'max' , expected add or concat"),
    ],
)
def test_wrong_settings(kind: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_composer(kind, DIM, settings, (2, 2))

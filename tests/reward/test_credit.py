"""Credit by word: the derivative of SIM, by finite differences and by its properties."""

import pytest
import torch

from simile_plugin.encoder import Encoder
from simile_plugin.encoder.averages import make_composer
from simile_plugin.reward import check_words_add_up, word_credit
from tests.conftest import SENTENCES

REF = "two boys skip flat stones over the pond"
HYPS = ["the boys skip stones over a pond", REF, "stones stones stones", ""]


def similarity(encoder: Encoder, ref: str, words: list[str], weights: list[float]) -> float:
    """The cosine of a reference and a weighted sum of words, piece by piece."""
    total = torch.zeros(encoder.dim, dtype=torch.float64)
    for word, weight in zip(words, weights, strict=True):
        for piece in encoder.segmenter.encode([word])[0]:
            total += weight * encoder.weight[piece].detach().double()
    right = encoder.weight[encoder.segmenter.encode([ref])[0]].detach().double().sum(0)
    return float(total @ right / (total.norm() * right.norm()))


def test_it_is_the_derivative_by_finite_differences(encoder: Encoder) -> None:
    lists = [[REF.split(), *(hyp.split() for hyp in HYPS)]]
    found = word_credit(lists, encoder)[0]
    assert found.shape == (5, 8)
    step = 1e-5
    for row, words in zip(found, lists[0], strict=True):
        for place in range(len(words)):
            up, down = (
                similarity(encoder, REF, words, [1 + s * (i == place) for i in range(len(words))])
                for s in (step, -step)
            )
            assert row[place].item() == pytest.approx((up - down) / (2 * step), abs=1e-5)
        assert not row[len(words) :].any()


def test_it_shares_credit_and_gives_none(encoder: Encoder) -> None:
    lists = [[sentence, *SENTENCES[:3]] for sentence in SENTENCES]
    found = word_credit([[row.split() for row in list_] for list_ in lists], encoder)
    torch.testing.assert_close(found.sum(-1), torch.zeros(len(SENTENCES), 4), atol=1e-5, rtol=0)
    # a candidate that is the reference leaves nothing to share
    torch.testing.assert_close(found[0, 1], torch.zeros(found.size(-1)), atol=1e-5, rtol=0)


def test_what_is_said_too_often_loses(encoder: Encoder) -> None:
    words = [*REF.split(), "stones", "stones"]
    found = word_credit([[REF.split(), words]], encoder)[0, 1]
    said = torch.tensor([word == "stones" for word in words])
    assert (found[said] < 0).all() and found[~said].sum() > 0


def test_a_small_step_along_it_raises_similarity(encoder: Encoder) -> None:
    words = HYPS[0].split()
    credit = word_credit([[REF.split(), words]], encoder)[0, 1, : len(words)].tolist()
    before = similarity(encoder, REF, words, [1.0] * len(words))
    assert similarity(encoder, REF, words, [1 + 0.05 * x for x in credit]) > before


def test_only_where_words_make_the_sentence(encoder: Encoder) -> None:
    check_words_add_up(encoder)
    composer = make_composer("lstm", encoder.dim, {"hidden": 8})
    other = Encoder(encoder.weight.clone(), encoder.segmenter, composer=composer)
    with pytest.raises(ValueError, match="--risk-credit token: got an encoder of kind lstm"):
        check_words_add_up(other)

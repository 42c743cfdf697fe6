"""The encoder: the mean of embeddings, computed by hand."""

import numpy as np
import pytest
import torch

from simile_plugin.encoder.models import Encoder, cosine, usable_device
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter


def with_rows(encoder: Encoder, rows: dict[int, list[float]]) -> Encoder:
    """An encoder of two dimensions that is 7 wherever ``rows`` says nothing."""
    weight = torch.full((len(encoder.segmenter), 2), 7.0)
    for piece, values in rows.items():
        weight[piece] = torch.tensor(values)
    return Encoder(weight, encoder.segmenter)


def unknown_id(encoder: Encoder) -> int:
    assert isinstance(encoder.segmenter, Segmenter)
    return encoder.segmenter.unk_id


def test_a_sentence_is_the_mean_of_its_pieces(encoder: Encoder) -> None:
    model = with_rows(encoder, {10: [1.0, 2.0], 11: [3.0, -4.0], 12: [2.0, 8.0]})
    vectors = model.embed([[10, 11], [10, 11, 12], [12, 12, 10]])
    expected = [
        [(1 + 3) / 2, (2 - 4) / 2],
        [(1 + 3 + 2) / 3, (2 - 4 + 8) / 3],
        [(2 + 2 + 1) / 3, (8 + 8 + 2) / 3],
    ]
    torch.testing.assert_close(vectors, torch.tensor(expected))


def test_unknown_pieces_count_for_length_but_not_for_the_mean(encoder: Encoder) -> None:
    unk = unknown_id(encoder)
    model = with_rows(encoder, {10: [1.0, 2.0], unk: [100.0, 100.0]})
    vectors = model.embed([[10, unk], [unk, unk], [], [10]])
    assert vectors.tolist() == [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
    lengths = model.segmenter.lengths(np.array([10, unk, unk, unk]), np.array([0, 2, 4]))
    assert lengths.tolist() == [2, 2, 0]


def test_a_sentence_does_not_depend_on_its_batch_or_on_the_order_of_pieces(
    encoder: Encoder,
) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = [
        torch.randint(1, len(encoder.segmenter), (length,), generator=generator).tolist()
        for length in (1, 5, 0, 17, 2)
    ]
    together = encoder.embed(rows)
    for index, row in enumerate(rows):
        torch.testing.assert_close(encoder.embed([row])[0], together[index])
        torch.testing.assert_close(encoder.embed([row[::-1]])[0], together[index])


def test_fingerprint_depends_on_every_part(encoder: Encoder) -> None:
    weight = encoder.weight.detach()
    (proto,) = encoder.segmenter.files.values()
    same = Encoder(weight.clone(), Segmenter(proto, Preprocessing()), {"note": "not a part"})
    assert same.fingerprint == encoder.fingerprint
    assert len(same.fingerprint) == 12
    changed = weight.clone()
    changed[3, 0] += 1e-3
    assert Encoder(changed, encoder.segmenter).fingerprint != encoder.fingerprint
    cased = Segmenter(proto, Preprocessing(lowercase=False))
    assert Encoder(weight, cased).fingerprint != encoder.fingerprint


def test_embeddings_must_fit_the_sentencepiece_model(encoder: Encoder) -> None:
    pieces = len(encoder.segmenter)
    with pytest.raises(ValueError, match=f"have 3 rows, but the sentencepiece model has {pieces}"):
        Encoder(torch.zeros(3, 4), encoder.segmenter)
    with pytest.raises(ValueError, match=r"expected \(pieces, dimensions\) float32"):
        Encoder(torch.zeros(pieces, 4, dtype=torch.float64), encoder.segmenter)
    with pytest.raises(ValueError, match="NaN or infinite"):
        Encoder(torch.full((pieces, 4), torch.inf), encoder.segmenter)


def test_cosine_by_hand() -> None:
    left = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0], [1e-12, 0.0]])
    right = torch.tensor([[4.0, 3.0], [-2.0, 0.0], [1.0, 1.0], [1e-12, 1e-12]])
    # (12 + 12) / 25; opposite; a zero vector; the length of vectors does not count.
    assert cosine(left, right).tolist() == pytest.approx([24 / 25, -1, 0, 0.5**0.5])


def test_devices() -> None:
    assert usable_device("cpu") == usable_device(None) == torch.device("cpu")
    with pytest.raises(ValueError, match="--device: got 'abacus', which cannot be used here"):
        usable_device("abacus")
    with pytest.raises(ValueError, match="--device: got 'meta', which cannot be used here"):
        usable_device("meta")

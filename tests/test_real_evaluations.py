"""The evaluation path on real data: an encoder that has learned nothing must score what it should.

Random vectors of pieces are a strong and well-known anchor for averaging encoders (Wieting and
Kiela 2019, "No Training Required"): they see which words are shared, and nothing else.
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.evaluation.sts import evaluate_sts, read_sts
from simile_plugin.files.lines import read_lines
from tests.papers.scripts import script

bitext = script("artetxe-2019-margin-based-mining", "bitext")

pytestmark = pytest.mark.skipif(
    "SIMILE_DATA" not in os.environ, reason="SIMILE_DATA, the folder of real data, is not set"
)
DATA = Path(os.environ.get("SIMILE_DATA", "."))


@pytest.fixture(scope="module")
def untrained() -> list[Encoder]:
    """Two encoders with random vectors and 8,000 pieces of German and English news."""
    news = DATA / "newstest" / "de-en"
    lines = [
        line
        for year in (2012, 2013)
        for side in ("de", "en")
        for line in read_lines(news / f"newstest{year}.{side}.gz", "news")
    ]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line.lower() for line in lines),
        model_writer=model,
        vocab_size=8000,
        minloglevel=2,
    )
    segmenter = Segmenter(model.getvalue(), Preprocessing())
    found = []
    for seed in (1, 2):
        generator = torch.Generator().manual_seed(seed)
        found.append(Encoder(torch.randn(len(segmenter), 300, generator=generator), segmenter))
    return found


# The encoder of the recipe has 46.7, 39.8, 56.1 and 65.2 before its first minibatch (with 30,000
# pieces of other text).
@pytest.mark.parametrize(
    ("year", "low", "high"), [(2012, 42, 51), (2013, 33, 46), (2014, 50, 60), (2017, 57, 75)]
)
def test_sts_of_a_random_encoder(
    untrained: list[Encoder], year: int, low: float, high: float
) -> None:
    (folder,) = (DATA / "sts").glob(f"STS{year}*-test")
    sets = read_sts(folder)
    means = [evaluate_sts(encoder, folder, sets).mean_pearson for encoder in untrained]
    assert all(low < mean < high for mean in means), means
    assert abs(means[0] - means[1]) < 5


def test_retrieval_by_shared_pieces(untrained: list[Encoder]) -> None:
    news = DATA / "newstest" / "de-en"
    german, english = (
        read_lines(news / f"newstest2018.{side}.gz", "news") for side in ("de", "en")
    )
    german, english = german[:1000], english[:1000]
    embed = untrained[0].embed_text
    x, y = bitext.embed_all(embed, german), bitext.embed_all(embed, english)
    same = bitext.retrieval_accuracy(german, german, *bitext.nearest(x, x))
    assert (same.forward, same.backward) == (100, 100)
    found = bitext.retrieval_accuracy(german, english, *bitext.nearest(x, y))
    assert 100 / 1000 < found.mean < 70  # names and numbers are shared, words are not
    assert np.isfinite(found.mean)

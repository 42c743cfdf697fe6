"""A small encoder with random weights: scores need not be good here, only computed."""

import io
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
import sentencepiece
import torch

from simile_plugin.encoder.format import save_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.encoder_training.pairs import Pairs
from tests.pairs import random_pairs, write_pairs

# The same examples at every run: a change that breaks a test is then the change that is tested.
# `--hypothesis-profile=explore` looks for new ones.
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.register_profile("explore")
hypothesis.settings.load_profile("fixed")

SENTENCES = [
    "the grey heron waits beside the cold water",
    "two boys skip flat stones over the pond",
    "an old ferry crosses the strait at noon",
    "nobody told the baker about the broken oven",
    "she folded the map and looked for the harbour",
    "our train was late because of snow on the line",
    "the museum opens its garden in the spring",
    "he paid for the tickets with a handful of coins",
]


@pytest.fixture(scope="session")
def spm_proto() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        vocab_size=90,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def encoder(spm_proto: bytes) -> Encoder:
    segmenter = Segmenter(spm_proto, Preprocessing())
    torch.manual_seed(3)
    return Encoder(torch.randn(len(segmenter), 16), segmenter)


@pytest.fixture(scope="session")
def encoder_folder(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "enc"
    save_encoder(folder, encoder)
    return folder


@pytest.fixture
def make_tsv(tmp_path: Path) -> Callable[..., Path]:
    """make_tsv(count, seed=0) -> path of a TSV of pairs."""

    def make(count: int, seed: int = 0) -> Path:
        return write_pairs(tmp_path / f"pairs{count}.{seed}.tsv", count, seed)

    return make


@pytest.fixture(scope="session")
def make_pairs() -> Callable[..., Pairs]:
    """make_pairs(count, vocab, shared, filler, seed=0) -> Pairs of random pieces."""
    return random_pairs


# The two below import fairseq, which most tests do without.


@pytest.fixture
def task():
    from tests.fairseq_models import make_task

    return make_task()


@pytest.fixture
def make_criterion(task, encoder_folder):
    from simile_plugin.fairseq_training.config import SimileRiskConfig
    from simile_plugin.fairseq_training.criterion import SimileRiskCriterion

    def make(**flags):
        flags = {"simile_encoder": str(encoder_folder), "risk_candidates": 4, **flags}
        return SimileRiskCriterion(SimileRiskConfig(**flags), task)

    return make

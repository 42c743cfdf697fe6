"""What all tests share: a small encoder with random weights, and which of them are slow."""

import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
# `--hypothesis-profile=explore` looks for new ones. Time is no matter: a machine may be busy.
UNTIMED: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("fixed", derandomize=True, **UNTIMED)
hypothesis.settings.register_profile("explore", **UNTIMED)
hypothesis.settings.load_profile("fixed")

# What takes more than about two seconds of a free core, by folder, file or test. `recipes/test.sh`
# leaves it out; `recipes/test.sh all` and CI run it. What else belongs here: --durations=30.
SLOW = (
    "tests/cli/test_doctor.py::test_everything_works_here",
    "tests/cli/test_report_html.py::test_every_question_has_its_section",
    "tests/cli/test_train_encoder.py::test_killed_again_and_again",
    "tests/cli/test_train_encoder.py::test_two_processes_through_the_command",
    "tests/encoder_training/test_adam.py::test_a_row_that_nobody_reads_for_long",
    "tests/encoder_training/test_adam.py::test_every_step_is_that_of_dense_adam",
    "tests/encoder_training/test_workers.py",
    "tests/evaluation/test_neural_metrics.py",
    "tests/examples/test_commands.py::test_a_page_does_what_it_says",
    "tests/examples/test_notebook.py::test_the_notebook_runs",
    "tests/fairseq_hooks/test_installation.py::test_importing_the_criterion_changes_nothing",
    "tests/fairseq_training/test_agreement.py",
    "tests/fairseq_training/test_beam.py::test_lists_are_sequence_generators",
    "tests/fairseq_training/test_combinations.py",
    "tests/fairseq_training/test_distributed.py",
    "tests/fairseq_training/test_half_precision.py",
    "tests/fairseq_training/test_portions.py::test_out_of_memory_goes_on_in_smaller_portions",
    "tests/fuzz/",
    "tests/hugging_face/",
    "tests/papers/",
    "tests/reward/test_functions.py::test_trl_trains_a_decoder_only_model_on_it",
    "tests/system/",
    "tests/test_other_device.py",
    "tests/test_real_evaluations.py",
    "tests/test_recipe_settings.py",
    "tests/test_rewards.py::test_trl_trains_by_the_command_line",
)

# What takes minutes a file: of processes side by side, none shall begin with it last.
LONGEST = ("tests/system/", "tests/hugging_face/")


@pytest.hookimpl(tryfirst=True)  # before pytest reads -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):  # pytest-xdist
        items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last, after pytest's own last line, what did not run and how to run it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    for line in left_out(reporter.stats):
        reporter.write_line(line)


def left_out(stats: dict[str, list[Any]]) -> Iterator[str]:
    """One line about the tests deselected as slow, one about those skipped for want of data."""
    slow = sum("slow" in item.keywords for item in stats.get("deselected", ()))
    if slow:
        yield f"{slow} slow tests were left out; to run them too: recipes/test.sh all"
    lacking = sum("SIMILE_DATA" in str(report.longrepr) for report in stats.get("skipped", ()))
    if lacking:
        yield (
            f"{lacking} tests of real data were skipped; to run them too: SIMILE_DATA=FOLDER "
            "recipes/test.sh all (recipes/encoder/run.sh --help says what the folder holds)"
        )


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


@pytest.fixture(scope="session")
def bitext() -> tuple[list[str], list[str]]:
    """Sentences and their translations: words spelt backwards, with another letter at the end."""
    words = "red blue old new house garden child river boat stone sings runs falls small tall dog"
    draw = random.Random(1)
    sources = [" ".join(draw.sample(words.split(), draw.randint(3, 6))) for _ in range(300)]
    return sources, [" ".join(word[::-1] + "u" for word in line.split()) for line in sources]


@pytest.fixture(scope="session")
def distilled(encoder: Encoder, bitext: tuple[list[str], list[str]]) -> Encoder:
    from simile_plugin.encoder_training import DistilConfig, distil_encoder

    config = DistilConfig(vocab_size=80, epochs=60, batch_size=64)
    return distil_encoder(encoder, *bitext, config)

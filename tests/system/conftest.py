"""One server of tiny trainings for all tests of this folder, without a network."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from recipes.reliability.trainings import Trainings, prepare
from simile_plugin.fairseq_hooks import allow_fairseq_checkpoints
from tests.system.test_no_network import blocked


@pytest.fixture(scope="session")
def trainings(
    tmp_path_factory: pytest.TempPathFactory, encoder_folder: Path
) -> Iterator[Trainings]:
    allow_fairseq_checkpoints()
    folder = tmp_path_factory.mktemp("trainings")
    tried = folder / "network.log"
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in blocked(tried).items():
                patch.setenv(name, value)
            made = stack.enter_context(Trainings(folder))
        prepare(made, encoder_folder)
        yield made
    assert not tried.exists(), tried.read_text()

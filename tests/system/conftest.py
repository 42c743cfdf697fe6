"""One server of tiny trainings for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from recipes.reliability.trainings import Trainings, prepare
from simile_plugin.fairseq_hooks import allow_fairseq_checkpoints


@pytest.fixture(scope="session")
def trainings(
    tmp_path_factory: pytest.TempPathFactory, encoder_folder: Path
) -> Iterator[Trainings]:
    allow_fairseq_checkpoints()
    with Trainings(tmp_path_factory.mktemp("trainings")) as made:
        prepare(made, encoder_folder)
        yield made

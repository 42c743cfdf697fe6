"""Several processes that share minibatches, against one that does all of them."""

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from simile_plugin.encoder_training.config import POOLS, TrainingConfig
from simile_plugin.encoder_training.pairs import Pairs
from simile_plugin.encoder_training.processes import sum_of_rows
from simile_plugin.encoder_training.trainer import Trainer

VOCAB = 40
SETUP: dict[str, Any] = {
    "steps": 9,
    "dim": 8,
    "batch_size": 4,
    "megabatch": 3,
    "megabatch_anneal": 2,
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def work(rank: int, world: int, port: int, job: str, folder: str, *args: Any) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    torch.save(globals()[job](*args), Path(folder, f"{rank}.pt"))
    torch.distributed.destroy_process_group()


def in_processes(world: int, tmp_path: Path, job: Callable[..., Any], *args: Any) -> list[Any]:
    """What job(*args) gives in each of some processes."""
    arguments = (world, free_port(), job.__name__, str(tmp_path), *args)
    if torch.cuda.is_available():  # autograd has threads then that a fork has not
        kept = tmp_path / "arguments"
        kept.write_bytes(pickle.dumps(arguments))
        code = "import pickle, runpy, sys; _, file, kept, rank = sys.argv; "
        code += "runpy.run_path(file)['work'](int(rank), *pickle.load(open(kept, 'rb')))"
        command = [sys.executable, "-c", code, __file__, str(kept)]
        running = [subprocess.Popen([*command, str(rank)]) for rank in range(world)]
        assert not any(process.wait(timeout=300) for process in running)
    else:
        torch.multiprocessing.start_processes(work, arguments, nprocs=world, start_method="fork")
    return [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(world)]


def train(
    pairs: Pairs, setup: TrainingConfig, trainer_class: type[Trainer] = Trainer
) -> dict[str, Tensor]:
    trainer = trainer_class(setup, pairs, VOCAB)
    stats = [trainer.train_step() for _ in range(trainer.config.steps)]
    return {
        "weight": trainer.weight.clone(),
        "stats": torch.stack(stats),
        "queue": torch.from_numpy(trainer.queue),
    }


@pytest.fixture
def pairs(make_pairs: Callable[..., Pairs]) -> Pairs:
    return make_pairs(30, VOCAB, shared=2, filler=3)


@pytest.mark.parametrize("pool", POOLS)
def test_two_processes_train_what_one_does(pairs: Pairs, tmp_path: Path, pool: str) -> None:
    setup = TrainingConfig(**SETUP, pool=pool)
    alone = train(pairs, setup)
    first, second = in_processes(2, tmp_path, train, pairs, setup)
    assert torch.equal(first["weight"], second["weight"])  # the same to the bit on both
    assert torch.equal(first["queue"], second["queue"])
    torch.testing.assert_close(first["weight"], alone["weight"], atol=1e-5, rtol=1e-4)
    # Loss, shares and mean cosines are those of the whole minibatch; the last value pairs
    # neighbours, who are other ones in a half of it.
    torch.testing.assert_close(first["stats"][:, :4], alone["stats"][:, :4], atol=1e-5, rtol=1e-4)


def some_rows() -> dict[str, Tensor]:
    # Row 5 in both processes, 2 in the first, 9 in the second.
    rank = torch.distributed.get_rank()
    rows = np.array([[2, 5], [5, 9]][rank])
    gradient = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) * (1 + 9 * rank)
    summed, total = sum_of_rows(rows, gradient)
    return {"rows": torch.from_numpy(summed), "total": total}


def test_sum_of_rows_by_hand(tmp_path: Path) -> None:
    for result in in_processes(2, tmp_path, some_rows):
        assert result["rows"].tolist() == [2, 5, 9]
        # 5: (3, 4) + 10 * (1, 2) = (13, 24)
        assert result["total"].tolist() == [[1, 2], [13, 24], [30, 40]]


def test_a_minibatch_that_cannot_be_shared(pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simile_plugin.encoder_training.trainer.rank_and_world", lambda: (0, 3))
    with pytest.raises(ValueError, match="--batch-size: got 4, which 3 processes cannot share"):
        Trainer(TrainingConfig(**SETUP), pairs, VOCAB)

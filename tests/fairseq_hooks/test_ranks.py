"""What is said when a rank is gone, and what fairseq forgets of several."""

from types import SimpleNamespace

import pytest
import torch

from simile_plugin.fairseq_hooks import ranks


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("[gloo/pair.cc:1] Connection closed by peer [::1]:5"), "does not answer"),
        (RuntimeError("Timed out waiting 3000ms for recv"), "training goes on from checkpoint_la"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to"), "--risk-max-tokens, or halve"),
        (MemoryError(), "out of memory (MemoryError); give --risk-max-tokens"),
    ],
)
def test_lost_ranks_and_full_memories_get_one_line(error: BaseException, words: str) -> None:
    line = ranks.explain(error)
    assert line is not None and words in line and "\n" not in line


def test_torchrun_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def infer(cfg: SimpleNamespace) -> None:  # as fairseq does
        cfg.device_id = 1 % torch.cuda.device_count()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    cfg = SimpleNamespace(distributed_backend="nccl")
    ranks.launch_on_cpu_too(infer, cfg)
    assert (cfg.device_id, cfg.distributed_backend) == (0, "gloo")


def test_the_batches_before_an_empty_one_count() -> None:
    def step(trainer: SimpleNamespace, samples: list[dict[str, int]], raise_oom: bool) -> object:
        return samples

    one, two = {"id": 1}, {"id": 2}
    trainer = SimpleNamespace(is_fsdp=False)
    for samples, left in (([one, {}], [one]), ([one, two], [one, two]), ([{}, {}], [{}, {}])):
        assert ranks.without_empty_batches(step, trainer, samples, True) == left
    trainer.is_fsdp = True  # whose ranks wait for each other at every batch
    assert ranks.without_empty_batches(step, trainer, [one, {}], True) == [one, {}]

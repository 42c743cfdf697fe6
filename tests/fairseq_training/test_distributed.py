"""Two gloo processes on 2 x b sentences against one process on 1 x 2b: gradients and logs."""

import contextlib
import multiprocessing
import os
from multiprocessing.connection import wait

import pytest
import torch
from fairseq.distributed import LegacyDistributedDataParallel

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from tests.fairseq_models import make_model, make_sample, make_task, rows_of
from tests.fairseq_training.test_portions import small_memory

# Equal source lengths: fairseq bounds a candidate's length by the longest source of its batch.
LENGTHS = ((5, 4), (5, 6), (5, 2), (5, 3), (5, 7))
# The batches of each rank, two an update (--update-freq 2), the last ones ragged.
SHARES = ([[0, 1], [2]], [[3], [4]])
# Where a rank has no sentence left, fairseq gives it a batch that it has seen, without gradient.
DUMMY = -1
SHARES_WITH_DUMMY = ([[0, 1], [2]], [[3, 4], [DUMMY, 3]])
TIMES = ("seconds_",)


def wrap(model, backend):
    if backend == "pytorch_ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    return LegacyDistributedDataParallel(model, torch.distributed.group.WORLD)


def update(arch, folder, max_tokens, batches, backend=None):
    """Gradients of one update, divided by its sentences as fairseq's trainer does, and its logs."""
    torch.set_num_threads(1)
    task = make_task()
    sample = make_sample(task, lengths=LENGTHS)
    config = SimileRiskConfig(simile_encoder=folder, risk_candidates=3, risk_max_tokens=max_tokens)
    criterion = SimileRiskCriterion(config, task)
    model = make_model(arch, task).double().train()
    wrapped = wrap(model, backend) if backend else model
    logs = []
    for number, rows in enumerate(batches):
        last = number == len(batches) - 1
        with contextlib.nullcontext() if last or not backend else wrapped.no_sync():
            real = [row for row in rows if row != DUMMY]
            loss, _, log = criterion(wrapped, rows_of(sample, real))
            if real != rows:
                loss *= 0
            loss.backward()
        if real == rows:
            logs.append(log)
    if backend == "legacy_ddp":
        wrapped.all_reduce_grads()
    total = {
        key: sum(torch.as_tensor(log[key], dtype=torch.float64) for log in logs)
        for key in logs[0]
        if not key.startswith(TIMES)
    }
    world = 1
    if backend:
        world = torch.distributed.get_world_size()
        for value in total.values():
            torch.distributed.all_reduce(value)
    scale = world / float(total["sample_size"])  # both wrappers average over the processes
    grads = {name: (p.grad * scale).numpy() for name, p in model.named_parameters()}
    return grads, {key: value.numpy() for key, value in total.items()}


def work(rank, store, answer, backend, shares, tight, *arguments):
    address = f"file://{store}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    with pytest.MonkeyPatch.context() as monkeypatch:
        failures = small_memory(monkeypatch, backward=30) if tight and rank else []
        found = update(*arguments, shares[rank], backend)
        assert len(failures) > 0 if tight and rank else not failures
    answer.send(found)
    torch.distributed.destroy_process_group()


def two_processes(store, backend, shares, tight, *arguments):
    """What update() finds in each of two processes, however long they take."""
    context = multiprocessing.get_context("fork")  # no second import of torch and fairseq
    children, answers, found = [], {}, {}
    for rank in (0, 1):
        ours, theirs = context.Pipe(duplex=False)
        given = (rank, store, theirs, backend, shares, tight, *arguments)
        children.append(context.Process(target=work, args=given))
        children[-1].start()
        theirs.close()  # the child's is the last: its end ends a recv
        answers[ours] = rank
    try:
        while answers:
            for answer in wait(list(answers)):
                found[answers.pop(answer)] = answer.recv()
        return found
    except EOFError:
        pytest.fail("a process died")
    finally:
        for child in children:
            child.kill()
            child.join()


@pytest.mark.parametrize(
    ("arch", "max_tokens", "backend", "shares", "tight"),
    [
        ("transformer_tiny", 0, "pytorch_ddp", SHARES, False),
        ("transformer_tiny", 20, "legacy_ddp", SHARES_WITH_DUMMY, False),
        ("fconv", 0, "legacy_ddp", SHARES, True),
        ("lstm", 20, "pytorch_ddp", SHARES, False),
        ("transformer_tiny", 0, "pytorch_ddp", SHARES_WITH_DUMMY, True),
    ],
)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_two_by_b_is_one_by_two_b(
    arch, max_tokens, backend, shares, tight, encoder_folder, tmp_path
):
    """``tight``: the second process runs out of memory in its backward passes."""
    arguments = arch, str(encoder_folder), max_tokens
    grads, logs = update(*arguments, [[0, 1, 2, 3, 4]])
    found = two_processes(os.fspath(tmp_path / "store"), backend, shares, tight, *arguments)
    assert found.keys() == {0, 1}
    for rank_grads, rank_logs in found.values():
        assert rank_logs.keys() == logs.keys()
        for key in logs:
            # the reward encoder computes in float32
            assert rank_logs[key] == pytest.approx(logs[key], rel=1e-5, abs=1e-6), key
        assert rank_grads.keys() == grads.keys()
        for name in grads:
            assert rank_grads[name] == pytest.approx(grads[name], rel=1e-5, abs=1e-7), name

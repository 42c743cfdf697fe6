"""Steps on static buffers: what is remembered, when it is forgotten, when sentences leave."""

import pytest
import torch

from simile_plugin.search import AtOnce, Halves, Recorder, recorder_for
from simile_plugin.search.recorder import GraphRecorder

CPU = torch.device("cpu")


def test_a_step_is_taken_once_a_run_and_as_it_was_first():
    recorder = recorder_for(CPU)
    total = recorder.buffer("total", (2,), torch.float32, CPU).zero_()
    for number in (1.0, 10.0, 100.0):  # not in the key: a mistake that a replay shows
        recorder.run("add", lambda number=number: total.add_(number))
    assert total.tolist() == [3.0, 3.0]
    recorder.run(("add", 10.0), lambda: total.add_(10.0))
    assert total.tolist() == [13.0, 13.0]


def test_buffers_share_memory_by_name_until_one_is_larger():
    recorder = Recorder()
    large = recorder.buffer("x", (2, 6), torch.int64, CPU)
    small = recorder.buffer("x", (3, 2), torch.int64, CPU)
    assert small.data_ptr() == large.data_ptr() and small.is_contiguous()
    assert recorder.buffer("y", (2,), torch.int64, CPU).data_ptr() != large.data_ptr()
    recorder.run("step", lambda: None)
    recorder.buffer("x", (4, 3), torch.int64, CPU)
    assert recorder.recorded
    recorder.buffer("x", (13,), torch.int64, CPU)
    assert not recorder.recorded


@pytest.mark.parametrize("change", ["in place", "elsewhere"])
def test_steps_are_forgotten_when_weights_lie_elsewhere(change):
    recorder, weight = Recorder(), torch.ones(2)
    recorder.watch([weight])
    recorder.run("step", lambda: None)
    with torch.no_grad():
        weight = weight.add_(1) if change == "in place" else weight + 1
    recorder.watch([weight])
    assert bool(recorder.recorded) == (change == "in place")


def test_the_step_that_was_not_used_for_longest_is_forgotten():
    recorder, taken = Recorder(most=2), []
    for key in ("a", "b", "a", "c", "b"):  # c drops b, the second b drops a
        recorder.run(key, lambda key=key: taken.append(key))
    assert list(recorder.recorded) == ["c", "b"] and taken == ["a", "b", "a", "c", "b"]


@pytest.mark.parametrize("failures", [1, 2])
def test_a_capture_without_memory_is_tried_again_with_what_torch_keeps(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, recorder = list[str](), GraphRecorder()
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    monkeypatch.setattr("simile_plugin.search.recorder._end_capture_of_random_numbers", int)

    def capture(step: object) -> object:
        calls.append("capture")
        if calls.count("capture") <= failures:
            raise torch.OutOfMemoryError("no memory")
        return step

    monkeypatch.setattr(recorder, "_capture", capture)
    step = calls.clear
    if failures == 1:  # then the pool's first graph, and the step
        assert recorder._record(step) is step
        assert calls == ["capture", "empty", "capture", "capture"] and not recorder.failed
    else:
        with pytest.raises(torch.OutOfMemoryError):
            recorder._record(step)
        assert calls == ["capture", "empty", "capture"]


def test_at_once_each_finished_sentence_leaves() -> None:
    policy = AtOnce()
    assert [policy.sentences(count) for count in (1, 7, 30)] == [1, 7, 30]
    assert policy.fewer(29, 30) == 29 and policy.fewer(1, 30) == 1
    assert policy.fewer(30, 30) is None


@pytest.mark.parametrize(
    ("count", "shape"),
    [(1, 8), (8, 8), (9, 10), (16, 16), (17, 18), (31, 32), (33, 36), (100, 104), (257, 288)],
)
def test_halves_fill_a_batch_up_by_at_most_an_eighth(count: int, shape: int) -> None:
    # from 8 to 16 in steps of 2, to 32 of 2, to 64 of 4, to 128 of 8, to 512 of 32
    found = Halves().sentences(count)
    assert found == shape and (count < 8 or found <= count * 1.125 + 1)


@pytest.mark.parametrize(
    ("going", "sentences", "fewer"),
    [
        (17, 32, None),  # more than half go on
        (16, 32, 16),
        (9, 32, 16),  # more than a quarter
        (8, 32, 8),
        (1, 32, 8),  # 4 sentences would take no less time than 8
        (5, 8, None),
        (3, 8, None),
        (4, 15, None),  # a half of 7
    ],
)
def test_halves_keep_a_batch_until_half_is_finished(
    going: int, sentences: int, fewer: int | None
) -> None:
    assert Halves().fewer(going, sentences) == fewer

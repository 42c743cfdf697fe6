"""What fairseq's trainer makes of the watch of a run."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq import checkpoint_utils
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from fairseq_cli import train as fairseq_train

from simile_plugin.fairseq_hooks import watch as watching


def new_trainer() -> Any:
    criterion = SimpleNamespace(length_band=1.5)
    trainer = SimpleNamespace(
        get_num_updates=lambda: 7, get_criterion=lambda: criterion, task=FairseqTask(None)
    )
    watching.begin(lambda trainer: None, trainer)
    return trainer


def run_epoch(trainer: Any, patience: int = 0, stop: str = "") -> Any:
    """An epoch in which the watch finds `stop`; what fairseq's validate_and_save answers."""
    cfg = SimpleNamespace(
        criterion=SimpleNamespace(_name="simile_risk"),
        checkpoint=SimpleNamespace(patience=patience),
        optimization=SimpleNamespace(max_update=0),
        dataset=SimpleNamespace(disable_validation=True),
    )

    def train(*_: Any) -> bool:
        trainer.simile_watch.stop = stop
        losses, stops = watching.stop_if_told(lambda *_: ([1.0], False), cfg, trainer, None, None)
        assert losses == [1.0] and (stops or not stop)
        return stops

    return watching.train_watched(train, cfg, trainer, None, None)


def test_a_run_that_was_stopped_is_saved_and_stops_no_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved: list[Any] = []
    monkeypatch.setattr(checkpoint_utils, "save_checkpoint", lambda *args: saved.append(args[-1]))
    with pytest.raises(watching.Diverged, match="training stopped: cost fell"):
        run_epoch(new_trainer(), stop="cost fell")
    assert saved == [1.0]
    assert run_epoch(new_trainer()) is False and len(saved) == 1


def test_no_step_is_taken_by_a_gradient_that_was_not_finite() -> None:
    trainer, steps = new_trainer(), list[str]()
    optimizer = SimpleNamespace(step=lambda: steps.append("step"), _multiply_factor=math.nan)
    for nonfinite, wanted in ((0, ["step"]), (1, ["step"]), (0, ["step", "step"])):
        watching.watch_of(trainer).nonfinite = nonfinite
        trainer.task.optimizer_step(optimizer, model=None, update_num=7)
        assert steps == wanted
    assert optimizer._multiply_factor == 1.0  # of --bf16, which a step would have reset
    # A later trainer of the same task heeds its own watch.
    watching.watch_of(trainer).nonfinite = 1
    later = SimpleNamespace(task=trainer.task)
    watching.begin(lambda trainer: None, later)
    later.task.optimizer_step(optimizer, model=None, update_num=0)
    assert len(steps) == 3


@pytest.mark.parametrize(
    ("value", "saves", "wanted"),
    [(0.5, True, True), (0.5, False, False), (math.nan, True, False)],
    ids=["first rank", "another rank", "NaN"],
)
def test_a_run_begins_with_its_start_as_the_best(
    tmp_path: Path, value: float, saves: bool, wanted: bool
) -> None:
    flags = SimpleNamespace(
        finetune_from_model="mle.pt",
        save_dir=str(tmp_path),
        no_save=False,
        best_checkpoint_metric="bleu",
    )
    trainer, saved = new_trainer(), list[Any]()
    trainer.checkpoint_suffix, trainer.consolidate_optimizer = "", lambda: None
    trainer.should_save_checkpoint_on_current_rank = saves
    trainer.always_call_state_dict_during_save_checkpoint = False
    trainer.save_checkpoint = lambda *args: saved.append(args)
    watching.start_with_the_best(flags, trainer, SimpleNamespace(epoch=1), value)
    assert [(Path(path).name, state["best"]) for path, state in saved] == (
        [("checkpoint_best.pt", 0.5)] if wanted else []
    )
    compared = None if math.isnan(value) else 0.5  # on every rank
    assert getattr(checkpoint_utils.save_checkpoint, "best", None) == compared
    new_trainer()


def test_a_run_begins_without_the_patience_of_an_earlier_one() -> None:
    fairseq_train.should_stop_early.best = 0.5
    fairseq_train.should_stop_early.num_runs = 3
    checkpoint_utils.save_checkpoint.best = 0.5
    trainer = new_trainer()
    for function in (fairseq_train.should_stop_early, checkpoint_utils.save_checkpoint):
        assert not {"best", "num_runs"} & vars(function).keys()
    assert run_epoch(trainer, patience=2) is False
    fairseq_train.should_stop_early.num_runs = 2  # restored from a checkpoint
    assert run_epoch(trainer, patience=2) == ([None], True)
    new_trainer()


def test_the_first_validation_set_is_judged() -> None:
    trainer, cfg = new_trainer(), SimpleNamespace(criterion=SimpleNamespace(mle_weight=0.3))
    stats = {"cost": 0.5, "length_ratio": 1.1, "bleu": 30.0, "repetition": 0.02}
    for found, tracking_best, first in (
        (stats, False, None),  # another set
        (stats | {"cost": math.nan}, True, None),
        (stats, True, (0.5, 1.1, 30.0, 0.02)),
    ):
        assert watching.judge_validation(lambda *_, s=found: s, cfg, trainer, {}, tracking_best)
        assert watching.watch_of(trainer).first == first


def test_costs_of_validation_are_compared_with_those_of_training(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stats = {"cost": 0.5, "length_ratio": 1.1, "bleu": 30.0, "repetition": 0.02}
    trainer = new_trainer()
    trainer.get_num_updates = lambda: 50
    try:
        with metrics.aggregate("train"):
            metrics.log_scalar("cost", 0.3, 60)
            metrics.log_scalar("cost", 0.6, 30)  # 0.4 a sentence
        for weight in (1.0, 0.3):  # likelihood alone learns from no candidate
            cfg = SimpleNamespace(criterion=SimpleNamespace(mle_weight=weight))
            watching.judge_validation(lambda *_: stats, cfg, trainer, {}, True)
    finally:
        metrics.reset_meters("train")
    (said,) = caplog.messages
    assert said.startswith("candidates for training sentences cost 0.40, those of validation 0.50")


def test_length_control_does_not_see_what_is_skipped() -> None:
    trainer, seen, logged = new_trainer(), list[Any](), list[float]()
    trainer.get_criterion().max_skipped = 10
    trainer.get_criterion().after_update = seen.append

    def log(sums: list[str], *grad_norm: float) -> None:
        with metrics.aggregate(new_root=True) as found:
            watching.after_update(lambda *_: None, trainer, sums, 3, *grad_norm)
        logged.append(found.get_smoothed_values().get("skipped", math.nan))

    log(["an update"], 1.0)
    log(["a validation"])
    watching.watch_of(trainer).skip(10, 8)
    log(["a skipped update"], 0.0)
    assert seen == [["an update"]]
    assert logged == pytest.approx([0.0, math.nan, 1.0], nan_ok=True)

"""The rules by which a run is stopped, apart from fairseq."""

import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq import checkpoint_utils
from fairseq.logging import metrics
from fairseq_cli import train as fairseq_train

from simile_plugin.fairseq_hooks import watch as watching
from simile_plugin.fairseq_hooks.watch import Watch


def seen(
    *validations: tuple[float, ...], band: float = 1.5, bleu: tuple[float, ...] = (30, 20)
) -> Watch:
    """A watch after validations; BLEU goes through `bleu` and stays at its last value.

    A validation is a cost, a length ratio and a share of repeated bigrams (if not said, 2 %).
    """
    watch = Watch()
    for number, (cost, ratio, *repetition) in enumerate(validations):
        score = bleu[min(number, len(bleu) - 1)]
        watch.see(cost, ratio, score, repetition[0] if repetition else 0.02, band)
    return watch


@pytest.mark.parametrize(
    ("validations", "stops"),
    [
        ([(0.5, 1.0), (0.4, 1.6), (0.3, 1.7)], True),  # above 1.5 * 1
        ([(0.5, 1.0), (0.4, 0.6), (0.3, 0.5)], True),  # below 1 / 1.5 = 0.67
        ([(0.5, 1.0), (0.4, 1.5), (0.3, 1.5)], False),  # on the edge is inside
        ([(0.5, 1.0), (0.4, 1.6), (0.3, 1.0), (0.3, 1.6)], False),  # not in a row
        ([(0.5, 1.0), (0.6, 1.6), (0.6, 1.7)], False),  # the reward does not rise: not gamed
        ([(0.5, 1.0), (0.4, 1.6)], False),  # once
        ([(0.5, 2.0), (0.4, 2.9), (0.3, 2.9)], False),  # it began so: 1.5 * 2 = 3
        ([(0.5, 2.0), (0.4, 3.1), (0.3, 3.1)], True),
        ([(0.5, 0.4), (0.4, 1.0), (0.3, 1.0)], False),  # towards the references' length
        ([(0.5, 0.4), (0.4, 0.2), (0.3, 0.2)], True),  # 0.4 / 1.5 = 0.27
        ([(0.5, 1.0, 0.02), (0.4, 1.0, 0.041), (0.3, 1.0, 0.05)], True),  # more than twice 2 %
        ([(0.5, 1.0, 0.02), (0.4, 1.0, 0.039), (0.3, 1.0, 0.039)], False),
    ],
)
def test_gaming(validations: list[tuple[float, ...]], stops: bool) -> None:
    assert bool(seen(*validations).stop) is stops
    assert seen(*validations, band=0).stop == ""
    assert seen(*validations, bleu=(30, 30.1)).stop == ""  # longer, and better


def test_the_first_sign_is_a_warning_and_the_second_has_advice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = seen((0.5, 1.0), (0.4, 1.6))
    assert caplog.record_tuples == [
        (
            "simile_plugin.risk.run_watch",
            logging.WARNING,
            "cost fell from 0.5000 to 0.4000, but the length ratio went from 1.000 to 1.600, and "
            "BLEU fell from 30.00 to 20.00; training stops if the next validation finds the same",
        )
    ]
    watch.see(0.4, 1.6, 20, 0.02, band=1.5)
    for word in ("checkpoint_best.pt", "--mle-weight", "--risk-cost-scale", "--reward half"):
        assert word in watch.stop


@pytest.mark.parametrize(
    ("first", "second", "sign"),
    [
        ((0.5, 0.98, 0.02), (0.4, 1.06, 0.02), "the length ratio went from 0.980 to 1.060: the"),
        ((0.5, 0.98, 0.02), (0.4, 1.03, 0.02), None),  # 3 % beyond 1 at most
        ((0.5, 1.00, 0.02), (0.4, 0.96, 0.02), "the length ratio went from 1.000 to 0.960: the"),
        ((0.5, 1.00, 0.02), (0.4, 1.00, 0.03), "repeated bigrams from 2.00% to 3.00%: the"),
        ((0.5, 1.00, 0.02), (0.4, 1.00, 0.024), None),  # less than a quarter more
        ((0.5, 1.00, 0.001), (0.4, 1.00, 0.003), None),  # two in a thousand are chance
        ((0.5, 1.00, 0.02), (0.5, 1.20, 0.06), None),  # the reward has not risen
        ((0.5, 1.00, 0.02), (0.6, 1.20, 0.06), "cost rose from 0.5000 to 0.6000: lower the learn"),
        ((0.5, 1.00, 0.02), (0.4, 1.05, 0.03), "1.000 to 1.050 and repeated bigrams from 2.00%"),
    ],
)
def test_signs_of_gaming_are_warned_of(
    first: tuple[float, ...],
    second: tuple[float, ...],
    sign: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = seen(first, second, second, second, bleu=(30, 31))
    assert watch.stop == ""
    assert (sign is None and not caplog.messages) or (sign and sign in caplog.messages[0])


def test_the_first_validation_of_an_older_checkpoint_has_no_repetition() -> None:
    watch = Watch()
    watch.restore({"first": [0.5, 1.0, 30.0], "outside": 0})
    watch.see(0.4, 1.0, 29.0, 0.5, band=1.5)
    assert watch.outside == 0


def test_a_resumed_run_goes_on_from_what_it_saw() -> None:
    before = seen((0.5, 1.0), (0.4, 1.6))
    after = Watch()
    after.restore(before.state())
    after.see(0.4, 1.6, 20, 0.02, band=1.5)
    assert after.stop and not before.stop


def test_skips_in_a_row() -> None:
    watch = Watch()
    for _ in range(3):
        watch.skip(3, 8)
    with pytest.raises(FloatingPointError, match=r"4 times in a row \(--risk-max-skipped 3\): low"):
        watch.skip(3, 8)


def new_trainer() -> Any:
    criterion = SimpleNamespace(length_band=1.5)
    trainer = SimpleNamespace(get_num_updates=lambda: 7, get_criterion=lambda: criterion)
    watching.begin(lambda trainer: None, trainer)
    return trainer


def run_epoch(trainer: Any, patience: int = 0, stop: str = "") -> Any:
    """An epoch in which the watch finds `stop`; what fairseq's should_stop_early would answer."""
    cfg = SimpleNamespace(
        criterion=SimpleNamespace(_name="simile_risk"),
        checkpoint=SimpleNamespace(patience=patience),
        optimization=SimpleNamespace(max_update=0),
        dataset=SimpleNamespace(disable_validation=True),
    )

    def train(*_: Any) -> bool:
        trainer.simile_watch.stop = stop
        return watching.stop_if_told(lambda *_: False, cfg, 1.0)

    return watching.train_watched(train, cfg, trainer, None, None)


def test_a_run_that_was_stopped_stops_no_later_one() -> None:
    with pytest.raises(watching.Diverged, match="training stopped: cost fell"):
        run_epoch(new_trainer(), stop="cost fell")
    assert run_epoch(new_trainer()) is False
    assert watching.stop_if_told(lambda *_: False, None, 1.0) is False  # no run at all


@pytest.mark.parametrize(
    ("value", "metric", "saves", "wanted"),
    [
        (0.5, "bleu", True, True),
        (0.5, "bleu", False, False),  # another rank
        (math.nan, "bleu", True, False),
        (0.5, "loss", True, False),  # holds likelihood, of which the start has the most
    ],
)
def test_a_run_begins_with_its_start_as_the_best(
    tmp_path: Path, value: float, metric: str, saves: bool, wanted: bool
) -> None:
    flags = SimpleNamespace(
        finetune_from_model="mle.pt",
        save_dir=str(tmp_path),
        no_save=False,
        best_checkpoint_metric=metric,
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
    compared = 0.5 if value == 0.5 and metric == "bleu" else None  # on every rank
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


def test_the_first_validation_set_is_judged_and_dumped() -> None:
    trainer, closed = new_trainer(), list[str]()
    trainer.get_criterion().dump = SimpleNamespace(close=lambda: closed.append("closed"))
    stats = {"cost": 0.5, "length_ratio": 1.1, "bleu": 30.0, "repetition": 0.02}
    for found, tracking_best, first in (
        (stats, False, None),  # another set
        (stats | {"cost": math.nan}, True, None),
        (stats, True, [0.5, 1.1, 30.0, 0.02]),
    ):
        assert watching.judge_validation(lambda *_, s=found: s, None, trainer, {}, tracking_best)
        assert watching.watch_of(trainer).first == first
    assert closed == ["closed"] * 3


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

"""What a run keeps between updates, and in its checkpoints: length control, watch, skips."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from simile_plugin.files import InputError
from simile_plugin.risk import LengthControl, RiskSettings, RunWatch

logger = logging.getLogger(__name__)

TRAINED_ROWS, ALL_ROWS = "trained rows", "all rows"  # of the output layer


class RiskState(TrainerCallback, ExportableState):
    """Saved with the trainer's own state; taken up again by a run that is resumed.

    Args:
        settings: of the risk.
        objective: what is optimised, by flag; a run that goes on with another one says so.

    Attributes:
        length_control: what a candidate's length costs.
        watch: ends a run whose reward is gamed, or whose gradients are no numbers.
        watched: what the metrics of the watched validation set, the first one, begin with.
        training: whether a training is going on; other validations are not judged.
    """

    def __init__(self, settings: RiskSettings, objective: dict[str, str]) -> None:
        self.objective = objective
        self.strength, self.band = settings.risk_length_control, settings.risk_length_band
        self.length_control, self.watch = LengthControl(self.strength), RunWatch()
        self.watched, self.training = "", False
        self.learns_from_risk = settings.mle_weight < 1

    def state(self) -> dict[str, Any]:
        """Return what transformers writes into trainer_state.json."""
        kept = {"length_control": self.length_control.state(), "watch": self.watch.state()}
        kept["objective"] = self.objective
        return {"args": {}, "attributes": kept}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin anew, or where the checkpoint ended.

        Raises:
            InputError: for a run that ended because its reward was gamed, and for one whose
                optimizer has the moments of other rows.
        """
        self.training = True
        # A checkpoint names the best one by its path, which is another where a run was moved.
        best = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.best_global_step}"
        if best.is_dir():
            state.best_model_checkpoint = str(best)
        self.length_control, self.watch = LengthControl(self.strength), RunWatch()
        self.watched = ""
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved:
            self.length_control.restore(saved["attributes"]["length_control"])
            self.watch.restore(saved["attributes"]["watch"])
            self.watch.check_goes_on(self.band)
            begun = saved["attributes"]["objective"]
            rows = [kept.get(TRAINED_ROWS, ALL_ROWS) for kept in (begun, self.objective)]
            if rows[0] != rows[1]:
                raise InputError(
                    f"--target-pieces: this run trains {rows[0]} of the output layer, those of its "
                    f"text, and now there are {rows[1]}; expected text and pieces as they were, or "
                    "another --output"
                )
            for flag, now in self.objective.items():
                if (before := begun.get(flag, now)) != now:
                    logger.warning(f"{flag}: this run had {before}, it goes on with {now}")
            for name in ("eval_steps", "save_steps", "logging_steps"):  # a checkpoint has its own
                if (asked := getattr(args, name) or 0) >= 1:
                    setattr(state, name, int(asked))
            set_rate(kwargs.get("optimizer"), kwargs.get("lr_scheduler"))
            rate = rate_of(kwargs.get("lr_scheduler"), args)
            if rate != args.learning_rate:
                logger.warning(
                    f"--learning-rate: this run had {rate} and keeps it; for "
                    f"{args.learning_rate} name another --output"
                )

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Validations that come after it are of anything."""
        self.training = False

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any
    ) -> None:
        """Judge a validation within a training; one that ends it is saved."""
        if not self.training:
            return
        found = next((name for name in metrics if name.endswith("_length_ratio")), "")
        prefix = found.removesuffix("_length_ratio")
        if prefix.startswith("eval"):  # eval_SET of several validation sets
            self.watched = self.watched or prefix
        if prefix == self.watched:
            costs = [line["cost"] for line in state.log_history if "cost" in line]
            trained = sum(costs) / len(costs) if costs and self.learns_from_risk else None
            self.watch.see_metrics(metrics, self.band, state.global_step, f"{prefix}_", trained)
        if self.watch.stop:
            control.should_training_stop = control.should_save = True


def rate_of(schedule: Any, args: Any) -> float:
    """Return the learning rate of a training: of one that goes on, that which it began with."""
    rates: list[float] = getattr(schedule, "base_lrs", [args.learning_rate])
    return rates[0]


def set_rate(optimizer: Any, schedule: Any) -> None:
    """Give an optimizer that was loaded the rate of its schedule as it is now.

    A schedule that had fallen to 0 and goes on over more updates would leave it at 0 for one.
    """
    factors = getattr(schedule, "lr_lambdas", None)
    if optimizer is None or factors is None:
        return
    groups = zip(optimizer.param_groups, schedule.base_lrs, factors, strict=True)
    for group, base, factor in groups:
        group["lr"] = base * factor(schedule.last_epoch)
    schedule._last_lr = [group["lr"] for group in optimizer.param_groups]

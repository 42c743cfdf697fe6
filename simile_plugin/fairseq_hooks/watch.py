"""Stops what cannot end well: non-finite gradients are skipped, a diverging run is ended.

Every decision is made from numbers that are the same on every rank (gradients after their
reduction, validation sums), so that all ranks decide the same.
"""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Callable
from typing import Any

import torch

from simile_plugin.fairseq_hooks.known_pairs import tell_known_pairs
from simile_plugin.fairseq_hooks.patching import train_modules
from simile_plugin.files import InputError
from simile_plugin.risk import RunWatch

logger = logging.getLogger(__name__)

ADVICE = (
    "lower --risk-cost-scale or the learning rate (--lr; simile finetune: --learning-rate), raise "
    "--mle-weight, set --clip-norm (simile finetune: --max-grad-norm); with --fp16 try --bf16"
)
GAMING_ADVICE = (
    "the reward is being gamed: take a checkpoint of before BLEU fell (with "
    "--best-checkpoint-metric bleu checkpoint_best.pt), raise --mle-weight, lower "
    "--risk-cost-scale or the learning rate, or train on --reward half"
)
CRITERION = "simile_risk"
# Metrics that are, or contain, the likelihood of the references.
LIKELIHOODS = ("loss", "nll_loss", "ppl")


class Diverged(InputError, FloatingPointError):
    """A run was stopped because going on would make the model worse.

    At a FloatingPointError fairseq runs the update again and names the module that made the NaN.
    """


class Watch(RunWatch):
    """Counts of one training run, and what it stops for."""

    advice = GAMING_ADVICE
    remedy = ADVICE
    error = Diverged


def watch_of(trainer: Any) -> Watch:
    """Return the watch of a trainer."""
    found: Watch = trainer.simile_watch
    return found


def begin(original: Callable[..., None], trainer: Any, *args: Any, **kwargs: Any) -> None:
    """Wrap ``Trainer.__init__``: a run begins.

    fairseq keeps the best validation and the patience on functions: those of an earlier run in this
    process are forgotten.
    """
    from fairseq import checkpoint_utils

    original(trainer, *args, **kwargs)
    trainer.simile_watch = Watch()
    # Not around the class's: a task of your own may have another.
    trainer.task.optimizer_step = functools.partial(step_unless_skipped, trainer)
    early = [module.should_stop_early for module in train_modules()]
    for function in (checkpoint_utils.save_checkpoint, *early):
        for name in {"best", "num_runs"} & vars(function).keys():
            delattr(function, name)


def objective_of(trainer: Any) -> dict[str, str] | None:
    """Return what a risk run optimises, by flag; None for other criteria."""
    objective = getattr(trainer.get_criterion(), "objective", None)
    return None if objective is None else objective()


def detect_forward_only(original: Callable[..., Any], model: Any) -> Any:
    """Wrap NanDetector, which runs a model again that gave NaN, and names the module.

    Its backward hooks fail on current torch, at an encoder's output, and hide the error itself.
    """
    return original(model, backward=False)


def clip_or_skip(original: Callable[..., Any], trainer: Any, clip_norm: float) -> Any:
    """Wrap ``Trainer.clip_grad_norm``: a non-finite gradient is dropped, with its step.

    With --fp16 and --amp fairseq's loss scaling does that, and lowers the scale. Gradients are
    summed over the ranks already: all of them skip, or none.
    """
    grad_norm = original(trainer, clip_norm)
    common = trainer.cfg.common
    scales_loss = (common.fp16 and not common.bf16) or common.amp
    criterion = trainer.get_criterion()
    if hasattr(criterion, "before_update"):
        criterion.before_update()
    limit = int(getattr(criterion, "max_skipped", 0))
    if not limit or scales_loss:
        return grad_norm
    watch = watch_of(trainer)
    if bool(torch.isfinite(torch.as_tensor(grad_norm)).all()):
        watch.nonfinite = 0
        return grad_norm
    watch.skip(limit, trainer.get_num_updates() + 1)
    trainer.zero_grad()
    return torch.zeros_like(torch.as_tensor(grad_norm))


def step_unless_skipped(trainer: Any, optimizer: Any, **kwargs: Any) -> None:
    """Replace ``task.optimizer_step``: no step by a gradient that was not finite.

    Adam moves by its momentum even at a zero gradient.
    """
    if not watch_of(trainer).nonfinite:
        type(trainer.task).optimizer_step(trainer.task, optimizer, **kwargs)
    elif hasattr(optimizer, "_multiply_factor"):  # --bf16: NaN by now, reset by a step
        optimizer._multiply_factor = 1.0


def after_update(original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap ``Trainer._reduce_and_log_stats``, which every rank calls with the sums of all.

    Logs ``skipped``, the share of updates that were left out; the criterion's length control sees
    the others.
    """
    from fairseq.logging import metrics

    updating = len(args) > 2 or "grad_norm" in kwargs
    if updating and hasattr(trainer.get_criterion(), "max_skipped"):
        skipped = watch_of(trainer).nonfinite > 0
        metrics.log_scalar("skipped", float(skipped), 1, round=4)
        if not skipped:
            trainer.get_criterion().after_update(args[0])
    return original(trainer, *args, **kwargs)


def judge_validation(
    original: Callable[..., Any],
    cfg: Any,
    trainer: Any,
    stats: dict[str, Any],
    tracking_best: bool,
) -> dict[str, Any]:
    """Wrap fairseq-train's ``get_valid_stats``: judge the first validation set."""
    from fairseq.logging import metrics

    found: dict[str, Any] = original(cfg, trainer, stats, tracking_best)
    band = getattr(trainer.get_criterion(), "length_band", None)
    if band is not None and tracking_best:
        trained = None
        if cfg.criterion.mle_weight < 1 and metrics.get_meters("train"):  # of the epoch so far
            trained = metrics.get_smoothed_values("train").get("cost")
        watch_of(trainer).see_metrics(found, band, trainer.get_num_updates(), trained=trained)
    return found


def stop_if_told(
    original: Callable[..., Any], cfg: Any, trainer: Any, task: Any, epoch_itr: Any, *args: Any
) -> Any:
    """Wrap fairseq-train's ``validate_and_save``: stop where the watch says so, and save."""
    from fairseq import checkpoint_utils

    losses, should_stop = original(cfg, trainer, task, epoch_itr, *args)
    if watch_of(trainer).stop and not should_stop:
        should_stop = True
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, losses[0])
    return losses, should_stop


def train_watched(
    original: Callable[..., Any], cfg: Any, trainer: Any, task: Any, epoch_itr: Any
) -> Any:
    """Wrap fairseq-train's ``train``, an epoch: what is done stays done.

    Fine-tuning starts from a trained model, and a validation curve without its first point hides
    what the fine-tuning changed: a risk run is validated at update 0, which fairseq leaves out.

    Raises:
        Diverged: after the checkpoint is saved, with what was found, and advice.
    """
    if done := nothing_left(cfg, trainer):
        logger.info(f"nothing left to do after {trainer.get_num_updates()} updates ({done})")
        return [None], True
    if is_risk(cfg) and not cfg.dataset.disable_validation and trainer.get_num_updates() == 0:
        subsets = cfg.dataset.valid_subset.split(",")
        (first, *_) = train_modules()[-1].validate(cfg, trainer, task, epoch_itr, subsets)
        start_with_the_best(cfg.checkpoint, trainer, epoch_itr, first)
        tell_known_pairs(cfg, trainer, task, epoch_itr, watch_of(trainer))
    watch = watch_of(trainer)
    watch.check_goes_on(getattr(trainer.get_criterion(), "length_band", 0))
    found = original(cfg, trainer, task, epoch_itr)
    if stop := watch.stop:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # the first rank may still be writing the checkpoint
        raise Diverged(f"training stopped: {stop}")
    return found


def start_with_the_best(flags: Any, trainer: Any, epoch_itr: Any, value: float | None) -> None:
    """Let checkpoint_best.pt be the model that a run begins from, until a validation is better.

    fairseq would take the first validation for the best, were it worse than no fine-tuning.

    Args:
        value: of --best-checkpoint-metric, at update 0.
    """
    from fairseq import checkpoint_utils

    if flags.no_save or value is None or not math.isfinite(value):
        return
    # A trained model has the least likelihood loss at update 0, whatever the reward gains.
    if not flags.finetune_from_model or flags.best_checkpoint_metric in LIKELIHOODS:
        return
    best, last = (
        os.path.join(flags.save_dir, f"checkpoint_{name}{trainer.checkpoint_suffix}.pt")
        for name in ("best", "last")
    )
    if os.path.exists(last):  # gone on with at update 0, for want of an optimizer's state
        return
    checkpoint_utils.save_checkpoint.best = value
    trainer.consolidate_optimizer()
    if trainer.should_save_checkpoint_on_current_rank:
        logger.info(f"{best} is the model of update 0 until a validation is better")
        begun = {"version": 2, "epoch": epoch_itr.epoch, "iterations_in_epoch": 0, "shuffle": True}
        trainer.save_checkpoint(best, {"train_iterator": begun, "val_loss": value, "best": value})
    elif trainer.always_call_state_dict_during_save_checkpoint:
        trainer.state_dict()


def nothing_left(cfg: Any, trainer: Any) -> str:
    """Return the flag by which a run that is started again is at its end already, or "".

    fairseq looks for the end after an update only: a run that was killed after its last checkpoint,
    or had ended, would go one update (or, with --patience, one validation) too far.
    """
    limit, patience = cfg.optimization.max_update, cfg.checkpoint.patience
    if 0 < patience <= getattr(train_modules()[-1].should_stop_early, "num_runs", 0):
        return f"--patience {patience}"
    return f"--max-update {limit}" if 0 < limit <= trainer.get_num_updates() else ""


def is_risk(cfg: Any) -> bool:
    """Return whether a run's criterion is ours."""
    return getattr(cfg.criterion, "_name", None) == CRITERION

"""Stops what cannot end well: non-finite gradients are skipped, a diverging run is ended.

Every decision is made from numbers that are the same on every rank (gradients after their
reduction, validation sums), so that all ranks decide the same.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from simile_plugin.fairseq_hooks.patching import train_modules
from simile_plugin.files import InputError

logger = logging.getLogger(__name__)

ADVICE = (
    "lower --lr or --risk-cost-scale, raise --mle-weight, set --clip-norm; with --fp16 try --bf16"
)
GAMING_ADVICE = (
    "the reward is being gamed: take an earlier checkpoint (checkpoint_best.pt), raise "
    "--mle-weight, lower --risk-cost-scale or --lr, or train on --reward half"
)
CRITERION = "simile_risk"
VALIDATIONS = 2  # in a row outside the band, before training stops


class Diverged(InputError, FloatingPointError):
    """A run was stopped because going on would make the model worse.

    At a FloatingPointError fairseq runs the update again and names the module that made the NaN.
    """


@dataclass
class Watch:
    """Counts of one training run, and what it stops for.

    Attributes:
        first: cost, length ratio and BLEU of the run's first validation.
        outside: validations in a row with a better cost, a worse BLEU and lengths outside the band.
        nonfinite: updates in a row that were skipped.
        stop: why training stops after the current validation, or "".
    """

    first: list[float] | None = None
    outside: int = 0
    nonfinite: int = 0
    stop: str = ""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"first": self.first, "outside": self.outside}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`."""
        self.first, self.outside = state["first"], int(state["outside"])

    def see(self, cost: float, length_ratio: float, bleu: float, band: float) -> None:
        """Judge a validation: does the trained cost fall, and BLEU, while lengths leave the band?

        Outside: length_ratio > band * max(1, first) or < min(1, first) / band.

        Args:
            cost: expected cost of the trained reward, 0 to 1.
            length_ratio: words of the best candidates over words of the references.
            bleu: of the best candidates, 0 to 100.
            band: ``--risk-length-band``; 0 judges nothing.
        """
        if self.first is None:
            self.first = [cost, length_ratio, bleu]
        first_cost, first_ratio, first_bleu = self.first
        high, low = band * max(1.0, first_ratio), min(1.0, first_ratio) / band if band else 0.0
        gamed = bool(band) and cost < first_cost and bleu < first_bleu
        gamed &= not low <= length_ratio <= high
        self.outside = self.outside + 1 if gamed else 0
        if not gamed:
            return
        found = (
            f"cost fell from {first_cost:.4f} to {cost:.4f}, but so did BLEU, from "
            f"{first_bleu:.2f} to {bleu:.2f}, and the length ratio went from {first_ratio:.2f} to "
            f"{length_ratio:.2f}, outside {low:.2f} to {high:.2f} (--risk-length-band {band:g})"
        )
        if self.outside < VALIDATIONS:
            logger.warning(f"{found}; training stops if the next validation finds the same")
        else:
            self.stop = f"{found}: {GAMING_ADVICE}; --risk-length-band 0 never stops"

    def skip(self, limit: int) -> None:
        """Count an update with a non-finite gradient.

        Raises:
            Diverged: for more than ``limit`` in a row, with advice.
        """
        self.nonfinite += 1
        if self.nonfinite > limit:
            raise Diverged(
                f"the gradient was NaN or infinite {self.nonfinite} times in a row "
                f"(--risk-max-skipped {limit}): {ADVICE}"
            )


_running: Watch | None = None  # of the trainer whose epoch runs at this moment


def watch_of(trainer: Any) -> Watch:
    """The watch of a trainer."""
    found: Watch = trainer.simile_watch
    return found


def begin(original: Callable[..., None], trainer: Any, *args: Any, **kwargs: Any) -> None:
    """``Trainer.__init__``: a run begins.

    fairseq keeps the best validation and the patience on functions: those of an earlier run in this
    process are forgotten.
    """
    from fairseq import checkpoint_utils

    original(trainer, *args, **kwargs)
    trainer.simile_watch = Watch()
    early = [module.should_stop_early for module in train_modules()]
    for function in (checkpoint_utils.save_checkpoint, *early):
        for name in {"best", "num_runs"} & vars(function).keys():
            delattr(function, name)


def objective_of(trainer: Any) -> dict[str, str] | None:
    """What a risk run optimises, by flag; None for other criteria."""
    objective = getattr(trainer.get_criterion(), "objective", None)
    return None if objective is None else objective()


def detect_forward_only(original: Callable[..., Any], model: Any) -> Any:
    """fairseq's NanDetector: where a run ends in NaN, it runs the model again and names the module.

    Its backward hooks fail on current torch, at an encoder's output, and hide the error itself.
    """
    return original(model, backward=False)


def clip_or_skip(original: Callable[..., Any], trainer: Any, clip_norm: float) -> Any:
    """``Trainer.clip_grad_norm``; a non-finite gradient is dropped and its optimizer step left out.

    With --fp16 and --amp fairseq's loss scaling does that, and lowers the scale. Gradients are
    summed over the ranks already: all of them skip, or none.
    """
    grad_norm = original(trainer, clip_norm)
    common = trainer.cfg.common
    scales_loss = (common.fp16 and not common.bf16) or common.amp
    limit = int(getattr(trainer.get_criterion(), "max_skipped", 0))
    if not limit or scales_loss:
        return grad_norm
    watch = watch_of(trainer)
    if bool(torch.isfinite(torch.as_tensor(grad_norm)).all()):
        watch.nonfinite = 0
        return grad_norm
    watch.skip(limit)
    logger.warning(
        f"update {trainer.get_num_updates() + 1}: the gradient is NaN or infinite; "
        f"the update is skipped ({watch.nonfinite} in a row)"
    )
    trainer.zero_grad()
    _leave_out_next_step(trainer)
    return torch.zeros_like(torch.as_tensor(grad_norm))


def _leave_out_next_step(trainer: Any) -> None:
    """Adam moves by its momentum even at a zero gradient: the step itself must not happen."""
    task = trainer.task

    def no_step(*args: Any, **kwargs: Any) -> None:
        del task.optimizer_step
        if hasattr(trainer.optimizer, "_multiply_factor"):  # --bf16: NaN by now, reset by a step
            trainer.optimizer._multiply_factor = 1.0

    task.optimizer_step = no_step


def log_skipped(original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Log ``skipped``, the share of updates that were left out, beside the others' numbers."""
    from fairseq.logging import metrics

    updating = len(args) > 2 or "grad_norm" in kwargs
    if updating and hasattr(trainer.get_criterion(), "max_skipped"):
        metrics.log_scalar("skipped", float(watch_of(trainer).nonfinite > 0), 1, round=4)
    return original(trainer, *args, **kwargs)


def judge_validation(
    original: Callable[..., Any],
    cfg: Any,
    trainer: Any,
    stats: dict[str, Any],
    tracking_best: bool,
) -> dict[str, Any]:
    """fairseq-train's ``get_valid_stats``; the first validation set is judged."""
    found: dict[str, Any] = original(cfg, trainer, stats, tracking_best)
    band = getattr(trainer.get_criterion(), "length_band", None)
    seen = [found.get(key) for key in ("cost", "length_ratio", "bleu")]
    if band is not None and tracking_best and None not in seen:
        cost, ratio, bleu = (float(value) for value in seen if value is not None)
        if all(map(math.isfinite, (cost, ratio, bleu))):
            watch_of(trainer).see(cost, ratio, bleu, band)
    return found


def stop_if_told(original: Callable[..., bool], cfg: Any, valid_loss: float | None) -> bool:
    """fairseq-train's ``should_stop_early``: also true where the watch says so."""
    return (_running is not None and bool(_running.stop)) or original(cfg, valid_loss)


def train_watched(
    original: Callable[..., Any], cfg: Any, trainer: Any, task: Any, epoch_itr: Any
) -> Any:
    """fairseq-train's ``train``, an epoch: what is done stays done, what was stopped is an error.

    Fine-tuning starts from a trained model, and a validation curve without its first point hides
    what the fine-tuning changed: a risk run is validated at update 0, which fairseq leaves out.

    Raises:
        Diverged: after the checkpoint is saved, with what was found, and advice.
    """
    global _running
    if done := nothing_left(cfg, trainer):
        logger.info(f"nothing left to do after {trainer.get_num_updates()} updates ({done})")
        return [None], True
    if is_risk(cfg) and not cfg.dataset.disable_validation and trainer.get_num_updates() == 0:
        subsets = cfg.dataset.valid_subset.split(",")
        train_modules()[-1].validate(cfg, trainer, task, epoch_itr, subsets)
    _running = watch_of(trainer)
    try:
        found = original(cfg, trainer, task, epoch_itr)
    finally:
        _running = None
    if stop := watch_of(trainer).stop:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # the first rank may still be writing the checkpoint
        raise Diverged(f"training stopped: {stop}")
    return found


def nothing_left(cfg: Any, trainer: Any) -> str:
    """The flag by which a run that is started again is at its end already, or "".

    fairseq looks for the end after an update only: a run that was killed after its last checkpoint,
    or had ended, would go one update (or, with --patience, one validation) too far.
    """
    limit, patience = cfg.optimization.max_update, cfg.checkpoint.patience
    if 0 < patience <= getattr(train_modules()[-1].should_stop_early, "num_runs", 0):
        return f"--patience {patience}"
    return f"--max-update {limit}" if 0 < limit <= trainer.get_num_updates() else ""


def is_risk(cfg: Any) -> bool:
    """Whether a run's criterion is ours."""
    return getattr(cfg.criterion, "_name", None) == CRITERION

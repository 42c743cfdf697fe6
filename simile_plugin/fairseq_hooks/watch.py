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
CONTROL_ADVICE = "see --risk-length-control, --risk-cost-scale and --mle-weight"
# What training on SIMILE alone showed, and training on BLEU did not: lengths 3 % beyond the start
# and 1, and a quarter more repeated bigrams (at least half a percent of all, or it is chance).
# The report's gaming section has the same numbers.
LENGTH_SIGN, REPETITION_SIGN, REPETITION_FLOOR = 0.03, 0.25, 0.005
VALIDATIONS = 2  # in a row outside the band, before training stops


class Diverged(InputError, FloatingPointError):
    """A run was stopped because going on would make the model worse.

    At a FloatingPointError fairseq runs the update again and names the module that made the NaN.
    """


@dataclass
class Watch:
    """Counts of one training run, and what it stops for.

    Attributes:
        first: cost, length ratio, BLEU and repetition of the run's first validation.
        outside: validations in a row that would end the run, see :meth:`see`.
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

    def see(
        self, cost: float, length_ratio: float, bleu: float, repetition: float, band: float
    ) -> None:
        """Judge a validation: does the trained cost fall while lengths or repetition leave?

        A warning for a length_ratio > 1.03 * max(1, first) or < min(1, first) / 1.03, or
        ``REPETITION_SIGN`` more repetition than at the first one. The end where BLEU falls too and,
        for ``VALIDATIONS`` in a row, length_ratio leaves ``band`` in the same way, or repetition
        has doubled.

        Args:
            cost: expected cost of the trained reward, 0 to 1.
            length_ratio: words of the best candidates over words of the references.
            bleu: of the best candidates, 0 to 100.
            repetition: share of their bigrams that their sentence has said before.
            band: ``--risk-length-band``; 0 never ends a run.
        """
        if self.first is None:
            self.first = [cost, length_ratio, bleu, repetition]
        first_cost, first_ratio, first_bleu, *others = self.first
        first_repetition = others[0] if others else repetition  # a run of version 0.1.0 goes on
        length = _leaves(length_ratio, first_ratio, 1 + LENGTH_SIGN)
        more = repetition - first_repetition
        repeats = more > REPETITION_SIGN * first_repetition and more > REPETITION_FLOOR
        if cost >= first_cost or not (length or repeats):
            self.outside = 0
            return
        signs = [f"the length ratio went from {first_ratio:.3f} to {length_ratio:.3f}"] * length
        signs += [f"repeated bigrams from {first_repetition:.2%} to {repetition:.2%}"] * repeats
        found = f"cost fell from {first_cost:.4f} to {cost:.4f}, but {' and '.join(signs)}"
        far = bool(band) and _leaves(length_ratio, first_ratio, band)
        far = far or (repeats and more > first_repetition)
        if not band or bleu >= first_bleu or not far:
            self.outside = 0
            logger.warning(f"{found}: the reward may be gamed; {CONTROL_ADVICE}")
            return
        self.outside += 1
        found += f", and BLEU fell from {first_bleu:.2f} to {bleu:.2f}"
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


def _leaves(ratio: float, first: float, band: float) -> bool:
    """Whether a ratio of lengths is beyond the first one and 1 by more than a factor."""
    return not min(1.0, first) / band <= ratio <= band * max(1.0, first)


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


def after_update(original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """``Trainer._reduce_and_log_stats``, which every rank calls with the sums over all of them.

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
    """fairseq-train's ``get_valid_stats``; the first validation set is judged."""
    found: dict[str, Any] = original(cfg, trainer, stats, tracking_best)
    band = getattr(trainer.get_criterion(), "length_band", None)
    seen = [found.get(key) for key in ("cost", "length_ratio", "bleu", "repetition")]
    if band is not None and tracking_best and None not in seen:
        numbers = [float(value) for value in seen if value is not None]
        if all(map(math.isfinite, numbers)):
            cost, ratio, bleu, repetition = numbers
            watch_of(trainer).see(cost, ratio, bleu, repetition, band)
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

"""The loop of one training: log, progress, evaluation, states, choice of checkpoint."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, BinaryIO

import torch
from torch import Tensor

from simile_plugin.encoder import Encoder, Tokenizer, make_composer
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.pairs import say
from simile_plugin.encoder_training.run_folder import RunFolder
from simile_plugin.encoder_training.trainer import (
    COLLAPSE_ADVICE,
    COLLAPSED_GAP,
    StepStats,
    Trainer,
    embeddings_collapsed,
)
from simile_plugin.evaluation import StsSet, evaluate_sts
from simile_plugin.files import InputError, Progress

BEST = "best.embeddings"  # the name of the chosen ones in the state


class TrainingRun:
    """The loop around Trainer: log, progress, evaluation, states, choice of checkpoint.

    Args:
        trainer: fresh.
        folder: opened; a state in it is gone on from.
        sts: sets of each STS folder that choose the checkpoint; may be empty.
    """

    def __init__(
        self,
        trainer: Trainer,
        tokenizer: Tokenizer,
        folder: RunFolder,
        sts: Mapping[str, list[StsSet]],
    ) -> None:
        self.trainer = trainer
        self.tokenizer = tokenizer
        self.folder = folder
        self.sts = sts
        self.best_score: float | None = None
        self.best_step = 0
        self.best: Tensor | None = None
        self.warned = False
        self.seconds_before = 0.0
        self.started = self.window_started = time.perf_counter()
        self.window: list[Tensor] = []  # minibatches that the log's next line sums up,
        self.before = 0  # so many of which were made before a run was stopped
        self._resume()

    def train(self) -> tuple[Tensor, dict[str, Any]]:
        """Train to the last step.

        Returns:
            the chosen embeddings (V, D), and facts about the training.

        Raises:
            InputError: if the chosen encoder is collapsed.
        """
        config, trainer = self.trainer.config, self.trainer
        bar = Progress(config.steps, "step", keep=True, silent=not self.folder.writes)
        waiting = _interrupt_waits()
        with self.folder.open_log(trainer.step) as log, bar as progress, waiting as interrupt:
            try:
                while trainer.step < config.steps:
                    self.window.append(trainer.train_step())
                    last = trainer.step == config.steps
                    if last or trainer.step % config.log_every == 0:
                        text = self._log_window(log)
                        line = f"step {trainer.step}/{config.steps}: {text}"
                        progress.show(trainer.step, text, line, last)
                    if config.eval_every and (last or trainer.step % config.eval_every == 0):
                        self._evaluate(log)
                    if config.save_every and trainer.step % config.save_every == 0:
                        self._save_state()
                    interrupt()
            except KeyboardInterrupt:
                self._save_state()
                say(f"interrupted; the same command goes on from step {trainer.step}")
                raise
        return self._finish()

    def _log_window(self, log: BinaryIO) -> str:
        """Write the mean of some minibatches to the log, and say it; warn once of a collapse."""
        trainer, window, own = self.trainer, self.window, len(self.window) - self.before
        self.window, self.before = [], 0
        stats = StepStats(*torch.stack(window).double().mean(0).tolist())
        if not math.isfinite(stats.loss):
            raise InputError(f"loss is {stats.loss} at step {trainer.step}; lower --lr")
        now = time.perf_counter()
        size = min(trainer.config.batch_size, len(trainer.pairs))
        record = {
            "step": trainer.step,
            "epoch": round(trainer.step * size / len(trainer.pairs), 3),
            **{name: round(value, 4) for name, value in asdict(stats).items()},
            "megabatch": trainer.megabatch,
            "lr": trainer.lr,
            "pairs_per_s": round(own * size / (now - self.window_started)),
            "seconds": round(self._seconds(), 2),
        }
        self.window_started = now
        if trainer.collapsed(stats):
            record["collapsed"] = True
            if not self.warned:
                say(
                    f"warning: collapse at step {trainer.step}: loss {stats.loss:.2f} is near "
                    f"2 * margin, random sentences have cosine {stats.random:.2f}; "
                    f"{COLLAPSE_ADVICE}"
                )
            self.warned = True
        log.write(json.dumps(record).encode() + b"\n")
        return (
            f"M {record['megabatch']} loss {record['loss']:.3f} active {record['active']:.2f} "
            f"cosine of pairs {record['positive']:.2f}, negatives {record['negative']:.2f}, "
            f"random {record['random']:.2f}, {record['pairs_per_s']:.0f} pairs/s"
        )

    def _evaluate(self, log: BinaryIO) -> None:
        """Log the STS scores; remember the weights if they are the best so far."""
        weight = self.trainer.weight  # by all processes: it brings all rows up to date
        if not self.sts or not self.folder.writes:
            return
        encoder = finished_encoder(weight, self.tokenizer, self.trainer.config)
        scores = {path: evaluate_sts(encoder, path, sets) for path, sets in self.sts.items()}
        mean = sum(part.mean_pearson for part in scores.values()) / len(scores)
        if math.isfinite(mean) and (self.best_score is None or mean > self.best_score):
            self.best_score, self.best_step = mean, self.trainer.step
            self.best = weight.clone()
        pearson = {path: _rounded(part.mean_pearson) for path, part in scores.items()}
        line = json.dumps({"step": self.trainer.step, "sts_pearson": pearson})
        log.write(line.encode() + b"\n")

    def _finish(self) -> tuple[Tensor, dict[str, Any]]:
        facts: dict[str, Any] = {"chosen_step": self.trainer.step}
        if self.best is not None:
            facts = {"chosen_step": self.best_step, "chosen_sts_pearson": self.best_score}
            with torch.no_grad():
                self.trainer.weight.copy_(self.best)  # no step may follow
        elif self.sts and self.trainer.step and self.folder.writes:
            say(
                "warning: --eval-sts: no mean Pearson was defined (a set has equal gold scores, or "
                "the encoder equal cosines), so the last checkpoint is kept"
            )
        positive, random = self.trainer.mean_cosines()
        facts |= {"pair_cosine": round(positive, 4), "random_cosine": round(random, 4)}
        facts["seconds"] = round(self._seconds(), 1)
        if embeddings_collapsed(positive, random):
            self.folder.abandon()
            raise InputError(
                f"the encoder collapsed: pairs have mean cosine {positive:.3f}, random sentences "
                f"{random:.3f}; nothing was written but the log {self.folder.log_path}; "
                f"{COLLAPSE_ADVICE}"
            )
        if positive - random < COLLAPSED_GAP:
            say(
                f"warning: after {self.trainer.step} steps on {len(self.trainer.pairs)} pairs, "
                f"pairs have mean cosine {positive:.3f} and random sentences {random:.3f}: this "
                "encoder hardly tells them apart; train on more pairs, or longer"
            )
        return self.trainer.weight, facts

    def _seconds(self) -> float:
        """Return the time since the first start, without that between interruption and restart."""
        return self.seconds_before + time.perf_counter() - self.started

    def _save_state(self) -> None:
        tensors, values = self.trainer.state()
        if self.best is not None:
            tensors[BEST] = self.best.cpu()
        values |= {"best_score": self.best_score, "best_step": self.best_step}
        values |= {"warned": self.warned, "seconds": self._seconds()}
        values |= {"window": [row.tolist() for row in self.window]}
        self.folder.save_state(tensors, values)

    def _resume(self) -> None:
        saved = self.folder.load_state()
        if saved is None:
            return
        tensors, values, version = saved
        self.best = tensors.pop(BEST, None)
        self.best_score, self.best_step = values["best_score"], values["best_step"]
        self.warned, self.seconds_before = values["warned"], values["seconds"]
        window, device = values.get("window", []), self.trainer.device  # not in older states
        self.window = [torch.tensor(row, device=device) for row in window]
        self.before = len(self.window)
        self.trainer.load_state(tensors, values, mine_again=version < 2)
        say(f"going on from step {self.trainer.step} of {self.trainer.config.steps}")


@contextlib.contextmanager
def _interrupt_waits() -> Iterator[Callable[[], None]]:
    """Have Ctrl-C wait for a call of what this yields, which raises the KeyboardInterrupt.

    A step that is cut in its middle has taken its minibatch and not made its update: from there a
    run would not go on as if it had not been interrupted.
    """
    came: list[int] = []

    def interrupt() -> None:
        if came:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def finished_encoder(
    weight: Tensor,
    tokenizer: Tokenizer,
    config: TrainingConfig,
    facts: dict[str, Any] | None = None,
) -> Encoder:
    """Return an encoder of a copy of embeddings in training."""
    composer = make_composer(config.kind, config.dim, config.composer, tokenizer.sizes)
    return Encoder(weight.detach().clone(), tokenizer, facts, composer.to(weight.device))


def _rounded(value: float) -> float | None:
    """Return None for NaN, which JSON has not."""
    return round(value, 4) if math.isfinite(value) else None

"""One training run: from sentence pairs to an encoder folder, in the order in which it happens."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

import simile_plugin
from simile_plugin.encoder import (
    WEIGHTS,
    Encoder,
    Tokenizer,
    find_kind,
    make_composer,
    save_encoder,
)
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.initial import initial_embeddings
from simile_plugin.encoder_training.margin import (
    COLLAPSE_ADVICE,
    COLLAPSED_GAP,
    StepStats,
    embeddings_collapsed,
)
from simile_plugin.encoder_training.options import RunOptions
from simile_plugin.encoder_training.processes import joined_processes
from simile_plugin.encoder_training.reading import BinarizedData, TextData, read_training_data
from simile_plugin.encoder_training.state import RunFolder
from simile_plugin.encoder_training.tokenizers import say
from simile_plugin.encoder_training.trainer import Trainer
from simile_plugin.evaluation import StsSet, check_sts, evaluate_sts, read_sts
from simile_plugin.files import (
    InputError,
    Progress,
    refuse_overwriting_input,
    refuse_twice,
    refuse_unasked_overwrite,
)

TRAINING_LOG = "training.jsonl"  # the log's name in the finished encoder folder


def train_encoder(options: RunOptions, config: TrainingConfig) -> Encoder | None:
    """Read pairs, train, write the encoder folder.

    Args:
        config: its steps follow from the number of pairs if options.epochs is given.

    Returns:
        the encoder that was written; None in all processes but the first.

    Raises:
        InputError: for bad input, a run folder of other flags, or a collapsed encoder.
    """
    joined = joined_processes(options.device)
    with joined as (rank, device), RunFolder(options.output, rank) as folder:
        _check_output(options)
        sts = _read_sts(options)
        data = read_training_data(options, find_kind(config.kind).tokens[0])
        config = config.for_pairs(len(data), options.epochs, bool(sts))
        _check_pairs(data, config)
        folder.open(_identity(options, config, data), options.restart)
        tokenizer, pairs = data.segmented(folder)
        _check_memory(len(tokenizer), config, folder)
        initial = None
        if options.init_embeddings is not None:
            initial = initial_embeddings(options.init_embeddings, tokenizer, config)
        trainer = Trainer(config, pairs, tokenizer.sizes, device, initial)
        weight, result = TrainingRun(trainer, tokenizer, folder, sts).train()
        if rank > 0:
            return None
        facts = _facts(data, options, trainer) | result
        encoder = finished_encoder(weight.cpu(), tokenizer, config, facts)
        unknown = ~tokenizer.known(np.arange(len(tokenizer)))
        encoder.weight.data[torch.from_numpy(unknown)] = 0  # no pair has them: never trained
        save_encoder(options.output, encoder, {TRAINING_LOG: folder.log_path.read_bytes()})
        folder.remove()
        return encoder


def _check_output(options: RunOptions) -> None:
    initial = () if options.init_embeddings is None else (options.init_embeddings,)
    refuse_overwriting_input(options.output, (*options.pairs, *options.eval_sts, *initial))
    refuse_unasked_overwrite(options.output, WEIGHTS, "an encoder", options.overwrite)


def _read_sts(options: RunOptions) -> dict[str, list[StsSet]]:
    refuse_twice(options.eval_sts, "--eval-sts")
    sts = {path: read_sts(path, "--eval-sts") for path in options.eval_sts}
    for path, sets in sts.items():
        check_sts(sets, f"--eval-sts: {path}")
    return sts


def _check_pairs(data: TextData | BinarizedData, config: TrainingConfig) -> None:
    """Raise InputError where no pair has other sentences to be trained against."""
    if config.steps and data.is_one_pair:
        raise InputError(
            f"got {len(data)} pairs of the same two sentences, expected different pairs: there is "
            "nothing to tell these apart from, so that nothing would be learned; give more text"
        )


def _identity(
    options: RunOptions, config: TrainingConfig, data: TextData | BinarizedData
) -> dict[str, Any]:
    """Return the values that a resumed run must share; keys read as flags."""
    identity = {name.replace("_", "-"): value for name, value in asdict(config).items()}
    identity["eval-every"] = config.eval_every or 0
    identity |= {"eval-sts": list(options.eval_sts), "init-embeddings": options.init_embeddings}
    return identity | data.identity()


def _check_memory(tokens: int, config: TrainingConfig, folder: RunFolder) -> None:
    """Raise InputError if the embeddings and Adam's two moments of them do not fit."""
    needed = 3 * 4 * tokens * config.dim
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        folder.abandon()
        raise InputError(
            f"--dim: got {config.dim}: training {tokens} embeddings takes {needed / 2**30:,.0f} "
            f"GiB of memory, and this computer has {memory / 2**30:,.0f}; take fewer dimensions"
        )


def _facts(data: TextData | BinarizedData, options: RunOptions, trainer: Trainer) -> dict[str, Any]:
    """Return the facts on data, flags and versions for the encoder's config.json."""
    facts = {
        **data.facts(),
        "pairs": len(trainer.pairs),
        "flags": asdict(trainer.config),
        "processes": trainer.world,
        "simile_plugin": simile_plugin.__version__,
        "torch": torch.__version__,
    }
    if options.init_embeddings is not None:
        facts["init_embeddings"] = options.init_embeddings
    return facts


class TrainingRun:
    """The loop around Trainer: log, progress, evaluation, states, choice of checkpoint.

    Args:
        trainer: fresh.
        folder: opened; a state in it is resumed from.
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
        self.state = folder.resume(trainer)
        if trainer.step:
            say(f"going on from step {trainer.step} of {trainer.config.steps}")
        self.started = self.window_started = time.perf_counter()
        self.window_before = len(self.state.window)  # minibatches of an earlier process

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
                    self.state.window.append(trainer.train_step())
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
        """Write the mean of the window's minibatches to the log; return it as text.

        Raises:
            InputError: for a loss that is not finite.
        """
        trainer, window = self.trainer, self.state.window
        stats = StepStats(*torch.stack(window).double().mean(0).tolist())
        if not math.isfinite(stats.loss):
            raise InputError(f"loss is {stats.loss} at step {trainer.step}; lower --lr")
        now = time.perf_counter()
        size = min(trainer.config.batch_size, len(trainer.pairs))
        timed = len(window) - self.window_before
        record = {
            "step": trainer.step,
            "epoch": round(trainer.step * size / len(trainer.pairs), 3),
            **{name: round(value, 4) for name, value in asdict(stats).items()},
            "megabatch": trainer.megabatch,
            "lr": trainer.lr,
            "pairs_per_s": round(timed * size / (now - self.window_started)),
            "seconds": round(self._seconds(), 2),
        }
        self.state.window, self.window_before, self.window_started = [], 0, now
        if stats.collapsed(trainer.config.margin):
            record["collapsed"] = True
            self._warn_of_collapse(stats)
        log.write(json.dumps(record).encode() + b"\n")
        return (
            f"M {record['megabatch']} loss {record['loss']:.3f} active {record['active']:.2f} "
            f"cosine of pairs {record['positive']:.2f}, negatives {record['negative']:.2f}, "
            f"random {record['random']:.2f}, {record['pairs_per_s']:.0f} pairs/s"
        )

    def _warn_of_collapse(self, stats: StepStats) -> None:
        """Say once in a run that the encoder collapses."""
        if not self.state.warned:
            say(
                f"warning: collapse at step {self.trainer.step}: loss {stats.loss:.2f} is near "
                f"2 * margin, random sentences have cosine {stats.random:.2f}; {COLLAPSE_ADVICE}"
            )
        self.state.warned = True

    def _evaluate(self, log: BinaryIO) -> None:
        """Log the STS scores; remember the weights if they are the best so far."""
        weight = self.trainer.weight  # in every process: it brings all rows up to date
        if not self.sts or not self.folder.writes:
            return
        state = self.state
        encoder = finished_encoder(weight, self.tokenizer, self.trainer.config)
        scores = {path: evaluate_sts(encoder, path, sets) for path, sets in self.sts.items()}
        mean = sum(part.mean_pearson for part in scores.values()) / len(scores)
        if math.isfinite(mean) and (state.best_score is None or mean > state.best_score):
            state.best_score, state.best_step = mean, self.trainer.step
            state.best = weight.clone()
        pearson = {path: _rounded(part.mean_pearson) for path, part in scores.items()}
        line = json.dumps({"step": self.trainer.step, "sts_pearson": pearson})
        log.write(line.encode() + b"\n")

    def _finish(self) -> tuple[Tensor, dict[str, Any]]:
        facts: dict[str, Any] = {"chosen_step": self.trainer.step}
        if self.state.best is not None:
            facts = {"chosen_step": self.state.best_step}
            facts["chosen_sts_pearson"] = self.state.best_score
            with torch.no_grad():
                self.trainer.weight.copy_(self.state.best)  # no step may follow
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
        return self.state.seconds + time.perf_counter() - self.started

    def _save_state(self) -> None:
        self.folder.save(self.trainer, replace(self.state, seconds=self._seconds()))


@contextlib.contextmanager
def _interrupt_waits() -> Iterator[Callable[[], None]]:
    """Delay Ctrl-C until the yielded function is called, which raises the KeyboardInterrupt.

    A step that is cut in its middle has taken its minibatch and not made its update: a run resumed
    from there would differ from an undisturbed run.
    """
    signals: list[int] = []

    def interrupt() -> None:
        if signals:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
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
    """Return the value to 4 digits; None for NaN, for which JSON has no number."""
    return round(value, 4) if math.isfinite(value) else None

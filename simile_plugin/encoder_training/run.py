"""One training run on disk: from TSV files to an encoder folder, restartable, logged."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

import simile_plugin
from simile_plugin.encoder import (
    EMBEDDINGS,
    Encoder,
    Preprocessing,
    Tokenizer,
    file_names,
    load_tokenizer,
    save_encoder,
    types_of,
    usable_device,
)
from simile_plugin.encoder_training.binarized import (
    binarized_segmenter,
    is_binarized,
    open_binarized,
)
from simile_plugin.encoder_training.learners import rank_and_world
from simile_plugin.encoder_training.pairs import (
    BadLines,
    Pairs,
    TextPairs,
    read_pairs,
    read_sentencepiece,
    segment_pairs,
    train_tokenizer,
)
from simile_plugin.encoder_training.trainer import (
    COLLAPSE_ADVICE,
    StepStats,
    Trainer,
    TrainingConfig,
    embeddings_collapsed,
)
from simile_plugin.evaluation import StsScores, evaluate_sts, read_sts
from simile_plugin.files import InputError, atomic_folder, atomic_write, check_replaceable

RUN, LOG = "run.json", "log.jsonl"
STATE, STATE_JSON, STATE_TENSORS = "state", "state.json", "state.safetensors"
TRAINING_LOG = "training.jsonl"  # the log's name in the finished encoder folder
STATE_VERSION = 1  # of the state's format; states without a number are of the first
BEST = "best."  # before the names of the chosen parameters in the state
Tensors = dict[str, Tensor]  # parameters of an encoder by name
LINE_EVERY = 15.0  # seconds between progress lines where standard error is no terminal


@dataclass(frozen=True)
class RunOptions:
    """What to train from and where to; TrainingConfig holds how.

    Attributes:
        pairs: TSV files, "-" for standard input; or one folder of binarize_pairs.
        output: the encoder folder to write.
        preprocessing: of every sentence before segmentation.
        vocab_size: of the tokeniser that is trained, an upper limit; 0 for the papers' sizes.
        sentencepiece: path of a model to use instead, or None.
        eval_sts: STS folders that choose the checkpoint by their mean Pearson.
        strict: a bad line ends the run.
        overwrite: replace an encoder that is there.
        restart: forget the state of an interrupted run.
        device: torch device.
        tensorboard: folder for TensorBoard, or None.
        tokens: what sentences are split into, one of tokens.TOKENS or several joined by +.
    """

    pairs: tuple[str, ...]
    output: str
    preprocessing: Preprocessing
    vocab_size: int = 8000
    sentencepiece: str | None = None
    eval_sts: tuple[str, ...] = ()
    strict: bool = False
    overwrite: bool = False
    restart: bool = False
    device: str = "cpu"
    tensorboard: str | None = None
    tokens: str = "sp"

    @property
    def binarized(self) -> bool:
        """Whether the pairs are a folder of binarize_pairs."""
        return len(self.pairs) == 1 and is_binarized(self.pairs[0])


def say(message: str) -> None:
    """One line of progress on standard error."""
    print(message, file=sys.stderr, flush=True)


def train_encoder(
    options: RunOptions, make_config: Callable[[int], TrainingConfig]
) -> Encoder | None:
    """Read pairs, train, write the encoder folder.

    Args:
        options: what and where.
        make_config: number of pairs -> how (epochs become steps here).

    Returns:
        the encoder that was written; None in all processes but the first.

    Raises:
        ValueError: for bad input, a run folder of other flags, or a collapsed encoder.
    """
    with processes(options.device) as (rank, device):
        return _train_encoder(options, make_config, rank, device)


def _train_encoder(
    options: RunOptions,
    make_config: Callable[[int], TrainingConfig],
    rank: int,
    device: torch.device,
) -> Encoder | None:
    check_replaceable(options.output)
    if Path(options.output, "config.json").exists() and not options.overwrite:
        raise InputError(
            f"--output: {options.output} holds an encoder; name another folder or add --overwrite"
        )
    sts = {folder: read_sts(folder, "--eval-sts") for folder in options.eval_sts}
    data = _binarized_data(options) if options.binarized else _text_data(options)
    config = make_config(data.pairs_read)
    with contextlib.closing(RunFolder(options.output, rank)) as folder:
        folder.open(_identity(options, config, data), options.restart)
        pairs, segmenter = data.ready(folder)

        def evaluate(tensors: Tensors) -> dict[str, StsScores]:
            copies = {name: part.detach().clone() for name, part in tensors.items()}
            encoder = Encoder.of_tensors(copies, segmenter, config.kind, config.composer)
            return {path: evaluate_sts(encoder, path, sets) for path, sets in sts.items()}

        trainer = Trainer(config, pairs, segmenter.sizes, device)
        with _board(options.tensorboard if rank == 0 else None) as board:
            tensors, result = TrainingRun(trainer, folder, evaluate, board).run()
        if rank > 0:
            return None
        tensors = {name: part.detach().cpu().clone() for name, part in tensors.items()}
        unknown = ~segmenter.known(np.arange(len(segmenter)))
        tensors[EMBEDDINGS][torch.from_numpy(unknown)] = 0  # never trained, and left out
        facts = {
            **data.facts,
            "pairs": len(pairs),
            "flags": asdict(config),
            "processes": trainer.world,
            "simile_plugin": simile_plugin.__version__,
            "torch": torch.__version__,
        }
        encoder = Encoder.of_tensors(
            tensors, segmenter, config.kind, config.composer, {**facts, **result}
        )
        save_encoder(options.output, encoder, {TRAINING_LOG: folder.log_path.read_bytes()})
        folder.remove()
        return encoder


def keep_freed_memory() -> None:
    """Have glibc reuse freed blocks of up to 32 MB instead of giving them back to the kernel.

    A step allocates some of 3 MB; fetching zeroed pages for them anew takes a sixth of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in musl, macOS
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3
        mallopt(mmap_threshold, 32 << 20)
        mallopt(trim_threshold, 1 << 30)


@contextlib.contextmanager
def processes(device: str) -> Iterator[tuple[int, torch.device]]:
    """Join the processes that torchrun started, if it did.

    Yields:
        the number of this process, and its device: one of "cuda" each.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, usable_device(device)
        return
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    usable = usable_device(device)
    torch.distributed.init_process_group("nccl" if usable.type == "cuda" else "gloo")
    try:
        yield torch.distributed.get_rank(), usable
    finally:
        torch.distributed.destroy_process_group()


@dataclass
class _Data:
    """Training data on its way.

    Attributes:
        pairs_read: before those without a known piece are dropped.
        digest: of the accepted lines.
        facts: for config.json.
        ready: run folder -> pairs and segmenter.
    """

    pairs_read: int
    digest: str
    facts: dict[str, Any]
    ready: Callable[[RunFolder], tuple[Pairs, Tokenizer]]


def _binarized_data(options: RunOptions) -> _Data:
    folder = options.pairs[0]
    if options.sentencepiece is not None:
        raise InputError(
            f"--sentencepiece: {folder} is binarized, with a sentencepiece model of its own; "
            "leave the flag out, or give TSV files"
        )
    pairs, segmenter = open_binarized(folder), binarized_segmenter(folder)
    if segmenter.name != options.tokens:
        raise InputError(
            f"{folder}: holds {types_of(segmenter.name)}, "
            f"expected {types_of(options.tokens)}; binarize the pairs again with --tokens "
            f"{options.tokens}, or train an encoder of {types_of(segmenter.name)}"
        )
    say(f"{len(pairs)} binarized pairs, {len(segmenter)} {types_of(segmenter.name)}")
    facts = {"data": pairs.digest, "sentencepiece": "of the binarized pairs"}
    return _Data(len(pairs), pairs.digest, facts, lambda _: (pairs, segmenter))


def _text_data(options: RunOptions) -> _Data:
    for path in options.pairs:
        if Path(path).is_dir():
            raise InputError(
                f"{path}: is a folder, expected TSV files, or one folder of binarize-pairs alone"
            )
    if rank_and_world()[1] > 1:
        raise InputError(
            f"{options.pairs[0]}: several processes need binarized pairs, expected one folder; "
            "make it with simile binarize-pairs"
        )
    bad = BadLines(options.strict)
    text = read_pairs(options.pairs, options.preprocessing, bad)
    if bad.total:
        say(f"warning: {bad.summary()}")
    say(f"{len(text.rows)} pairs of {len(text.sentences)} distinct sentences")
    facts = {
        "data": text.digest,
        "sentences": len(text.sentences),
        "skipped_lines": bad.total,
        "sentencepiece": "given" if options.sentencepiece else "trained on the pairs",
    }

    def ready(folder: RunFolder) -> tuple[Pairs, Tokenizer]:
        segmenter = _segmenter(options, text, folder)
        pairs, dropped = segment_pairs(text, segmenter)
        if dropped:
            say(
                f"warning: {dropped} pairs dropped: a side has no {types_of(segmenter.name)[:-1]} "
                "of the model"
            )
        return pairs, segmenter

    return _Data(len(text.rows), text.digest, facts, ready)


def _identity(options: RunOptions, config: TrainingConfig, data: _Data) -> dict[str, Any]:
    """What must be equal for a run to go on from another's state; keys read as flags."""
    identity = {name.replace("_", "-"): value for name, value in asdict(config).items()}
    identity["pairs"] = data.digest
    identity["eval-sts"] = list(options.eval_sts)
    if not options.binarized:
        identity["tokens"] = options.tokens
        identity["vocab-size"] = options.vocab_size
        identity["sentencepiece"] = options.sentencepiece
        identity["preprocessing"] = asdict(options.preprocessing)
    return identity


def _defaults() -> dict[str, Any]:
    """Flags of the identity that have a default, with it."""
    given = [field for field in fields(TrainingConfig) if field.default is not MISSING]
    return {"tokens": "sp"} | {f.name.replace("_", "-"): f.default for f in given}


@contextlib.contextmanager
def _board(folder: str | None) -> Iterator[Callable[[str, float, int], object] | None]:
    """TensorBoard's add_scalar(name, value, step), or None if no folder is given."""
    if folder is None:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError(
            "--tensorboard-logdir: the package tensorboard is not installed; install it "
            "(pip install tensorboard) or leave the flag out: training.jsonl has all values"
        ) from error
    with SummaryWriter(folder) as writer:
        yield writer.add_scalar


def _segmenter(options: RunOptions, text: TextPairs, folder: RunFolder) -> Tokenizer:
    """The tokeniser: given, or of the interrupted run, or trained now."""
    saved = {name: folder.path / name for name in file_names(options.tokens)}
    if all(path.is_file() for path in saved.values()):
        files = {name: path.read_bytes() for name, path in saved.items()}
        return load_tokenizer(options.tokens, files, options.preprocessing)
    segmenter = train_tokenizer(
        options.tokens,
        text.sentences,
        options.preprocessing,
        options.vocab_size,
        read_sentencepiece(options.sentencepiece, options.preprocessing),
        say,
    )
    for name, content in segmenter.files.items():
        with atomic_write(saved[name], "wb") as stream:
            stream.write(content)
    return segmenter


class RunFolder:
    """``OUTPUT.training``: identity, sentencepiece model, log and last state of a run.

    Args:
        output: the encoder folder of the run.
        rank: of this process; only the first one writes.
    """

    def __init__(self, output: str, rank: int = 0) -> None:
        self.writes = rank == 0
        self.lock: int | None = None
        target = Path(output)
        self.path = target.with_name(target.name + ".training")
        self.log_path = self.path / LOG

    def open(self, identity: dict[str, Any], restart: bool) -> None:
        """Begin, or go on with what an interrupted run of the same identity left.

        Raises:
            ValueError: naming the first flag that differs from the interrupted run.
        """
        if self.writes:
            self._open(identity, restart)
        if rank_and_world()[1] > 1:
            torch.distributed.barrier()  # the others read what the first one leaves

    def _open(self, identity: dict[str, Any], restart: bool) -> None:
        saved = self.path / RUN
        if self.path.is_dir():
            self._lock()
        if restart or not saved.is_file():
            self.remove()
            self.path.mkdir(parents=True)
            self._lock()
            with atomic_write(saved) as stream:
                json.dump(identity, stream, indent=2)
            return
        try:
            known = json.loads(saved.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{saved}: not valid JSON ({error}); add --restart") from error
        since = _defaults()  # flags that an older version did not have
        for key, value in json.loads(json.dumps(identity)).items():
            if known.get(key, since.get(key)) != value:
                raise InputError(
                    f"{self.path} holds an interrupted run with another --{key} "
                    f"({known.get(key)}, now {value}); repeat its flags or add --restart"
                )

    def _lock(self) -> None:
        """Keep other processes out until this one ends.

        Raises:
            ValueError: if another one is in.
        """
        self.close()
        self.lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"--output: another training is at work in {self.path}; wait for it, or name "
                "another folder"
            ) from error

    def close(self) -> None:
        """Let other processes in."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def save_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Replace the state in one step."""
        if not self.writes:
            return
        with atomic_folder(self.path / STATE, marker=STATE_JSON) as temporary:
            versioned = {"format_version": STATE_VERSION, **values}
            (temporary / STATE_JSON).write_text(json.dumps(versioned))
            (temporary / STATE_TENSORS).write_bytes(save(tensors))

    def load_state(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The last state, or None if there is none."""
        state = self.path / STATE
        if not state.is_dir():
            return None
        try:
            values = json.loads((state / STATE_JSON).read_text(encoding="utf-8"))
            tensors = load((state / STATE_TENSORS).read_bytes())
            version = values.pop("format_version", 1)
        except (ValueError, OSError, AttributeError, SafetensorError) as error:
            raise InputError(f"{state}: cannot be read ({error}); add --restart") from error
        if version > STATE_VERSION:
            raise InputError(
                f"{state}: format_version {version} is newer than {STATE_VERSION}, the newest this "
                "version reads; update simile-plugin, or add --restart"
            )
        return tensors, values

    def open_log(self, step: int) -> IO[str]:
        """The log, cut back to what was written up to ``step``, open for more lines."""
        if not self.writes:
            return open(os.devnull, "w", encoding="utf-8")
        kept = []
        if self.log_path.is_file():
            for line in self.log_path.read_text(encoding="utf-8").splitlines(keepends=True):
                with contextlib.suppress(json.JSONDecodeError):  # a line cut short by a kill
                    if json.loads(line)["step"] <= step:
                        kept.append(line)
        with atomic_write(self.log_path) as stream:
            stream.writelines(kept)
        return open(self.log_path, "a", encoding="utf-8")

    def abandon(self) -> None:
        """Keep the log only: another try begins anew."""
        if not self.writes:
            return
        shutil.rmtree(self.path / STATE, ignore_errors=True)
        (self.path / RUN).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.path, ignore_errors=True)


class TrainingRun:
    """The loop around Trainer: log, progress, evaluation, states, choice of checkpoint.

    Args:
        trainer: fresh.
        folder: opened; a state in it is gone on from.
        evaluate: parameters -> scores of each STS folder; empty where none is given.
        board: TensorBoard's add_scalar(name, value, step), or None.
    """

    def __init__(
        self,
        trainer: Trainer,
        folder: RunFolder,
        evaluate: Callable[[Tensors], dict[str, StsScores]],
        board: Callable[[str, float, int], object] | None = None,
    ) -> None:
        self.trainer = trainer
        self.folder = folder
        self.evaluate = evaluate
        self.board = board
        self.best_score: float | None = None
        self.best_step = 0
        self.best: Tensors | None = None
        self.warned = False
        self.seconds_before = 0.0
        self.started = self.window_started = time.perf_counter()
        self._resume()

    def run(self) -> tuple[Tensors, dict[str, Any]]:
        """Train to the last step.

        Returns:
            the chosen parameters, and facts about the training.

        Raises:
            ValueError: if the chosen encoder is collapsed.
        """
        config, trainer = self.trainer.config, self.trainer
        window: list[Tensor] = []
        progress_bar = Progress(config.steps, self.folder.writes)
        with self.folder.open_log(trainer.step) as log, progress_bar as progress:
            try:
                while trainer.step < config.steps:
                    window.append(trainer.train_step())
                    last = trainer.step == config.steps
                    if last or trainer.step % config.log_every == 0:
                        progress.show(self._log_window(log, window), trainer.step)
                        window = []
                    if config.eval_every and (last or trainer.step % config.eval_every == 0):
                        self._evaluate(log)
                    if config.save_every and trainer.step % config.save_every == 0:
                        self._save_state()
            except KeyboardInterrupt:
                self._save_state()
                say(f"interrupted; the same command goes on from step {trainer.step}")
                raise
        return self._finish()

    def _log_window(self, log: IO[str], window: Sequence[Tensor]) -> dict[str, Any]:
        """Write the mean of some minibatches to the log; warn once of a collapse."""
        trainer = self.trainer
        stats = StepStats(*torch.stack(list(window)).double().mean(0).tolist())
        if not math.isfinite(stats.loss):
            raise InputError(f"loss is {stats.loss} at step {trainer.step}; lower --lr")
        now = time.perf_counter()
        pairs = len(window) * trainer.config.batch_size
        record = {
            "step": trainer.step,
            "epoch": round(trainer.step * trainer.config.batch_size / len(trainer.pairs), 3),
            **{name: round(value, 4) for name, value in asdict(stats).items()},
            "megabatch": trainer.megabatch,
            "lr": trainer.lr,
            "pairs_per_s": round(pairs / (now - self.window_started)),
            "seconds": round(self._seconds(), 2),
        }
        self.window_started = now
        if stats.collapsed(trainer.config):
            record["collapsed"] = True
            if not self.warned:
                say(
                    f"warning: collapse at step {trainer.step}: loss {stats.loss:.2f} is near "
                    f"2 * margin, random sentences have cosine {stats.random:.2f}; "
                    f"{COLLAPSE_ADVICE}"
                )
            self.warned = True
        _write_line(log, record)
        if self.board is not None:
            for name in ("loss", "active", "positive", "negative", "random", "megabatch", "lr"):
                self.board(name, record[name], trainer.step)
        return record

    def _evaluate(self, log: IO[str]) -> None:
        """Log the STS scores; remember the weights if they are the best so far."""
        tensors = self.trainer.tensors()  # by all processes: it brings all rows up to date
        scores = self.evaluate(tensors) if self.folder.writes else {}
        if not scores:
            return
        mean = sum(part.mean_pearson for part in scores.values()) / len(scores)
        if math.isfinite(mean) and (self.best_score is None or mean > self.best_score):
            self.best_score, self.best_step = mean, self.trainer.step
            self.best = {name: part.clone() for name, part in tensors.items()}
        if self.board is not None:
            for path, part in scores.items():
                self.board(f"sts/{Path(path).name}", part.mean_pearson, self.trainer.step)
        pearson = {path: _rounded(part.mean_pearson) for path, part in scores.items()}
        _write_line(log, {"step": self.trainer.step, "sts_pearson": pearson})

    def _finish(self) -> tuple[Tensors, dict[str, Any]]:
        facts: dict[str, Any] = {"chosen_step": self.trainer.step}
        if self.best is not None:
            facts = {"chosen_step": self.best_step, "chosen_sts_pearson": self.best_score}
        if self.best is not None:
            self.trainer.learner.load_tensors(self.best)
        chosen = self.trainer.tensors()
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
        return chosen, facts

    def _seconds(self) -> float:
        """Since the first start, without the time between an interruption and the next start."""
        return self.seconds_before + time.perf_counter() - self.started

    def _save_state(self) -> None:
        tensors, values = self.trainer.state()
        for name, part in (self.best or {}).items():
            tensors[BEST + name] = part.cpu()
        values |= {"best_score": self.best_score, "best_step": self.best_step}
        values |= {"warned": self.warned, "seconds": self._seconds()}
        self.folder.save_state(tensors, values)

    def _resume(self) -> None:
        saved = self.folder.load_state()
        if saved is None:
            return
        tensors, values = saved
        best = [name for name in tensors if name.startswith(BEST)]
        self.best = {name.removeprefix(BEST): tensors.pop(name) for name in best} or None
        self.best_score, self.best_step = values["best_score"], values["best_step"]
        self.warned, self.seconds_before = values["warned"], values["seconds"]
        self.trainer.load_state(tensors, values)
        say(f"going on from step {self.trainer.step} of {self.trainer.config.steps}")


class Progress:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, steps: int, shown: bool = True) -> None:
        from tqdm import tqdm

        self.steps = steps
        self.silent = not shown
        self.bar = tqdm(total=steps, unit="step", disable=self.silent or not sys.stderr.isatty())
        self.shown = time.perf_counter()
        self.last: tuple[int, float] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def show(self, record: dict[str, Any], step: int) -> None:
        """Show a record of the log."""
        now = time.perf_counter()
        text = (
            f"M {record['megabatch']} loss {record['loss']:.3f} active {record['active']:.2f} "
            f"cosine of pairs {record['positive']:.2f}, negatives {record['negative']:.2f}, "
            f"random {record['random']:.2f}, {record['pairs_per_s']:.0f} pairs/s"
        )
        self.bar.update(step - self.bar.n)
        self.bar.set_postfix_str(text, refresh=False)
        if self.silent:
            return
        if self.bar.disable and (now - self.shown > LINE_EVERY or step == self.steps):
            say(f"step {step}/{self.steps}: {text}")
            self.shown = now


def _write_line(log: IO[str], record: dict[str, Any]) -> None:
    log.write(json.dumps(record) + "\n")
    log.flush()


def _rounded(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return round(value, 4) if math.isfinite(value) else None

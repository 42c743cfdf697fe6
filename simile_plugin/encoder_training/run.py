"""One training run: from TSV files or binarised pairs to an encoder folder."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import simile_plugin
from simile_plugin.encoder import (
    WEIGHTS,
    Encoder,
    Preprocessing,
    Tokenizer,
    save_encoder,
    types_of,
    usable_device,
)
from simile_plugin.encoder_training.binarized import (
    are_binarized,
    binarized_segmenter,
    open_binarized,
)
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.initial import initial_embeddings
from simile_plugin.encoder_training.learner import rank_and_world
from simile_plugin.encoder_training.loop import TrainingRun, finished_encoder
from simile_plugin.encoder_training.pairs import (
    BadLines,
    Pairs,
    TextPairs,
    read_pairs,
    read_sentencepiece,
    say,
    segment_pairs,
    train_tokenizer,
)
from simile_plugin.encoder_training.run_folder import FILES, RunFolder
from simile_plugin.encoder_training.trainer import Trainer
from simile_plugin.encoder_training.tsv import FIRST_TWO, Columns
from simile_plugin.evaluation import read_sts
from simile_plugin.files import (
    InputError,
    refuse_overwriting_input,
    refuse_twice,
    refuse_unasked_overwrite,
)

TRAINING_LOG = "training.jsonl"  # the log's name in the finished encoder folder


@dataclass(frozen=True)
class RunOptions:
    """What to train from and where to; TrainingConfig holds how.

    Attributes:
        pairs: TSV files, "-" for standard input; or one folder of binarize_pairs.
        output: the encoder folder to write.
        preprocessing: of every sentence before segmentation.
        vocab_size: of the tokeniser that is trained, an upper limit; 0 for the papers' sizes.
        epochs: passes over the pairs; None for TrainingConfig.steps.
        sentencepiece: path of a model to use instead, or None.
        eval_sts: STS folders that choose the checkpoint by their mean Pearson.
        strict: a bad line ends the run.
        overwrite: replace an encoder that is there.
        restart: forget the state of an interrupted run.
        device: torch device.
        tensorboard: folder for TensorBoard, or None.
        tokens: what sentences are split into, one of tokens.TOKENS or several joined by +.
        initial: file or encoder folder of embeddings to begin with, or None for random ones.
        columns: of the files, that hold the sentences.
    """

    pairs: tuple[str, ...]
    output: str
    preprocessing: Preprocessing
    vocab_size: int
    epochs: float | None = None
    sentencepiece: str | None = None
    eval_sts: tuple[str, ...] = ()
    strict: bool = False
    overwrite: bool = False
    restart: bool = False
    device: str = "cpu"
    tensorboard: str | None = None
    tokens: str = "sp"
    initial: str | None = None
    columns: Columns = FIRST_TWO

    @property
    def binarized(self) -> bool:
        """Whether the pairs are a folder of binarize_pairs."""
        return are_binarized(self.pairs)


def train_encoder(options: RunOptions, config: TrainingConfig) -> Encoder | None:
    """Read pairs, train, write the encoder folder.

    Args:
        options: what and where.
        config: how; its steps follow from the number of pairs if options.epochs is given.

    Returns:
        the encoder that was written; None in all processes but the first.

    Raises:
        InputError: for bad input, a run folder of other flags, or a collapsed encoder.
    """
    with processes(options.device) as (rank, device), RunFolder(options.output, rank) as folder:
        _check_output(options)
        if not options.restart:
            options = replace(options, preprocessing=folder.preprocessing(options.preprocessing))
        refuse_twice(options.eval_sts, "--eval-sts")
        sts = {path: read_sts(path, "--eval-sts") for path in options.eval_sts}
        data = _Binarized.open(options) if options.binarized else _read_text(options)
        config = config.for_pairs(len(data), options.epochs, bool(sts))
        _check_pairs(data, config)
        folder.open(_identity(options, config, data.digest), options.restart)
        tokenizer, pairs = _segmented(data, options, folder)
        _check_memory(len(tokenizer), config, folder)
        initial = None
        if options.initial is not None:
            initial = initial_embeddings(options.initial, tokenizer, config)
        trainer = Trainer(config, pairs, tokenizer.sizes, device, initial)
        with _board(options.tensorboard if rank == 0 else None) as board:
            tensors, result = TrainingRun(trainer, tokenizer, folder, sts, board).train()
        if rank > 0:
            return None
        facts = _facts(data, options) | {
            "pairs": len(pairs),
            "flags": asdict(config),
            "processes": trainer.world,
            "simile_plugin": simile_plugin.__version__,
            "torch": torch.__version__,
        }
        tensors = {name: part.cpu() for name, part in tensors.items()}
        if options.initial is not None:
            facts["init_embeddings"] = options.initial
        encoder = finished_encoder(tensors, tokenizer, config, facts | result)
        unknown = ~tokenizer.known(np.arange(len(tokenizer)))
        encoder.weight.data[torch.from_numpy(unknown)] = 0  # never trained, and left out
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


def _check_output(options: RunOptions) -> None:
    initial = () if options.initial is None else (options.initial,)
    refuse_overwriting_input(options.output, (*options.pairs, *options.eval_sts, *initial))
    refuse_unasked_overwrite(options.output, WEIGHTS, "an encoder", options.overwrite)
    target = Path(os.path.realpath(options.output))
    if Path(options.output).is_symlink() and not target.parent.is_dir():
        raise InputError(
            f"--output: {options.output} is a link to {target}, and there is no folder "
            f"{target.parent}; make it first, or name another place"
        )
    if options.tensorboard is not None:
        board = Path(os.path.realpath(options.tensorboard))
        for folder in (options.output, f"{Path(options.output)}.training"):
            if board.is_relative_to(os.path.realpath(folder)):
                raise InputError(
                    f"--tensorboard-logdir: {options.tensorboard} is in {folder}, which is "
                    "replaced or removed with all in it at the end; name another place"
                )


@dataclass(frozen=True)
class _Binarized:
    """Pairs of a folder, and the tokeniser that made them."""

    pairs: Pairs
    tokenizer: Tokenizer

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def digest(self) -> str:
        return self.pairs.digest

    @classmethod
    def open(cls, options: RunOptions) -> _Binarized:
        folder = options.pairs[0]
        if options.sentencepiece is not None:
            raise InputError(
                f"--sentencepiece: {folder} is binarized, with a sentencepiece model of its own; "
                "leave the flag out, or give TSV files"
            )
        pairs, tokenizer = open_binarized(folder), binarized_segmenter(folder)
        if tokenizer.name != options.tokens:
            raise InputError(
                f"{folder}: holds {types_of(tokenizer.name)}, "
                f"expected {types_of(options.tokens)}; binarize the pairs again with --tokens "
                f"{options.tokens}, or train an encoder of {types_of(tokenizer.name)}"
            )
        say(f"{len(pairs)} binarized pairs, {len(tokenizer)} {types_of(tokenizer.name)}")
        return cls(pairs, tokenizer)


def _read_text(options: RunOptions) -> TextPairs:
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
    bad = BadLines.of(options.columns, options.strict)
    text = read_pairs(options.pairs, options.preprocessing, bad, options.columns)
    if bad.total:
        say(f"warning: {bad.summary()}")
    say(f"{len(text)} pairs of {len(text.sentences)} distinct sentences")
    return text


def _segmented(
    data: TextPairs | _Binarized, options: RunOptions, folder: RunFolder
) -> tuple[Tokenizer, Pairs]:
    """The tokeniser, given or of the interrupted run or trained now, and the pairs as tokens."""
    if isinstance(data, _Binarized):
        return data.tokenizer, data.pairs
    tokenizer = folder.tokenizer(options.tokens, options.preprocessing)
    if tokenizer is None:
        given = read_sentencepiece(options.sentencepiece, options.preprocessing)
        tokenizer = train_tokenizer(
            options.tokens, data.sentences, options.preprocessing, options.vocab_size, given
        )
        folder.save_tokenizer(tokenizer)
    pairs = segment_pairs(data, tokenizer)
    if len(pairs) < len(data):
        say(
            f"warning: {len(data) - len(pairs)} pairs dropped: a side has no "
            f"{types_of(tokenizer.name)[:-1]} of the model"
        )
    return tokenizer, pairs


def _check_pairs(data: TextPairs | _Binarized, config: TrainingConfig) -> None:
    """A pair is trained against the sentences of others: there must be some."""
    if isinstance(data, _Binarized):
        hashes = data.pairs.hashes
        same = bool(((hashes == hashes[0]) | (hashes == hashes[1])).all())
    else:
        same = len(data.sentences) < 3
    if same and config.steps:
        raise InputError(
            f"got {len(data)} pairs of the same two sentences, expected different pairs: there is "
            "nothing to tell these apart from, so that nothing would be learned; give more text"
        )


def _check_memory(tokens: int, config: TrainingConfig, folder: RunFolder) -> None:
    """The embeddings, a recurrent layer's weights, and Adam's two moments of them must fit."""
    hidden = config.composer.get("hidden", 0)  # 0: no recurrent layer
    layer = 4 * hidden * (hidden + config.dim) * (1 + (config.kind == "blstm"))
    needed = 3 * 4 * (tokens * config.dim + layer)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        folder.abandon()
        flag = f"--hidden: got {config.hidden}" if config.hidden else f"--dim: got {config.dim}"
        raise InputError(
            f"{flag}: to train {tokens} embeddings takes {needed / 2**30:,.0f} GiB of memory, and "
            f"this computer has {there / 2**30:,.0f}; take fewer dimensions"
        )


def _facts(data: TextPairs | _Binarized, options: RunOptions) -> dict[str, Any]:
    """What config.json says of the data."""
    if isinstance(data, _Binarized):
        return {"data": data.digest, "sentencepiece": "of the binarized pairs"}
    return {
        "data": data.digest,
        "sentences": len(data.sentences),
        "skipped_lines": data.skipped,
        "sentencepiece": "given" if options.sentencepiece else "trained on the pairs",
    }


def _identity(options: RunOptions, config: TrainingConfig, digest: str) -> dict[str, Any]:
    """What must be equal for a run to go on from another's state; keys read as flags."""
    identity = {name.replace("_", "-"): value for name, value in asdict(config).items()}
    identity["pairs"] = digest
    identity["eval-sts"] = list(options.eval_sts)
    identity["init-embeddings"] = options.initial
    if not options.binarized:
        identity["tokens"] = options.tokens
        identity["vocab-size"] = options.vocab_size
        identity["sentencepiece"] = options.sentencepiece
        identity["preprocessing"] = options.preprocessing.facts
    named: dict[str, Sequence[str | None]] = {
        "sentencepiece": [options.sentencepiece],
        "init-embeddings": [options.initial],
        "eval-sts": options.eval_sts,
    }
    identity[FILES] = {
        flag: _content(flag, [path for path in paths if path and path != "-"])
        for flag, paths in named.items()
    }
    return identity


def _content(flag: str, paths: Sequence[str]) -> str:
    """16 hex digits of sha256 over the content of files, and of the files of folders."""
    digest = hashlib.sha256()
    for path in map(Path, paths):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(
                f"--{flag} {path}: a pipe can be read only once, and is read twice; write it to a "
                "file first"
            )
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file() or file is path:
                with open(file, "rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


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

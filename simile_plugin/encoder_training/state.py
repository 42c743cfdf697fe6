"""``OUTPUT.training``: what a training leaves on disk until it is done, to be resumed from.

run.json                 identity: the flags and the digest of the data
sentencepiece.model      or the vocabulary: the tokeniser, so that it is trained once
log.jsonl                the lines of the log so far
state/                   the last state: tensors in safetensors, numbers in state.json
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from simile_plugin.encoder import Preprocessing, Tokenizer, file_names, load_tokenizer
from simile_plugin.encoder_training.processes import rank_and_world
from simile_plugin.encoder_training.trainer import Trainer
from simile_plugin.files import (
    InputError,
    atomic_folder,
    atomic_write,
    locked_folder,
    restore_folder,
)

RUN, LOG = "run.json", "log.jsonl"
# The files of a training; those with a dot in front are half written.
OURS = re.compile(
    r"run\.json|log\.jsonl|state|(\d+\.)?(sentencepiece\.model|vocabulary\.json)|\..*"
)
STATE, STATE_JSON, STATE_TENSORS = "state", "state.json", "state.safetensors"
STATE_VERSION = 2
BEST = "best.embeddings"  # the name of the best weights among the tensors of a state


@dataclass
class RunState:
    """The state that a resumed run keeps besides its trainer.

    Attributes:
        window: statistics (5,) of the minibatches since the last line of the log.
        seconds: trained before this process began.
        warned: a collapse has been reported.
        best: embeddings (V, D) of the best evaluation so far, with its step and mean Pearson.
    """

    window: list[Tensor] = field(default_factory=list)
    seconds: float = 0.0
    warned: bool = False
    best: Tensor | None = None
    best_step: int = 0
    best_score: float | None = None


class RunFolder:
    """The folder ``OUTPUT.training`` of a run, locked while the run is at work.

    Args:
        output: the encoder folder of the run.
        rank: of this process; only rank 0 writes.
    """

    def __init__(self, output: str, rank: int = 0) -> None:
        self.writes = rank == 0
        self.lock = contextlib.ExitStack()
        target = Path(output)
        if target.name in ("", ".."):
            raise InputError(f"--output: got '{output}', expected the name of a folder to make")
        self.path = target.with_name(target.name + ".training")
        self.log_path = self.path / LOG

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.close()

    def open(self, identity: dict[str, Any], restart: bool) -> None:
        """Begin a run, or keep the files of an interrupted run of the same identity.

        Raises:
            InputError: for another run's state, other files, or a training at work there.
        """
        if self.writes:
            self._open(identity, restart)
        if rank_and_world()[1] > 1:
            torch.distributed.barrier()  # the others read what the first process writes

    def _open(self, identity: dict[str, Any], restart: bool) -> None:
        saved = self.path / RUN
        if self.path.is_dir():
            self.lock.enter_context(locked_folder(self.path))
            restore_folder(self.path / STATE)
        if restart or not saved.is_file():
            self._begin(identity)
            return
        try:
            known = json.loads(saved.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{saved}: not valid JSON ({error}); add --restart") from error
        if differs := _difference(known, json.loads(json.dumps(identity))):
            if (self.path / STATE).is_dir():
                raise InputError(
                    f"{self.path} holds an interrupted run with {differs}; repeat its flags or add "
                    "--restart"
                )
            self._begin(identity)  # interrupted before the first state

    def _begin(self, identity: dict[str, Any]) -> None:
        names = sorted(path.name for path in self.path.iterdir()) if self.path.is_dir() else []
        foreign = [name for name in names if not OURS.fullmatch(name)]
        if foreign:
            raise InputError(
                f"--output: {self.path}, where the state of the training would be, holds other "
                f"files ({foreign[0]}) and is not replaced; name another output"
            )
        self.remove()
        self.path.mkdir(parents=True)
        self.lock.close()  # of the folder that was removed
        self.lock.enter_context(locked_folder(self.path))
        with atomic_write(self.path / RUN) as stream:
            json.dump(identity, stream, indent=2)

    def tokenizer(self, name: str, preprocessing: Preprocessing) -> Tokenizer | None:
        """Return the tokeniser of the interrupted run; None where there is no such run."""
        saved = {file: self.path / file for file in file_names(name)}
        if not all(path.is_file() for path in saved.values()):
            return None
        files = {file: path.read_bytes() for file, path in saved.items()}
        return load_tokenizer(name, files, preprocessing)

    def save_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Keep the tokeniser's files for a resumed run."""
        for name, content in tokenizer.files.items():
            with atomic_write(self.path / name, "wb") as stream:
                stream.write(content)

    def save(self, trainer: Trainer, state: RunState) -> None:
        """Replace the last state by this one, in one rename."""
        if not self.writes:
            return
        tensors, values = trainer.state()
        if state.best is not None:
            tensors[BEST] = state.best.cpu()
        values |= {"best_score": state.best_score, "best_step": state.best_step}
        values |= {"warned": state.warned, "seconds": state.seconds}
        values |= {"window": [row.tolist() for row in state.window]}
        with atomic_folder(self.path / STATE, marker=STATE_JSON) as temporary:
            text = json.dumps({"format_version": STATE_VERSION, **values})
            (temporary / STATE_JSON).write_text(text)
            (temporary / STATE_TENSORS).write_bytes(save(tensors))

    def resume(self, trainer: Trainer) -> RunState:
        """Put the trainer where the last state was saved; return the rest of that state.

        Without a saved state the trainer stays as it is.

        Raises:
            InputError: for a state that is damaged or of a newer format.
        """
        folder = self.path / STATE
        if not folder.is_dir():
            return RunState()
        try:
            values = json.loads((folder / STATE_JSON).read_text(encoding="utf-8"))
            tensors = load((folder / STATE_TENSORS).read_bytes())
            version = values.pop("format_version", None)
        except (ValueError, OSError, AttributeError, SafetensorError) as error:
            raise InputError(f"{folder}: cannot be read ({error}); add --restart") from error
        if version != STATE_VERSION:
            raise InputError(
                f"{folder}: got format_version {version}, expected {STATE_VERSION}, which this "
                "version writes; continue with the version that began the run, or add --restart"
            )
        best = tensors.pop(BEST, None)
        trainer.load_state(tensors, values)
        window = [torch.tensor(row, device=trainer.device) for row in values["window"]]
        best_step, best_score = values["best_step"], values["best_score"]
        return RunState(window, values["seconds"], values["warned"], best, best_step, best_score)

    def open_log(self, step: int) -> BinaryIO:
        """Open the log to append to it, without the lines of steps after ``step``."""
        if self.writes:
            self._cut_log(step)
        # Unbuffered: closing would otherwise try again to write what a full disk refused.
        return open(self.log_path if self.writes else os.devnull, "ab", buffering=0)

    def _cut_log(self, step: int) -> None:
        kept = []
        if self.log_path.is_file():
            for line in self.log_path.read_text(encoding="utf-8").splitlines(keepends=True):
                with contextlib.suppress(json.JSONDecodeError):  # a line cut short by a kill
                    if json.loads(line)["step"] <= step:
                        kept.append(line)
        with atomic_write(self.log_path) as stream:
            stream.writelines(kept)

    def abandon(self) -> None:
        """Keep the log only: the next run with this output begins anew."""
        if not self.writes:
            return
        shutil.rmtree(self.path / STATE, ignore_errors=True)
        (self.path / RUN).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def _difference(known: dict[str, Any], identity: dict[str, Any]) -> str:
    """Return the first flag in which two identities differ, with both values; "" for none."""
    for key in identity | known:
        before, now = known.get(key), identity.get(key)
        if before != now:
            return f"another --{key} ({before}, now {now})"
    return ""

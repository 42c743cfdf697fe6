"""``OUTPUT.training``: what a training run leaves on disk until it is done, to go on from."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from simile_plugin.encoder import Preprocessing, Tokenizer, file_names, load_tokenizer
from simile_plugin.encoder_training.learner import rank_and_world
from simile_plugin.files import (
    InputError,
    atomic_folder,
    atomic_write,
    locked_folder,
    restore_folder,
)

RUN, LOG = "run.json", "log.jsonl"
# What a run leaves there: a log also where it was given up; hidden ones are half written.
OURS = re.compile(
    r"run\.json|log\.jsonl|state|(\d+\.)?(sentencepiece\.model|vocabulary\.json)|\..*"
)
STATE, STATE_JSON, STATE_TENSORS = "state", "state.json", "state.safetensors"
# Of the state's format; states without a number are of the first. That numbered the sentences of
# TSV files in another way.
STATE_VERSION = 2


# Flags that some version's runs have in their identity and others have not, with their defaults.
SINCE = {
    "tokens": "sp",
    "mix": "add",
    "hidden": 0,
    "combine": "mean",
    "scramble": 0.0,
    "objective": "margin",
    "scale": 20.0,
    "negatives": "max",
    "optimizer": "adam",
    "l2-initial": 0.0,
    "mine-per-process": False,
    "init-embeddings": None,
    "kind": "sp",
}


def _difference(known: dict[str, Any], identity: dict[str, Any]) -> str:
    """Return the first thing in which a run is not the one that made a folder; "" for none."""
    for key in (identity | SINCE).keys():
        before, now = known.get(key, SINCE.get(key)), identity.get(key, SINCE.get(key))
        if before != now:
            return f"another --{key} ({before}, now {now})"
    return ""


class RunFolder:
    """``OUTPUT.training``: identity, sentencepiece model, log and last state of a run.

    Args:
        output: the encoder folder of the run.
        rank: of this process; only the first one writes.
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
        """Begin, or go on with what an interrupted run of the same identity left."""
        if self.writes:
            self._open(identity, restart)
        if rank_and_world()[1] > 1:
            torch.distributed.barrier()  # the others read what the first one leaves

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
            self._begin(identity)  # it ended before there was a state to go on from

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
        self.lock.close()  # of what was removed
        self.lock.enter_context(locked_folder(self.path))
        with atomic_write(self.path / RUN) as stream:
            json.dump(identity, stream, indent=2)

    def preprocessing(self, wanted: Preprocessing) -> Preprocessing:
        """Return what is wanted, but of the version that an interrupted run was begun with."""
        try:
            known = json.loads((self.path / RUN).read_text(encoding="utf-8"))
            old = "drop_invisible" not in known["preprocessing"]
        except (OSError, ValueError, KeyError, TypeError):  # none, or `open` says what is wrong
            return wanted
        goes_on = old and (self.path / STATE).is_dir()
        return replace(wanted, drop_invisible=False) if goes_on else wanted

    def tokenizer(self, name: str, preprocessing: Preprocessing) -> Tokenizer | None:
        """Return that of an interrupted run, if there is one."""
        saved = {file: self.path / file for file in file_names(name)}
        if not all(path.is_file() for path in saved.values()):
            return None
        files = {file: path.read_bytes() for file, path in saved.items()}
        return load_tokenizer(name, files, preprocessing)

    def save_tokenizer(self, tokenizer: Tokenizer) -> None:
        for name, content in tokenizer.files.items():
            with atomic_write(self.path / name, "wb") as stream:
                stream.write(content)

    def save_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Replace the state in one step."""
        if not self.writes:
            return
        with atomic_folder(self.path / STATE, marker=STATE_JSON) as temporary:
            versioned = {"format_version": STATE_VERSION, **values}
            (temporary / STATE_JSON).write_text(json.dumps(versioned))
            (temporary / STATE_TENSORS).write_bytes(save(tensors))

    def load_state(self) -> tuple[dict[str, Tensor], dict[str, Any], int] | None:
        """Return the last state and its version, or None if there is none."""
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
        return tensors, values, version

    def open_log(self, step: int) -> BinaryIO:
        """Open the log for more lines, cut back to what was written up to ``step``."""
        if self.writes:
            self._cut_log(step)
        # Without a buffer, so that what a full disk refuses is not tried again on closing.
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
        """Keep the log only: another try begins anew."""
        if not self.writes:
            return
        shutil.rmtree(self.path / STATE, ignore_errors=True)
        (self.path / RUN).unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

"""The mean of the weights of models that were trained from one model (Wortsman et al. 2022)."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from simile_plugin.fairseq_hooks import allow_fairseq_checkpoints, read_checkpoint
from simile_plugin.files import InputError, Progress, atomic_folder, atomic_write
from simile_plugin.finetuning.begun import RECORD

CONFIG = "config.json"
TRAINER_STATE = "trainer_state.json"  # of transformers
CARD, CARD_MARK = "README.md", "<!-- written by simile-plugin"  # of hugging_face.model_card


class Averager:
    """Means of tensors of the same name, and how far each model is from them.

    Args:
        paths: of the models, which messages name.
        weights: of the models; only their ratios count. Default: all the same.
    """

    def __init__(self, paths: Sequence[str], weights: Sequence[float] | None = None) -> None:
        weights = weights or [1.0] * len(paths)
        self.paths, total = paths, math.fsum(weights)
        self.shares = [weight / total for weight in weights]
        self.squares, self.deviations = 0.0, [0.0] * len(paths)

    def __call__(self, name: str, tensors: Sequence[Tensor]) -> Tensor:
        """The weighted mean, in the first's type; what is no floating point number must be equal.

        Raises:
            InputError: for tensors of different shapes, different integers, NaN or infinity.
        """
        first = tensors[0]
        for path, tensor in zip(self.paths, tensors, strict=True):
            if tensor.shape != first.shape:
                raise InputError(
                    f"{path}: {name} is {tuple(tensor.shape)}, but {tuple(first.shape)} in "
                    f"{self.paths[0]}; expected models of one architecture and dictionary"
                )
            if not first.is_floating_point() and not torch.equal(tensor, first):
                raise InputError(f"{path}: {name} differs from {self.paths[0]}'s; has no mean")
            if not bool(torch.isfinite(tensor).all()):
                raise InputError(
                    f"{path}: {name} has NaN or infinity in it, expected finite weights; leave the "
                    "model out"
                )
        if not first.is_floating_point():
            return first
        doubles = [tensor.double() for tensor in tensors]
        pairs = zip(self.shares, doubles, strict=True)
        mean = sum((share * double for share, double in pairs), start=torch.zeros(()))
        self.squares += float(mean.square().sum())
        for place, double in enumerate(doubles):
            self.deviations[place] += float((double - mean).square().sum())
        return mean.to(first.dtype)

    def distances(self) -> list[float]:
        """Return the distance of each model from the mean, in norms of the mean."""
        return [math.sqrt(square / (self.squares or 1.0)) for square in self.deviations]


def read_model(path: str) -> dict[str, Any]:
    """Return :func:`read_checkpoint`'s state; InputError if there is no model in it."""
    state = read_checkpoint(path)
    if not isinstance(state.get("model"), dict):
        raise InputError(f"{path}: not a fairseq checkpoint (no model in it)")
    return state


def check_names(paths: Sequence[str], names: Sequence[set[str]]) -> None:
    """Raise InputError unless all models have tensors of the same names."""
    for path, own in zip(paths, names, strict=True):
        if other := sorted(own ^ names[0]):
            raise InputError(
                f"{path}: {other[0]} is in it or in {paths[0]}, not in both; expected models of "
                "one architecture"
            )


def average_checkpoints(paths: Sequence[str], average: Averager, output: str) -> None:
    """Write the mean of fairseq checkpoints; the file appears only when it is whole."""
    allow_fairseq_checkpoints()
    states = [read_model(path) for path in paths]
    models = [state["model"] for state in states]
    check_names(paths, [set(model) for model in models])
    result, tied = states[0], dict[tuple[Any, ...], Tensor]()
    with Progress(len(models[0]), "tensor") as bar:
        for name in list(models[0]):
            # What embeddings share stays shared, in the file as well.
            tensors = [model[name] for model in models]
            key = tuple((one.data_ptr(), one.shape, one.stride()) for one in tensors)
            if key not in tied:
                tied[key] = average(name, tensors)
            result["model"][name] = tied[key]
            bar.update(1)
    result["last_optimizer_state"] = None
    with atomic_write(output, "wb") as stream:
        torch.save(result, stream)


def _tells_of_training(path: Path) -> bool:
    """Return whether a file is of the training of a model, and not of its mean with others."""
    return path.name in (RECORD, TRAINER_STATE) or path.suffix in (".bin", ".pt")


def card_of_mean(card: str, name: str, parts: Sequence[str]) -> str:
    """Return the model card of a mean: that of the first model, without its validation.

    Args:
        name: of the mean.
        parts: names of the models.
    """
    head, *sections = card.split("\n## ")
    title = re.sub("(?m)^# .*$", lambda _: f"# {name}", head, count=1)
    kept = [section.strip("\n") for section in sections if not section.startswith("Validation")]
    rows = f"{title.rstrip()}\n| weights | the mean of those of {', '.join(parts)} |"
    return "\n\n## ".join([rows, *kept]) + "\n"


def average_folders(paths: Sequence[str], average: Averager, output: str) -> None:
    """Write the mean of folders that save_pretrained wrote; the folder appears when it is whole."""
    folders = [Path(path) for path in paths]
    files = [sorted(file.name for file in folder.glob("*.safetensors")) for folder in folders]
    for folder, own in zip(folders, files, strict=True):
        if not own or not (folder / CONFIG).is_file():
            raise InputError(
                f"{folder}: got no {CONFIG} beside *.safetensors; expected a model as "
                "save_pretrained writes it (of adapters: merge_and_unload() first)"
            )
        if own != files[0]:
            raise InputError(
                f"{folder}: got {', '.join(own)}, but {folders[0]} has {', '.join(files[0])}; "
                "expected models saved in the same way"
            )
    with atomic_folder(output, CONFIG) as made:
        for path in folders[0].iterdir():
            if path.is_file() and path.name not in files[0] and not _tells_of_training(path):
                shutil.copy(path, made)
        card = made / CARD
        if card.is_file() and CARD_MARK in (text := card.read_text("utf-8", errors="replace")):
            names = [folder.absolute().name for folder in folders]
            card.write_text(card_of_mean(text, Path(output).absolute().name, names), "utf-8")
        for file in files[0]:
            opened = [safetensors.safe_open(folder / file, "pt") for folder in folders]
            check_names(paths, [set(one.keys()) for one in opened])
            with Progress(len(opened[0].keys()), "tensor", file) as bar:
                means = {}
                for name in opened[0].keys():
                    means[name] = average(name, [one.get_tensor(name) for one in opened])
                    bar.update(1)
            safetensors.torch.save_file(means, made / file, opened[0].metadata())

"""COMET, CometKiwi and PEAR on current transformers, from folders as Hugging Face's hub has them.

A folder has ``hparams.yaml`` and ``checkpoints/model.ckpt``. The packages lightyear (COMET, Rei et
al. 2020, 2022) and pear-mt (PEAR) compute the scores; unbabel-comet, which pins numpy 1 and
transformers 4, is not needed. A checkpoint that is more than tensors and numbers may run any code
when it is read: it is refused unless SIMILE_TRUST_PICKLE=1 says that its source is trusted.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from simile_plugin.files import InputError, read_lines

CHECKPOINT, SETTINGS, ENCODER = "checkpoints/model.ckpt", "hparams.yaml", "encoder"
TRUST = "SIMILE_TRUST_PICKLE"
BATCH = 32
# What lightyear takes for granted, by the keys of hparams.yaml.
TAKEN_FOR_GRANTED = {
    "class_identifier": {
        *("regression_metric", "unified_metric"),
        *("referenceless_regression_metric", "referenceless"),
    },
    "layer": {"mix"},
    "sent_layer": {"mix"},
    "pool": {"avg"},
    "layer_norm": {"false"},
    "activations": {"tanh"},
    "final_activation": {"null"},
}
NO_WEIGHTS = ("position_ids", "dropout_mask", "dropout_fill")  # constants, which are not saved

Triple = tuple[str, str, str]  # source, translation, reference


@dataclass(frozen=True)
class NeuralMetric:
    """A metric of sources, translations and references.

    Attributes:
        signature: package, version, and a digest of the checkpoint.
        predict: (srcs, hyps, refs) -> a score each, higher is better.
    """

    signature: str
    predict: Callable[[list[str], list[str], list[str]], list[float]]

    def scores(self, triples: Collection[Triple]) -> dict[Triple, float]:
        """Return the score of each distinct triple.

        Those alike in length share a batch, whose longest text sets its cost.
        """
        distinct = sorted({*triples}, key=lambda triple: (sum(map(len, triple)), triple))
        texts = [list(column) for column in zip(*distinct, strict=True)]
        return dict(zip(distinct, self.predict(*texts), strict=True)) if distinct else {}


def load_comet(folder: str | Path, flag: str) -> NeuralMetric:
    """Load COMET or CometKiwi by lightyear.

    Args:
        folder: of the hub; its encoder's tokenizer and weights are in ``encoder/`` within it, else
            they are those of the model that `hparams.yaml` names, in the hub's cache.
        flag: where it comes from, for messages.

    Raises:
        InputError: naming the package or file that is missing, a checkpoint that is not only
            tensors, or settings that lightyear does not compute.
    """
    try:
        from lightyear.metrics.comet import COMETScore
    except ImportError as error:
        raise InputError(f"{flag}: needs a package: pip install lightyear") from error
    path = _checkpoint(folder, flag)
    settings = _settings(folder, flag)
    keys = _weight_names(path, flag)
    inside = Path(folder) / ENCODER
    base = str(inside) if inside.is_dir() else settings.get("pretrained_model", "")
    try:
        model = COMETScore(
            model_name=Path(folder).name,
            pretrained=base,
            checkpoint_path=str(path),
            # of other names than sparsemax COMET makes a softmax, too
            layer_transformation=(
                "sparsemax" if settings.get("layer_transformation") == "sparsemax" else "softmax"
            ),
        )
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{flag}: {folder}: cannot be loaded with the encoder {base or '(none)'}: {reason}"
        ) from error
    _refuse_missing(model.model, keys, path, flag)

    def predict(srcs: list[str], hyps: list[str], refs: list[str]) -> list[float]:
        results = model.score_batch(hyps, refs, srcs, batch_size=BATCH, normalize=False)
        (scores,) = [part["score"] for part in results.values()]
        return [float(score) for score in scores]

    return NeuralMetric(_signature("lightyear", path), predict)


def load_pear(folder: str | Path, flag: str) -> NeuralMetric:
    """Load PEAR by pear-mt; a score is positive where a translation is better than its reference.

    Args:
        folder: of the hub; the checkpoint names the encoder.
        flag: where it comes from, for messages.

    Raises:
        InputError: naming the package or file that is missing, or a checkpoint that is not only
            tensors.
    """
    try:
        import pear
    except ImportError as error:
        raise InputError(f"{flag}: needs a package: pip install pear-mt") from error
    path = _checkpoint(folder, flag)
    keys = _weight_names(path, flag)
    try:
        model = pear.load_from_checkpoint(path, trusted_checkpoint=_is_trusted())
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{flag}: {folder}: cannot be loaded: {reason}") from error
    _refuse_missing(model, keys, path, flag)

    def predict(srcs: list[str], hyps: list[str], refs: list[str]) -> list[float]:
        scores = pear.score_reference_anchored(
            model, srcs, hyps, refs, batch_size=BATCH, progress_bar=False
        )
        return [float(score) for score in scores]

    return NeuralMetric(_signature("pear-mt", path), predict)


def _is_trusted() -> bool:
    return os.environ.get(TRUST) == "1"


def _checkpoint(folder: str | Path, flag: str) -> Path:
    path = Path(folder) / CHECKPOINT
    if not path.is_file():
        raise InputError(
            f"{flag}: {folder}: no {CHECKPOINT}; expected a folder as huggingface-cli download "
            "--local-dir makes it"
        )
    return path


def _settings(folder: str | Path, flag: str) -> dict[str, str]:
    """Return the flat part of hparams.yaml; InputError for what lightyear would compute wrongly."""
    path = Path(folder) / SETTINGS
    lines = read_lines(path, flag)
    pairs = [line.split(": ", 1) for line in lines if ": " in line and not line.startswith(" ")]
    settings = {key: value.strip().strip("'\"") for key, value in pairs}
    for key, known in TAKEN_FOR_GRANTED.items():
        if key in settings and settings[key].lower() not in known:
            raise InputError(
                f"{flag}: {path}: {key} is {settings[key]}, but lightyear computes "
                f"{' or '.join(sorted(known))} alone; score with unbabel-comet and give "
                "--sentence-scores"
            )
    if "- ref" in map(str.strip, lines):  # UniTE: its score also reads the reference
        raise InputError(f"{flag}: {path}: input_segments has ref, which lightyear leaves out")
    return settings


def _weight_names(path: Path, flag: str) -> Collection[str]:
    """Return the names of a checkpoint's weights; InputError for a file that could run code."""
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=not _is_trusted())
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{flag}: {path}: is not only tensors and numbers, and reading it may run any code; if "
            f"you trust where it comes from, set {TRUST}=1"
        ) from error
    except (RuntimeError, EOFError, OSError) as error:
        raise InputError(f"{flag}: {path}: cannot be read ({error}); copy it again") from error
    names: Collection[str] = content.get("state_dict", content).keys()
    return names


def _refuse_missing(model: torch.nn.Module, keys: Collection[str], path: Path, flag: str) -> None:
    """Raise InputError where weights would keep their random values: both packages say nothing."""
    wanted = [name for name in model.state_dict() if not name.endswith(NO_WEIGHTS)]
    missing = sorted({*wanted} - {*keys})
    if missing:
        raise InputError(
            f"{flag}: {path}: lacks {len(missing)} of {len(wanted)} weights ({missing[0]}); is it "
            "a checkpoint of this metric?"
        )


def _signature(package: str, path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    return f"{package} {version(package)}, checkpoint {digest}"


LOADERS: dict[str, Callable[[str, str], NeuralMetric]] = {"comet": load_comet, "pear": load_pear}


def load_neural_metric(spec: str, flag: str) -> NeuralMetric | None:
    """Load ``comet:FOLDER`` or ``pear:FOLDER``; None for what is neither."""
    kind, colon, folder = spec.partition(":")
    return LOADERS[kind](folder, flag) if colon and kind in LOADERS else None


def sentence_scores(
    metric: NeuralMetric, outputs: Sequence[Sequence[str]], refs: Sequence[str], srcs: Sequence[str]
) -> list[list[float]]:
    """Return the scores of outputs, sentence by sentence; equal ones are scored once."""
    rows = [[*zip(srcs, output, refs, strict=True)] for output in outputs]
    scores = metric.scores([triple for row in rows for triple in row])
    return [[scores[triple] for triple in row] for row in rows]

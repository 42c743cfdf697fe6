"""The encoder folder: ``config.json``, ``encoder.safetensors``, ``sentencepiece.model``."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from simile_plugin.encoder.models import KIND, Encoder
from simile_plugin.files import atomic_folder
from simile_plugin.text import Preprocessing, Segmenter

FORMAT_VERSION = 1
CONFIG = "config.json"
WEIGHTS = "encoder.safetensors"
SENTENCEPIECE = "sentencepiece.model"
TENSOR = "embeddings"


def save_encoder(
    folder: str | Path, encoder: Encoder, extra_files: dict[str, bytes] | None = None
) -> None:
    """Write an encoder folder; the old folder stays whole until the new one is complete.

    Args:
        folder: target; replaced if it exists.
        encoder: weights, sentencepiece model, preprocessing and training facts.
        extra_files: name -> bytes, written beside the three parts (a training log, say).
    """
    config = {"format_version": FORMAT_VERSION, **encoder.config}
    weight = encoder.weight.detach().cpu().contiguous()
    with atomic_folder(folder) as temporary:
        target = Path(temporary)
        (target / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")
        (target / WEIGHTS).write_bytes(save({TENSOR: weight}))
        (target / SENTENCEPIECE).write_bytes(encoder.segmenter.model_proto)
        for name, content in (extra_files or {}).items():
            (target / name).write_bytes(content)


def load_encoder(folder: str | Path, device: torch.device | str = "cpu") -> Encoder:
    """Read an encoder folder and check its parts against each other.

    Raises:
        ValueError: naming folder and file, if a part is missing, unreadable, of a newer format,
            or does not belong to the others.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(
            f"{root}: no such encoder folder; make one with `simile train-encoder`, "
            "or give the folder that holds config.json"
        )
    for name in (CONFIG, WEIGHTS, SENTENCEPIECE):
        if not (root / name).is_file():
            raise ValueError(f"{root}: {name} is missing from the encoder folder")
    config = _read_config(root / CONFIG)
    preprocessing = _read_preprocessing(root / CONFIG, config["preprocessing"])
    try:
        segmenter = Segmenter((root / SENTENCEPIECE).read_bytes(), preprocessing)
    except ValueError as error:
        raise ValueError(f"{root / SENTENCEPIECE}: {error}") from error
    if len(segmenter) != config["vocab_size"]:
        raise ValueError(
            f"{root / SENTENCEPIECE}: has {len(segmenter)} pieces, but {CONFIG} says "
            f"vocab_size {config['vocab_size']}; the parts are of different encoders"
        )
    weight = _read_weight(root / WEIGHTS, (config["vocab_size"], config["dim"]))
    try:
        encoder = Encoder(weight, segmenter, config.get("training"))
    except ValueError as error:
        raise ValueError(f"{root / WEIGHTS}: {error}") from error
    if encoder.fingerprint != config["fingerprint"]:
        raise ValueError(
            f"{root / CONFIG}: fingerprint is {config['fingerprint']}, but the parts give "
            f"{encoder.fingerprint}; a part was changed or is of another encoder"
        )
    return encoder.to(device)


def _read_config(path: Path) -> dict[str, Any]:
    """``config.json`` with every key that is needed, of the right type."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(config, dict) or not isinstance(config.get("format_version"), int):
        raise ValueError(f"{path}: no format_version; this is no encoder's config.json")
    if config["format_version"] > FORMAT_VERSION:
        raise ValueError(
            f"{path}: format_version {config['format_version']} is newer than "
            f"{FORMAT_VERSION}, the newest this version reads; update simile-plugin"
        )
    expected = {
        "kind": str,
        "dim": int,
        "vocab_size": int,
        "preprocessing": dict,
        "fingerprint": str,
    }
    for key, kind in expected.items():
        if not isinstance(config.get(key), kind):
            raise ValueError(f"{path}: {key}: got {config.get(key)!r}, expected {kind.__name__}")
    if not isinstance(config.get("training", {}), dict):
        raise ValueError(f"{path}: training: got {config['training']!r}, expected dict")
    if config["kind"] != KIND:
        raise ValueError(f"{path}: kind: got {config['kind']!r}, expected {KIND!r}")
    return config


def _read_preprocessing(path: Path, found: dict[str, Any]) -> Preprocessing:
    """The preprocessing of a config; every key must be there, none may be unknown."""
    names = {field.name for field in fields(Preprocessing)}
    if set(found) != names or not all(isinstance(value, bool) for value in found.values()):
        raise ValueError(
            f"{path}: preprocessing: got {found!r}, expected true or false for "
            + ", ".join(sorted(names))
        )
    return Preprocessing(**found)


def _read_weight(path: Path, shape: tuple[int, int]) -> torch.Tensor:
    """The embedding table, checked against the config's shape."""
    try:
        tensors = load(path.read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{path}: truncated or not a safetensors file ({error})") from error
    if TENSOR not in tensors:
        raise ValueError(f"{path}: no tensor named {TENSOR!r}, found {sorted(tensors)}")
    if tuple(tensors[TENSOR].shape) != shape:
        raise ValueError(
            f"{path}: {TENSOR} is {tuple(tensors[TENSOR].shape)}, but {CONFIG} says "
            f"{shape} (vocab_size, dim); the parts are of different encoders"
        )
    return tensors[TENSOR]

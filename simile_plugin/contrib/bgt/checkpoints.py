"""A trained BGT out of fairseq's checkpoint, and its semantic network as an encoder."""

from __future__ import annotations

import os
from copy import deepcopy
from importlib import import_module
from typing import Any

from simile_plugin.encoder import Encoder, Preprocessing, Segmenter
from simile_plugin.files import InputError

MADE_UP = "madeupword"  # fairseq fills dictionaries up to a multiple of 8


def read_bgt(path: str, data: str) -> Any:
    """The model in a checkpoint, for reading and writing sentences.

    Args:
        path: checkpoint of ``fairseq-train --task bgt``.
        data: the folder of fairseq-preprocess that it was trained on, for the dictionary.

    Raises:
        InputError: if it cannot be read, or is of another kind.
    """
    from simile_plugin import fairseq_hooks

    for flag, name, kind in (("CHECKPOINT", path, "file"), ("--data", data, "folder")):
        if not (os.path.isfile(name) if kind == "file" else os.path.isdir(name)):
            raise InputError(f"{flag}: no such {kind}: {name}")
    fairseq_hooks.install()
    from fairseq import checkpoint_utils

    import_module("simile_plugin.contrib.bgt.registration")
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    arch = getattr((state.get("cfg") or {}).get("model"), "_name", None)
    if arch != "bgt":
        raise InputError(f"{path}: holds a model of --arch {arch}, expected bgt")
    try:
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([path], {"data": data})
    except RuntimeError as error:
        if "size mismatch for embed.weight" not in str(error):
            raise
        raise InputError(
            f"--data: the dictionary in {data} has not the size of that of {path}; give the folder "
            "of fairseq-preprocess that it was trained on"
        ) from error
    return model.eval()


def check_pieces(dictionary: Any, segmenter: Segmenter) -> None:
    """Refuse pieces that are not those of the dictionary.

    Raises:
        InputError: for an entry of the dictionary that is no piece.
    """
    names = dictionary.symbols[dictionary.nspecial :]
    known = set(segmenter.model.pieces)
    strange = {name for name in names if not name.startswith(MADE_UP)} - known
    if strange:
        raise InputError(
            f"--sentencepiece: lacks {len(strange)} of the dictionary's {len(names)} entries "
            f"({min(strange)!r}, ...); give the model that segmented the training text"
        )


def export_encoder(
    model: Any, sentencepiece: bytes, facts: dict[str, Any] | None = None
) -> Encoder:
    """g(s) = the mean of q(z_sem | s), as an encoder of kind "transformer".

    Pieces that the dictionary lacks have the embedding that the model reads them with, that of the
    unknown word. The unknown piece itself is left out, as by every encoder.

    Args:
        model: of read_bgt.
        sentencepiece: the model that segmented its training text, after our default preprocessing.
        facts: saved beside the weights.

    Raises:
        InputError: if the pieces are not those of the dictionary.
    """
    segmenter = Segmenter(sentencepiece, Preprocessing())
    dictionary, pieces = model.dictionary, segmenter.model.pieces
    check_pieces(dictionary, segmenter)
    weight = model.embed.weight.detach()[[dictionary.index(piece) for piece in pieces]].float()
    composer = deepcopy(model.semantic.composer).float().eval()
    facts = {"from": "bgt", "ablation": model.cfg.bgt_ablation, **(facts or {})}
    return Encoder(weight, segmenter, facts, composer)

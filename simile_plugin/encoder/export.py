"""An encoder as other libraries load it: sentence-transformers (StaticEmbedding) and model2vec.

Both read a `tokenizer.json` of the library tokenizers beside the embeddings. It spells out what our
preprocessing and the sentencepiece model do, as far as that library can say it. Cosines are ours
within float rounding, but for

- a sentence of unknown words only: ours is the zero vector, theirs the bare word mark's;
- two segmentations of a word that tie to the last places of a float32, which sentencepiece adds up
  from the beginning of the sentence and tokenizers word by word;
- Greek capital sigma before a mark that is no letter, and characters newer than the Unicode tables
  of either side.

The length penalty of SIMILE needs `simile score`: the other libraries know cosines only.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save
from torch import Tensor

from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.piece_model import (
    BYTE,
    CONTROL,
    SPACE_MARK,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
)
from simile_plugin.encoder.segmenter import INVISIBLE, Preprocessing, Segmenter
from simile_plugin.files import InputError, atomic_folder

SENTENCE_TRANSFORMERS, MODEL2VEC = "sentence-transformers", "model2vec"
TOKENIZER, WEIGHTS, MODULES = "tokenizer.json", "model.safetensors", "modules.json"
STATIC_EMBEDDING = {
    "idx": 0,
    "name": "0",
    "path": "",
    "type": "sentence_transformers.models.StaticEmbedding",
}


def export_encoder(encoder: Encoder, folder: str | Path, to: str) -> None:
    """Write a model folder of another library; the old folder stays until it is complete.

    Args:
        folder: replaced if it exists and holds such a model.
        to: SENTENCE_TRANSFORMERS or MODEL2VEC.

    Raises:
        InputError: for an encoder whose segmentation the tokenizer cannot express.
    """
    segmenter = encoder.segmenter
    if encoder.kind != "sp" or not isinstance(segmenter, Segmenter):
        raise InputError(
            f"is of kind {encoder.kind}; only averages of sentencepiece pieces (kind sp) can be "
            "exported"
        )
    tokenizer = tokenizer_json(segmenter)
    weight = exported_weight(encoder)
    files: dict[str, Any] = {TOKENIZER: tokenizer, MODULES: [STATIC_EMBEDDING]}
    if to == SENTENCE_TRANSFORMERS:
        tensors = {"embedding.weight": weight}
        files["config_sentence_transformers.json"] = {
            "__version__": {},
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        }
    else:
        tensors = {"embeddings": weight}
        files["config.json"] = {
            "model_type": "model2vec",
            "normalize": False,
            "max_length": None,  # ours does not cut sentences either
            "hidden_dim": encoder.dim,
            "embedding_dtype": "float32",
        }
    with atomic_folder(folder, marker=MODULES) as target:
        for name, content in files.items():
            text = json.dumps(content, indent=None if name == TOKENIZER else 2, ensure_ascii=False)
            (target / name).write_text(text + "\n", encoding="utf-8")
        (target / WEIGHTS).write_bytes(save(tensors))


def exported_weight(encoder: Encoder) -> Tensor:
    """The embeddings with zeros for the unknown piece, which the others count in the mean."""
    weight = encoder.weight.detach().cpu().clone()
    weight[~encoder.segmenter.known(np.arange(len(weight)))] = 0
    return weight.contiguous()


def tokenizer_json(segmenter: Segmenter) -> dict[str, Any]:
    """The segmenter as the contents of a `tokenizer.json`, in the order of our ids.

    Raises:
        InputError: for BPE and other kinds of models than unigram, for user-defined symbols, byte
            fallback, and models whose pieces or rules reach over spaces.
    """
    model = segmenter.model
    odd = {USER_DEFINED: "user-defined symbols", BYTE: "byte fallback"}
    unlike = [name for kind, name in odd.items() if kind in model.types]
    if model.model_type != UNIGRAM:
        unlike.append("another model than unigram")
    if not model.segments_words_apart:
        unlike.append("pieces or rules that reach over spaces, or no mark before each word")
    if unlike:
        raise InputError(
            f"the sentencepiece model has {' and '.join(unlike)}; only plain unigram models, as "
            "simile train-encoder makes them, can be exported"
        )
    # Text cannot hold two marks in a row, so that these never match it.
    silent = (UNKNOWN, CONTROL, UNUSED)
    pieces = [
        2 * SPACE_MARK + piece if kind in silent else piece
        for piece, kind in zip(model.pieces, model.types, strict=True)
    ]
    mark = {"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": "always"}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {
            "type": "Sequence",
            "normalizers": _normalizers(segmenter.preprocessing, model.charsmap),
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                *_punctuation(segmenter.preprocessing),
                {**mark, "split": False},
            ],
        },
        "post_processor": None,
        "decoder": {**mark, "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": segmenter.unk_id,
            "vocab": [list(row) for row in zip(pieces, model.scores, strict=True)],
            "byte_fallback": False,
        },
    }


def _normalizers(preprocessing: Preprocessing, charsmap: bytes) -> list[dict[str, Any]]:
    """`Preprocessing.apply` up to the split of punctuation, then sentencepiece's own rules."""

    def replace(pattern: str, content: str) -> dict[str, Any]:
        return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}

    steps: list[dict[str, Any]] = []
    if preprocessing.drop_invisible:
        for content in ("", " "):
            codes = [
                f"\\x{{{code:04x}}}" for code, to in INVISIBLE.items() if (to or "") == content
            ]
            steps.append(replace(f"[{''.join(codes)}]", content))
    if preprocessing.nfkc:
        steps.append({"type": "NFKC"})
    if preprocessing.lowercase:
        # Python knows that a sigma at the end of a word is another letter.
        steps += [replace(r"(?<=\p{L})\u03a3(?![\p{L}\p{M}])", "\u03c2"), {"type": "Lowercase"}]
    if preprocessing.split_punctuation:
        steps.append(replace(r"[\p{Cc}\p{Zl}\p{Zp}\u2581]", " "))
    else:
        # The last four separate words in Python only.
        steps.append(replace(r"[\u2581\x00\x1c-\x1f]", " "))
    if charsmap:
        encoded = base64.b64encode(charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": encoded})
    return steps


def _punctuation(preprocessing: Preprocessing) -> list[dict[str, Any]]:
    if not preprocessing.split_punctuation:
        return []
    pattern = {"Regex": r"[\p{P}\p{S}]"}
    return [{"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}]

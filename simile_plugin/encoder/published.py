"""Encoders that were published with the papers: a pickled `.pt` beside a sentencepiece model.

Two layouts, both a dict that torch.save wrote:

- beyond-bleu's `sim.pt` (Wieting et al. 2019): state_dict, vocab_words, args;
- the trainers' (Simple and Effective Paraphrastic Similarity, 2019; Paraphrastic Representations
  at Scale, 2021): state_dict, vocab, vocab_fr, args, optimizer, epoch.

The vocabulary maps the text of a piece to a row of the embeddings; rows are not sentencepiece's
ids. The file is read without running what it says: tensors, plain containers and the attributes
of an argparse.Namespace, nothing else.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.piece_model import CONTROL, UNKNOWN
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.files import InputError

UNKNOWN_WORD = "UUUNKKK"  # the published vocabularies' unknown entry
EMBEDDING = "embedding.weight"
FEW = 0.5  # share of the vocabulary that must be pieces of the sentencepiece model


@dataclass(frozen=True)
class Published:
    """A published encoder.

    Attributes:
        weight: (words, D) float32.
        vocabulary: piece as text -> row.
        drops_unknown: pieces outside the vocabulary are left out (else: the row UNKNOWN_WORD).
        lowercase, tokenize: what happens to text first; tokenize means Moses or Treebank.
    """

    weight: Tensor
    vocabulary: dict[str, int]
    drops_unknown: bool
    lowercase: bool
    tokenize: bool


def read_published(path: str | Path) -> Published:
    """Read a published `.pt` file, of the flag --from.

    Raises:
        InputError: for a file that is damaged, holds anything but tensors, containers and a
            Namespace, is of another layout, or of a model that is no average of piece embeddings.
    """
    where = f"--from: {path}"
    content = _load(Path(path), where)
    if not isinstance(content, dict) or "state_dict" not in content:
        kind = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise InputError(
            f"{where}: got {kind}, expected a dict with state_dict, a vocabulary, args"
        )
    key = "vocab_words" if "vocab_words" in content else "vocab"
    settings = _settings(content.get("args"), where)
    weight = _weight(content["state_dict"], where)
    return Published(
        weight=weight,
        vocabulary=_vocabulary(content.get(key), len(weight), f"{where}: {key}"),
        drops_unknown=key == "vocab_words" or bool(settings.get("zero_unk", 1)),
        lowercase=bool(settings.get("lower_case", 1)),
        tokenize=bool(settings.get("tokenize", 1)),
    )


def _load(path: Path, where: str) -> Any:
    if not path.is_file():
        raise InputError(f"{where}: no such file")
    try:
        # Namespace only holds attributes: neither making nor filling one runs anything.
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, on pickles that are refused anyway
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch's own advice would be to switch the protection off.
        named = [f" ({line.strip()[:160]})" for line in str(error).splitlines() if "GLOBAL" in line]
        raise InputError(
            f"{where}: not read: it is damaged, or holds more than tensors, plain containers and "
            f"a Namespace, which could run anything{''.join(named[:1])}"
        ) from error
    except Exception as error:  # what torch raises depends on the byte where the damage is
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"{where}: damaged, or not written by torch.save ({reason[0][:200]})"
        ) from error


def _settings(args: Any, where: str) -> dict[str, Any]:
    """Return the training flags, if they are of an average of piece embeddings."""
    if not isinstance(args, argparse.Namespace):
        raise InputError(f"{where}: args: got {type(args).__name__}, expected a Namespace")
    settings = vars(args)
    kind, pool, ngrams = (str(settings.get(name, "")) for name in ("model", "pool", "ngrams"))
    if "lstm" in kind.lower() or pool == "max" or ngrams not in ("", "0", "None", "False"):
        raise InputError(
            f"{where}: args: got model {kind!r}, pool {pool!r}, ngrams {ngrams!r}; only a mean of "
            "sentencepiece embeddings can be converted (model avg, pool mean, ngrams 0)"
        )
    return settings


def _weight(state: Any, where: str) -> Tensor:
    weight = state.get(EMBEDDING) if isinstance(state, dict) else None
    if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
        raise InputError(f"{where}: state_dict has no table of embeddings {EMBEDDING}")
    weight = weight.detach().float().contiguous()
    if not weight.shape[1] or not bool(torch.isfinite(weight).all()):
        fault = "NaN or infinite values" if weight.shape[1] else "no dimensions"
        raise InputError(f"{where}: the embeddings {EMBEDDING} have {fault}; get the file again")
    return weight


def _vocabulary(words: Any, rows: int, where: str) -> dict[str, int]:
    if not isinstance(words, dict) or not words:
        raise InputError(f"{where}: got {type(words).__name__}, expected a dict of words")
    vocabulary = {}
    for word, row in words.items():
        if isinstance(word, bytes):
            word = word.decode("utf-8", "replace")
        if not isinstance(word, str) or not isinstance(row, int) or not 0 <= row < rows:
            raise InputError(
                f"{where}: got {word!r}: {row!r}, expected a word and a row below {rows}"
            )
        vocabulary[word] = row
    return vocabulary


def convert_published(
    path: str | Path, sentencepiece_model: bytes, split_punctuation: bool | None = None
) -> tuple[Encoder, dict[str, int]]:
    """Make an encoder of ours: the rows put in the order of sentencepiece's ids.

    A piece outside the vocabulary gets the zero row where the original drops it (which leaves the
    direction of the mean, and so SIM, as it is), and the row UNKNOWN_WORD where that is used.

    Args:
        sentencepiece_model: bytes of the model that was published with it.
        split_punctuation: of our preprocessing; None: as `published.tokenize`.

    Returns:
        The encoder, and counts: pieces, with_embedding (pieces in the vocabulary), words_left_out
        (entries of the vocabulary that are no piece of the model).
    """
    published = read_published(path)
    preprocessing = Preprocessing(
        lowercase=published.lowercase,
        nfkc=False,  # sentencepiece normalises by the rules in its model
        split_punctuation=published.tokenize if split_punctuation is None else split_punctuation,
    )
    segmenter = Segmenter(sentencepiece_model, preprocessing)
    words = published.vocabulary
    outside = torch.zeros(published.weight.shape[1])
    if not published.drops_unknown and UNKNOWN_WORD in words:
        outside = published.weight[words[UNKNOWN_WORD]]
    weight = torch.zeros(len(segmenter), published.weight.shape[1])
    used = 0
    for number, piece in enumerate(segmenter.model.pieces):
        if segmenter.model.types[number] in (UNKNOWN, CONTROL):
            continue
        row = words.get(piece)
        used += row is not None
        weight[number] = outside if row is None else published.weight[row]
    entries = len(words) - (UNKNOWN_WORD in words)
    if used < FEW * entries:
        raise InputError(
            f"only {used} of the {entries} words of the vocabulary are pieces of "
            "this model; give the sentencepiece model that was published with the encoder"
        )
    counts = {"pieces": len(segmenter), "with_embedding": used, "words_left_out": entries - used}
    return Encoder(weight, segmenter, {"converted": counts}), counts

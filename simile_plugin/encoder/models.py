"""The reward encoder: from the tokens of a sentence and their embeddings to its vector."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.encoder.averages import Composer, make_composer
from simile_plugin.encoder.devices import to_device
from simile_plugin.encoder.segmenter import Tokenizer
from simile_plugin.encoder.source_side import SourceSide, learn_source_side
from simile_plugin.encoder.tokens import types_of
from simile_plugin.encoder.word_cache import Ints, flat_rows
from simile_plugin.files import InputError

EMBEDDINGS, COMPOSER = "embeddings", "composer."  # names of tensors


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Return SIM = cos(g(r), g(h)), and 0 where either vector is zero.

    Args:
        left, right: (..., D) sentence vectors; shapes broadcast.

    Returns:
        (...) in [-1, 1].
    """
    dot = (left * right).sum(-1)
    norms = left.norm(dim=-1) * right.norm(dim=-1)
    # torch's cosine_similarity clamps each norm, which bends the value of tiny vectors.
    return torch.where(norms > 0, dot / norms.clamp(min=1e-30), torch.zeros_like(dot)).clamp(-1, 1)


def usable_device(name: str | None) -> torch.device:
    """Return the torch device of a --device flag; None: the CPU.

    Raises:
        InputError: if torch does not know it or cannot use it here.
    """
    try:
        device = torch.device("cpu" if name is None else name)
        torch.zeros(1, device=device).cpu()  # "meta" makes a tensor, and cannot read it
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"--device: got {name!r}, which cannot be used here ({reason}); use cpu"
        ) from error
    return device


@dataclass(frozen=True)
class Embedded:
    """Vectors, lengths and numbers of tokens of U sentences."""

    vectors: Tensor  # (U, D) float32
    lengths: Tensor  # (U,) int64, in the length penalty; unknown tokens are counted
    tokens: Tensor  # (U,) int64 on the CPU, of a mixture those of its first part
    unknown: Tensor  # (U,) int64 on the CPU, number of unknown tokens


class RewardEncoder(torch.nn.Module):
    """Interface of an encoder as reward: sentences -> vectors and lengths."""

    kind: str  # in the signature of scores
    unit: str  # that the length penalty counts
    text: str  # preprocessing, in the signature
    training_facts: dict[str, Any]  # saved beside the weights
    source: SourceSide | None  # the other language of an encoder of two

    def __init__(self) -> None:
        super().__init__()
        self.source = None  # here, for a module's attributes hide behind those of its class

    @property
    def dim(self) -> int:
        """The length D of a sentence vector."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """A digest of 12 hex digits over all that decides the vectors."""
        raise NotImplementedError

    @property
    def config(self) -> dict[str, Any]:
        """Facts as in `config.json` of an encoder folder."""
        raise NotImplementedError

    def embed_counted(self, sentences: Sequence[str]) -> Embedded:
        """Return sentence vectors, lengths and numbers of tokens, without gradient."""
        raise NotImplementedError

    def surprise(self, sentences: Sequence[str]) -> float | None:
        """Return the distance of sentences from its language; see `Segmenter.surprise`."""
        return None

    def embed_text(self, sentences: Sequence[str]) -> Tensor:
        """Return vectors (U, D) float32 of plain sentences, without gradient."""
        return self.embed_counted(sentences).vectors

    def embed_sources(self, sentences: Sequence[str]) -> Tensor:
        """Return vectors (U, D) of sources: by the source side of an encoder of two languages."""
        return (self if self.source is None else self.source.encoder).embed_text(sentences)


class Encoder(RewardEncoder):
    """g(s) = composer(embeddings of the known tokens of s).

    By default the mean of the embeddings of pieces (Wieting et al. 2019, section 3). Unknown
    tokens are left out, and a sentence without a known token is the zero vector, whose cosine with
    anything is 0.

    Args:
        weight: (V, E) float32, one row per token.
        segmenter: sentence -> tokens; V is its size.
        training: facts about the training, saved beside the weights.
        composer: embeddings -> vector. Default: their mean.

    Raises:
        InputError: if weight is not (len(segmenter), E) float32, or a parameter is not finite.
    """

    def __init__(
        self,
        weight: Tensor,
        segmenter: Tokenizer,
        training: dict[str, Any] | None = None,
        composer: Composer | None = None,
    ) -> None:
        super().__init__()
        if weight.dim() != 2 or weight.dtype != torch.float32 or weight.shape[1] < 1:
            raise InputError(
                f"embeddings: got {tuple(weight.shape)} {weight.dtype}, "
                "expected (pieces, dimensions) float32"
            )
        if weight.shape[0] != len(segmenter):
            model = "sentencepiece model" if segmenter.name == "sp" else "vocabulary"
            raise InputError(
                f"embeddings have {weight.shape[0]} rows, "
                f"but the {model} has {len(segmenter)} {types_of(segmenter.name)}"
            )
        self.weight = torch.nn.Parameter(weight)
        self.segmenter = segmenter
        kind, dim = segmenter.name, int(weight.shape[1])
        self.composer = make_composer(kind, dim) if composer is None else composer
        self.kind = self.composer.kind
        self.unit = segmenter.unit
        self.text = segmenter.preprocessing.signature
        self.training_facts = dict(training or {})
        for name, parameter in self.tensors().items():
            if not bool(torch.isfinite(parameter).all()):
                raise InputError(f"{name} hold NaN or infinite values")

    @classmethod
    def of_tensors(
        cls,
        tensors: Mapping[str, Tensor],
        segmenter: Tokenizer,
        kind: str,
        settings: dict[str, Any] | None = None,
        training: dict[str, Any] | None = None,
    ) -> Encoder:
        """Make an encoder from the tensors that `Encoder.tensors` returns.

        Args:
            settings: of make_composer.

        Raises:
            InputError: naming a tensor that is missing, too many, or of another shape.
        """
        if EMBEDDINGS not in tensors:
            raise InputError(f"no tensor named {EMBEDDINGS!r}, found {sorted(tensors)}")
        weight = tensors[EMBEDDINGS]
        composer = make_composer(kind, int(weight.shape[-1]), settings, segmenter.sizes)
        expected = {COMPOSER + name: part for name, part in composer.state_dict().items()}
        shapes = {name: tuple(part.shape) for name, part in expected.items()}
        given = {name: tuple(part.shape) for name, part in tensors.items() if name != EMBEDDINGS}
        if given != shapes:
            raise InputError(f"tensors of the {kind} layer: got {given}, expected {shapes}")
        composer.load_state_dict({name: tensors[COMPOSER + name] for name in composer.state_dict()})
        return cls(weight, segmenter, training, composer)

    def learn_source(self, source: Encoder, targets: Sequence[str], sources: Sequence[str]) -> None:
        """Take an encoder of another language for sources; learn usual lengths from bitext.

        Args:
            source: its vectors live in the space of this encoder.
            targets, sources: sentences, line by line.
        """
        self.source = learn_source_side(self.segmenter, source, targets, sources)

    def tensors(self) -> dict[str, Tensor]:
        """Return all parameters by the names that files have, detached: the embeddings first."""
        parts = {COMPOSER + name: part for name, part in self.composer.state_dict().items()}
        return {EMBEDDINGS: self.weight.detach(), **parts}

    @property
    def dim(self) -> int:
        """The length D of a sentence vector."""
        return self.composer.dim

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Return sentence vectors (U, D) of the bags ``ids[offsets[u]:offsets[u + 1]]``.

        Unknown tokens are removed on the CPU: a GPU would synchronise to tell how many are left.
        """
        ids, offsets = ids.cpu(), offsets.cpu()
        known = torch.from_numpy(self.segmenter.known(ids.numpy()))
        before = F.pad(known.cumsum(0), (1, 0))
        device = self.weight.device
        starts, kept = to_device(before[offsets], device), to_device(ids[known], device)
        vectors: Tensor = self.composer(self.weight, kept, starts)
        return vectors

    @torch.no_grad()
    def embed(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        """Return sentence vectors (U, D) float32 of rows of token ids, without gradient."""
        ids, lengths = flat_rows(pieces)
        return self._embed_flat(ids, np.cumsum(lengths) - lengths)

    @torch.no_grad()
    def embed_text(self, sentences: Sequence[str]) -> Tensor:
        """Return vectors (U, D) float32 of plain sentences, without gradient."""
        return self._embed_flat(*self.segmenter.encode_flat(sentences))

    def surprise(self, sentences: Sequence[str]) -> float | None:
        """Return the distance of sentences from the tokeniser's language."""
        return self.segmenter.surprise(sentences)

    @torch.no_grad()
    def embed_counted(self, sentences: Sequence[str]) -> Embedded:
        """Return sentence vectors, lengths and numbers of tokens, without gradient."""
        ids, offsets = self.segmenter.encode_flat(sentences)
        tokens, unknown = self.segmenter.counts(ids, offsets)
        vectors = self._embed_flat(ids, offsets)
        lengths = to_device(self.segmenter.lengths(ids, offsets), vectors.device)
        return Embedded(vectors, lengths, torch.from_numpy(tokens), torch.from_numpy(unknown))

    def _embed_flat(self, ids: Ints, offsets: Ints) -> Tensor:
        if not len(offsets):
            return torch.zeros(0, self.dim, device=self.weight.device)
        vectors: Tensor = self(torch.from_numpy(ids), torch.from_numpy(offsets))
        return vectors

    @property
    def fingerprint(self) -> str:
        """The sha256 over parameters, tokeniser, preprocessing, kind, sources: 12 hex digits."""
        digest = hashlib.sha256()
        identity: dict[str, Any] = {
            "kind": self.kind,
            "preprocessing": self.segmenter.preprocessing.facts,
        }
        if self.kind != "sp":  # fingerprints of sp are older than the other kinds
            identity |= {"tokens": self.segmenter.name, "composer": self.composer.settings}
        digest.update(json.dumps(identity, sort_keys=True).encode())
        for content in self.segmenter.files.values():
            digest.update(content)
        for tensor in self.tensors().values():
            values = tensor.cpu().contiguous().numpy()
            digest.update(values.astype("<f4", copy=False).tobytes())
        if self.source is not None:
            digest.update(json.dumps(self.source.facts, sort_keys=True).encode())
            for tensor in self.source.tensors().values():
                digest.update(tensor.cpu().numpy().astype("<f4", copy=False).tobytes())
        return digest.hexdigest()[:12]

    @property
    def config(self) -> dict[str, Any]:
        """The facts in `config.json` of its folder."""
        more = {
            "tokens": self.segmenter.name,
            "embedding_dim": int(self.weight.shape[1]),
            "composer": self.composer.settings,
        }
        return {
            "kind": self.kind,
            "dim": self.dim,
            "vocab_size": len(self.segmenter),
            **(more if self.kind != "sp" else {}),
            "preprocessing": self.segmenter.preprocessing.facts,
            "fingerprint": self.fingerprint,
            **({} if self.source is None else {"source": self.source.facts}),
            "training": self.training_facts,
        }

"""A sentence-transformers model in a local folder as reward encoder.

The library is optional, and nothing is fetched: all files must be in the folder. Models that bring
Python code, or weights in a format that runs code when it is read, are refused.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from simile_plugin.encoder.models import Embedded, RewardEncoder
from simile_plugin.encoder.torchaudio import hide_broken_torchaudio
from simile_plugin.files import InputError

MODULES = "modules.json"
KIND = "sentence-transformers"
LIBRARY = "sentence_transformers"
BATCH = 128
UNSAFE = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".py")
NOT_THE_MODEL = (".md", ".txt.gz", ".png")  # files that change no vector


def is_sentence_transformer(folder: Path) -> bool:
    """Return True for the folder of a sentence-transformers model."""
    return (folder / MODULES).is_file()


class SentenceTransformerEncoder(RewardEncoder):
    """g(s) = the output of the model's encode in float32, with the model's preprocessing.

    The length of a sentence is its number of tokens before the model's limit cuts it, without the
    special ones; a sentence without a token is the zero vector.

    Raises:
        InputError: if the library is not installed, or the folder is refused or cannot be read.
    """

    kind, unit, text = KIND, "tokens", "own"

    def __init__(self, folder: str | Path, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.folder = Path(folder)
        self.training_facts: dict[str, Any] = {}
        _check_safe(self.folder)
        hide_broken_torchaudio()
        try:
            library = importlib.import_module(LIBRARY)
        except ImportError as error:
            raise InputError(
                f"{folder}: is a sentence-transformers model, but that package cannot be imported "
                f"({error}); install it: pip install sentence-transformers"
            ) from error
        try:
            self.model = library.SentenceTransformer(
                str(folder), device=str(device), local_files_only=True, trust_remote_code=False
            )
        except (ValueError, OSError, KeyError, TypeError, RuntimeError, ImportError) as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(
                f"{folder}: sentence-transformers cannot read it ({reason}); expected a whole "
                "model folder as its save_pretrained writes it"
            ) from error
        self.model.float().eval()
        self._counter = self._token_counter()
        self._fingerprint = _digest(self.folder)
        self._dim = int(self.model.encode(["a"], convert_to_tensor=True).shape[1])

    @property
    def dim(self) -> int:
        """The length D of a sentence vector."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """The sha256 over all files of the folder but documentation: 12 hex digits."""
        return self._fingerprint

    @property
    def config(self) -> dict[str, Any]:
        """Facts as in `config.json` of an encoder folder."""
        version = str(importlib.import_module(LIBRARY).__version__)
        return {
            "kind": KIND,
            "dim": self.dim,
            "fingerprint": self.fingerprint,
            "training": self.training_facts,
            "sentence_transformers": version,
        }

    @torch.no_grad()
    def embed_counted(self, sentences: Sequence[str]) -> Embedded:
        """Return sentence vectors, lengths and numbers of tokens, without gradient."""
        device = self.model.device
        rows = self._tokens(list(sentences))
        unknown_id = getattr(self.model.tokenizer, "unk_token_id", None)
        unknown_id = -1 if unknown_id is None else int(unknown_id)
        tokens = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        unknown = torch.tensor([row.count(unknown_id) for row in rows], dtype=torch.int64)
        lengths = tokens.to(device)
        vectors = torch.zeros(len(rows), self.dim, device=device)
        filled = lengths > 0
        chosen = [sentence for sentence, row in zip(sentences, rows, strict=True) if row]
        if chosen:
            vectors[filled] = self.model.encode(
                chosen, batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False
            ).float()
        return Embedded(vectors, lengths, tokens, unknown)

    def _tokens(self, sentences: list[str]) -> list[list[int]]:
        """Return the ids of the model's tokens, without special tokens, not truncated."""
        if not sentences:
            return []
        if hasattr(self._counter, "encode_batch"):
            encoded = self._counter.encode_batch(sentences, add_special_tokens=False)
            return [list(encoding.ids) for encoding in encoded]
        ids = self._counter(sentences, add_special_tokens=False, truncation=False, verbose=False)
        return [list(row) for row in ids["input_ids"]]

    def _token_counter(self) -> Any:
        tokenizer = self.model.tokenizer
        if hasattr(tokenizer, "encode_batch"):  # of the library tokenizers: static embeddings
            tokenizer = copy.deepcopy(tokenizer)
            tokenizer.no_truncation()
            tokenizer.no_padding()
        return tokenizer


def _check_safe(folder: Path) -> None:
    """Raise InputError for a model that would run code, or whose list of modules is no JSON."""
    path = folder / MODULES
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
        types = [str(module["type"]) for module in modules]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a list of modules ({error})") from error
    foreign = [name for name in types if not name.startswith(f"{LIBRARY}.")]
    if foreign:
        raise InputError(
            f"{path}: type: got {foreign[0]!r}, code that is not part of sentence-transformers and "
            "is not run; expected only its own modules"
        )
    unsafe = [file for file in _files(folder) if file.suffix in UNSAFE]
    if unsafe:
        raise InputError(
            f"{unsafe[0]}: can run code when it is read; expected weights as .safetensors only: "
            "save the model again with a current sentence-transformers"
        )


def _files(folder: Path) -> list[Path]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path for path in files if not path.relative_to(folder).as_posix().startswith(".")]


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in _files(folder):
        if path.name.endswith(NOT_THE_MODEL):
            continue
        with open(path, "rb") as stream:
            of_file = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()} {of_file}\n".encode())
    return digest.hexdigest()[:12]

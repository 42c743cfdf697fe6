"""Embeddings to begin with: random, or from a file of vectors or another encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder import Tokenizer, load_own_encoder
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.pairs import say
from simile_plugin.encoder_training.tsv import TsvInput
from simile_plugin.files import InputError

FLAG = "--init-embeddings"
LONGEST_NGRAM = 4  # characters; no token has more spaces


def random_embeddings(config: TrainingConfig, count: int) -> Tensor:
    """(count, D), normal with standard deviation config.init_std, by config.seed."""
    generator = torch.Generator().manual_seed(config.seed)
    return torch.randn(count, config.dim, generator=generator) * config.init_std


def initial_embeddings(path: str, tokenizer: Tokenizer, config: TrainingConfig) -> Tensor:
    """Vectors (V, D) of the tokens that ``path`` knows by the same text, random ones of the others.

    Args:
        path: text of a token and its D numbers a line, as word2vec and GloVe write them (plain,
            .gz or .zst; a first line of two numbers is left out, and so are lines from the third
            on that are no UTF-8 text, which published files have); or an encoder folder.

    Raises:
        InputError: for vectors of another length, what is no vector, or if no token is known.
    """
    if path != "-" and not Path(path).exists():
        raise InputError(f"{FLAG}: {path}: no such file or folder")
    table = random_embeddings(config, len(tokenizer))
    row = {text: number for number, text in enumerate(tokenizer.texts) if text is not None}
    known = 0
    for text, vector in _folder(path) if Path(path).is_dir() else _lines(path, config.dim, row):
        if len(vector) != config.dim:
            raise InputError(
                f"{FLAG}: {path}: has vectors of {len(vector)} numbers, expected --dim {config.dim}"
            )
        if text is not None and text in row:
            table[row.pop(text)] = torch.from_numpy(vector)  # the first of equals counts
            known += 1
    if not known:
        raise InputError(
            f"{FLAG}: {path}: knows none of the {len(row)} {tokenizer.unit} of this encoder; its "
            "tokens must be spelled as ours (lowercased, pieces with their mark)"
        )
    few = ""
    if 2 * known < len(tokenizer) and tokenizer.preprocessing.lowercase:
        few = "; tokens are lowercased: give --keep-case for vectors of words with capitals"
    say(f"{known} of {len(tokenizer)} tokens have a vector in {path}{few}")
    return table


def _folder(path: str) -> Iterator[tuple[str | None, NDArray[np.float32]]]:
    encoder = load_own_encoder(path)
    yield from zip(encoder.segmenter.texts, encoder.weight.detach().numpy(), strict=True)


def _lines(
    path: str, dim: int, wanted: dict[str, int]
) -> Iterator[tuple[str | None, NDArray[np.float32]]]:
    left_out: Counter[str] = Counter()

    def report(number: int, reason: str) -> None:
        if number < 3:  # the first ones show whether the file is one
            raise InputError(f"{FLAG}: {path}:{number}: {reason}; expected vectors as UTF-8 text")
        left_out[reason] += 1

    for block in TsvInput([path]).blocks():
        for number, line in block.lines(report):
            text, *cells = line.rstrip().rsplit(" ", dim)
            if number == 1 and len(line.split()) == 2 and dim > 1:
                continue  # how many there are, and their length
            if text in wanted or number < 3:
                vector = _vector(cells)
                longer = text.count(" ") > LONGEST_NGRAM  # the first of its numbers are in there
                if longer or len(vector) != dim or not np.isfinite(vector).all():
                    raise InputError(
                        f"{FLAG}: {path}:{number}: got {len(line.split()) - 1} numbers behind the "
                        f"token, or what is none; expected --dim {dim} finite ones"
                    )
                yield text, vector
    for reason, count in left_out.items():
        say(f"{path}: left out {count} lines, {reason}")


def _vector(cells: Sequence[str]) -> NDArray[np.float32]:
    try:
        return np.array(cells, dtype=np.float32)
    except ValueError:
        return np.full(1, np.nan, dtype=np.float32)

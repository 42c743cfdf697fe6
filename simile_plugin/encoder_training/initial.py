"""Embeddings to begin with: random, or from a file of vectors or another encoder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder import Tokenizer, load_own_encoder
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.tokenizers import say
from simile_plugin.encoder_training.tsv import TsvInput
from simile_plugin.files import InputError, finite_number

FLAG = "--init-embeddings"


def random_embeddings(config: TrainingConfig, count: int) -> Tensor:
    """Draw (count, D), normal with standard deviation config.init_std, by config.seed."""
    generator = torch.Generator().manual_seed(config.seed)
    return torch.randn(count, config.dim, generator=generator) * config.init_std


def initial_embeddings(path: str, tokenizer: Tokenizer, config: TrainingConfig) -> Tensor:
    """Return vectors (V, D) of the tokens that ``path`` knows by the same text; others are random.

    Args:
        path: lines of a token and its D numbers, as word2vec and GloVe write them (plain, .gz or
            .zst). A first line of two numbers is left out, and so are lines from the third on that
            are no UTF-8 text, which published files have. Or an encoder folder.

    Raises:
        InputError: for vectors of another length, lines without a vector, or if no token is known.
    """
    if path != "-" and not Path(path).exists():
        raise InputError(f"{FLAG}: {path}: no such file or folder")
    table = random_embeddings(config, len(tokenizer))
    row = {text: number for number, text in enumerate(tokenizer.texts) if text is not None}
    known = 0
    for text, vector in _folder(path) if Path(path).is_dir() else _lines(path, config.dim, row):
        if len(vector) != config.dim:
            raise InputError(
                f"{FLAG}: {path}: has vectors of {len(vector)} numbers, expected "
                f"--dim {config.dim}; give --dim {len(vector)}"
            )
        if text is not None and text in row:
            table[row.pop(text)] = torch.from_numpy(vector)  # the first of equals counts
            known += 1
    if not known:
        raise InputError(
            f"{FLAG}: {path}: knows none of the {len(row)} {tokenizer.unit} of this encoder; its "
            "tokens must be spelled as ours (lowercased, pieces with their mark)"
        )
    say(f"{known} of {len(tokenizer)} tokens have a vector in {path}")
    return table


def _folder(path: str) -> Iterator[tuple[str | None, NDArray[np.float32]]]:
    encoder = load_own_encoder(path)
    yield from zip(encoder.segmenter.texts, encoder.weight.detach().numpy(), strict=True)


def _lines(
    path: str, dim: int, wanted: dict[str, int]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    left_out: list[str] = []

    def report(number: int, reason: str) -> None:
        if number < 3:  # the first lines show what the file is
            raise InputError(f"{FLAG}: {path}:{number}: {reason}; expected vectors as UTF-8 text")
        left_out.append(reason)

    for block in TsvInput([path]).blocks():
        for number, line in block.lines(report):
            text, *cells = line.rstrip().rsplit(" ", dim)
            if number == 1 and len(line.split()) == 2 and dim > 1:
                continue  # number and length of the vectors
            if text not in wanted and number > 2:
                continue
            try:
                vector = np.array(cells, dtype=np.float32)
            except ValueError:
                vector = np.full(1, np.nan, dtype=np.float32)
            # Too many numbers end up in `text`; an n-gram has 3 spaces at most.
            if len(vector) != dim or text.count(" ") > 4:
                if numbers := _numbers_behind(line):
                    raise InputError(
                        f"{FLAG}: {path}:{number}: got {numbers} numbers behind the token, "
                        f"expected --dim {dim}; give --dim {numbers}, or vectors of {dim} numbers"
                    )
            if len(vector) != dim or not np.isfinite(vector).all() or text.count(" ") > 4:
                raise InputError(
                    f"{FLAG}: {path}:{number}: got {line[:40]!r}, expected a token and {dim} "
                    f"finite numbers (--dim {dim}) with spaces between them"
                )
            yield text, vector
    if left_out:
        say(f"{path}: left out {len(left_out)} lines ({', '.join(sorted(set(left_out)))})")


def _numbers_behind(line: str) -> int:
    """Count the finite numbers at the end of a line, the first cell excepted."""
    cells = line.split()[1:]
    numbers = takewhile(lambda cell: finite_number(cell) is not None, reversed(cells))
    return sum(1 for _ in numbers)

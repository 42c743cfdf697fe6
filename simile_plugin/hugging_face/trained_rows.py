"""Rows of an output layer that are trained in its place: gradient and Adam's moments of R rows.

The gradient of a matrix of V rows has V rows, and Adam keeps two numbers for each of its weights,
also for pieces that never occur. Here the trained parameter has the R rows that do occur, in the
target pieces and in the sources; the matrix is read as ever, and gets the rows after each step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

NAME = "simile_trained_rows"  # of the module, in the translation model


class TrainedRows(nn.Module):
    """R rows of a model's output layer, and of the embeddings that are tied to it.

    They are no part of the model's state: neither saved nor loaded, as the matrix has them.

    Args:
        model: the translation model, without wrappers, on its device.
        ids: the pieces that are trained.

    Attributes:
        rows: (R, D), the parameter that the optimizer gets.
        ids: (R,) their pieces, ascending.
        places: (V,) the place of each piece of the vocabulary among them; R for the others.
    """

    def __init__(self, model: Any, ids: Iterable[int]) -> None:
        super().__init__()
        weight, chosen = model.get_output_embeddings().weight, sorted({*ids})
        self.matrix = [weight]  # in a list, so that it is no parameter of this module
        # No buffers, which DDP would send around.
        self.ids = torch.tensor(chosen, device=weight.device)
        self.places = torch.full((len(weight),), len(chosen), device=weight.device)
        self.places[self.ids] = torch.arange(len(chosen), device=weight.device)
        self.rows = nn.Parameter(weight.detach().index_select(0, self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def signature(self) -> str:
        """Return how many rows they are of which pieces: a run goes on with the same."""
        digest = hashlib.sha256(repr(self.ids.tolist()).encode()).hexdigest()[:8]
        return f"{len(self):,} rows ({digest})"

    def fit(self, optimizer: Any) -> bool:
        """Return whether they can be trained: the matrix would be, and by no optimizer yet.

        Args:
            optimizer: that of an earlier training, which has the rows, or one that was made since
                and has the matrix; None is none.
        """
        groups = [] if optimizer is None else optimizer.param_groups
        theirs = any(p is self.rows for group in groups for p in group["params"])
        return self.matrix[0].requires_grad and (optimizer is None or theirs)

    @torch.no_grad()
    def read(self) -> None:
        """Take the rows from the matrix, which a checkpoint may have been loaded into."""
        self.rows.copy_(self.matrix[0].index_select(0, self.ids))

    @torch.no_grad()
    def write(self) -> None:
        """Put the rows into the matrix."""
        self.matrix[0].index_copy_(0, self.ids, self.rows)

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Within the block they are a parameter of the model, and the matrix is not trained."""
        self.matrix[0].requires_grad_(False)
        model.add_module(NAME, self)
        try:
            yield
        finally:
            delattr(model, NAME)
            self.matrix[0].requires_grad_(True)

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Save nothing."""

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Load nothing, and lack nothing."""


class RowsCallback(TrainerCallback):
    """Has the rows where the optimizer makes its step, and the matrix wherever else it is read."""

    def __init__(self, rows: TrainedRows) -> None:
        self.rows = rows

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read the matrix, as it was loaded."""
        self.rows.read()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the step into the matrix."""
        self.rows.write()

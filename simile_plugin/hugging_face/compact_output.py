"""A model's output layer with the pieces of one language alone, for the length of an update.

The output layer has V rows, 256,206 of them in NLLB, of which one language uses few. Candidates are
searched and rows scored over a copy of P rows. Ids are those of the whole vocabulary wherever
another module sees them; the search alone writes places among the P pieces.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from simile_plugin.hugging_face.models import PADDING, output_bias
from simile_plugin.hugging_face.trained_rows import TrainedRows
from simile_plugin.risk import replaced
from simile_plugin.search import Rules


class CompactOutput:
    """P rows of the output layer.

    Args:
        model: the translation model, without wrappers, on its device.
        ids: the pieces, with all that the search starts, begins or ends a target with.

    Attributes:
        ids: (P,) the pieces, ascending.
        places: (V,) the place of each piece of the vocabulary among them; 0 for the others, which
            are refused where the lists are on the host (`unknown`).
        trained: the rows that are trained in the place of the whole matrix, within `training`.
    """

    def __init__(self, model: Any, ids: Iterable[int]) -> None:
        self.model, self.head = model, model.get_output_embeddings()
        weight = self.head.weight
        chosen = sorted({*ids})
        self.place_of = {token: place for place, token in enumerate(chosen)}
        self.ids = torch.tensor(chosen, device=weight.device)
        self.places = torch.zeros(len(weight), dtype=torch.int64, device=weight.device)
        self.places[self.ids] = torch.arange(len(chosen), device=weight.device)
        self.held: dict[tuple[str, torch.dtype], Tensor] = {}
        self.trained: TrainedRows | None = None

    def __len__(self) -> int:
        return len(self.place_of)

    def bias(self) -> Tensor | None:
        """Return what is added to the logits of the pieces: (P,), or None."""
        of_head, of_model = self.head.bias, output_bias(self.model)
        both = of_head if of_model is None else of_model
        if of_head is not None and of_model is not None:
            both = of_head + of_model
        return None if both is None else both.index_select(0, self.ids)

    def rules(self, rules: Rules) -> Rules:
        """Return what is searched for, by places among the pieces."""
        known = self.place_of
        return dataclasses.replace(
            rules,
            start=known[rules.start],
            end=known[rules.end],
            first=None if rules.first is None else known[rules.first],
            suppressed=tuple(known[token] for token in rules.suppressed if token in known),
        )

    def full(self, places: Tensor) -> Tensor:
        """Return ids of places among the pieces, ``PADDING`` where it stands."""
        return torch.where(places.eq(PADDING), PADDING, self.ids[places.clamp(min=0)])

    def unknown(self, rows: Iterable[Iterable[int]]) -> set[int]:
        """Return the ids of rows, ``PADDING`` aside, that are outside the pieces."""
        return {token for row in rows for token in row} - self.place_of.keys() - {PADDING}

    @contextmanager
    def searching(self, kept: bool) -> Iterator[None]:
        """Within the block the model's logits are those of the pieces, without gradient.

        Args:
            kept: whether the rows keep their memory after it, as recorded steps need.
        """
        device, dtype = self.ids.device, self.head.weight.dtype
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
        with torch.no_grad(), ExitStack() as stack:
            weight = self._kept("weight", self.head.weight.index_select(0, self.ids), dtype)
            bias = self.bias()
            bias = None if bias is None else self._kept("bias", bias, dtype)
            forward = functools.partial(nn.functional.linear, weight=weight, bias=bias)
            stack.enter_context(replaced(self.head, "forward", forward))
            if output_bias(self.model) is not None:  # it is in `bias`
                none = self._kept("none", torch.zeros(1, device=device), dtype)
                stack.enter_context(replaced(self.model, "final_logits_bias", none))
            yield
        if not kept:
            self.held.clear()

    @contextmanager
    def training(self, rows: TrainedRows) -> Iterator[None]:
        """Within the block gradients go to some rows of the matrix, not to all of it."""
        with rows.in_place(self.model):
            self.trained = rows
            try:
                yield
            finally:
                self.trained = None

    def _kept(self, name: str, values: Tensor, dtype: torch.dtype) -> Tensor:
        """Copy values to the memory that this name has."""
        if (name, dtype) not in self.held:
            self.held[name, dtype] = torch.empty_like(values, dtype=dtype)
        return self.held[name, dtype].copy_(values)

    @property
    def watched(self) -> list[Tensor]:
        """Return what a recorded step reads beside the model's weights."""
        return [self.ids, *self.held.values()]


class _Take(torch.autograd.Function):
    """Two sets of rows of a matrix; one gradient of its size, where two takings had two.

    The gradient is the matrix's, or that of some of its rows, which have places: R rows, the place
    R for what is not trained.
    """

    @staticmethod
    def forward(
        ctx: Any, trained: Tensor, matrix: Tensor, places: Tensor | None, *ids: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.shape = trained.shape
        ctx.save_for_backward(*(ids if places is None else (places[some] for some in ids)))
        return tuple(matrix.index_select(0, some) for some in ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, width = ctx.shape
        found = gradients[0].new_zeros(rows + 1, width)
        for places, gradient in zip(ctx.saved_tensors, gradients, strict=True):
            found.index_add_(0, places, gradient)
        return found[:rows], *[None] * (2 + len(gradients))


class TakenRows:
    """The rows of a model that a scoring needs, with gradient.

    The output layer and the embeddings that are tied to it are one matrix of V rows, and a gradient
    by some of its rows has all V: so they are taken at once.

    Args:
        sources: (B, S) ids of the sources.

    Attributes:
        weight: (P, D) of the output layer; ``bias``: (P,) or None.
    """

    def __init__(self, output: CompactOutput, sources: Tensor) -> None:
        weight, rows = output.head.weight, output.trained
        trained = weight if rows is None else rows.rows
        self.output, self.bias = output, output.bias()
        self.encoder, self.decoder = (
            _tied(stack, weight) if trained.requires_grad else None
            for stack in (output.model.get_encoder(), output.model.get_decoder())
        )
        asked = sources.flatten() if self.encoder is not None else sources.new_empty(0)
        places = None if rows is None else rows.places
        self.weight, self.of_sources = _Take.apply(trained, weight, places, output.ids, asked)

    def encoding(self, stack: ExitStack) -> None:
        """Let the encoder's embeddings, asked for all sources, read the rows that are taken."""
        if self.encoder is not None:
            # Padding has no gradient: nothing attends to it.
            _reads(stack, self.encoder, self.of_sources, _numbered, None)

    def decoding(self, stack: ExitStack) -> None:
        """Let the decoder's embeddings read them, while the stack is open."""
        if self.decoder is not None:
            token = self.decoder.padding_idx
            padding = None if token is None else self.output.place_of.get(token)
            _reads(stack, self.decoder, self.weight, self.output.places.__getitem__, padding)


def _numbered(ids: Tensor) -> Tensor:
    return torch.arange(ids.numel(), device=ids.device).view_as(ids)


def _reads(
    stack: ExitStack,
    module: nn.Embedding,
    rows: Tensor,
    place: Callable[[Tensor], Tensor],
    padding: int | None,
) -> None:
    """Let embeddings look up rows by their place, while the stack is open."""
    own = module.forward
    stack.enter_context(replaced(module, "forward", lambda ids: own(place(ids))))
    stack.enter_context(replaced(module, "weight", rows))
    stack.enter_context(replaced(module, "padding_idx", padding))


def _tied(stack: nn.Module, weight: Tensor) -> nn.Embedding | None:
    """Return the embeddings of an encoder or decoder, if they are this matrix."""
    found: Any = stack.get_input_embeddings()  # type: ignore[operator]
    return found if isinstance(found, nn.Embedding) and found.weight is weight else None

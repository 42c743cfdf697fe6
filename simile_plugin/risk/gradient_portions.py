"""Loss and gradient of a batch, a portion of its sentences at a time, within one model call.

A sentence's loss does not depend on its batch, so the gradient of a batch is the sum of those of
its portions. Each portion's gradient is computed as soon as its loss is, which bounds memory at no
cost in time, and a portion that runs out of memory, forward or backward, is computed again in
smaller ones. What the trainer gets is a loss whose backward pass hands out the gradients that are
there: distributed wrappers see one forward and one backward pass, whatever a rank had to do for
them.

In float16 a gradient needs the loss scale that the trainer gives in its backward pass: there the
batch is one graph, whose decoder is computed again in parts.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from simile_plugin.risk.temporary_changes import replaced, unwrap

logger = logging.getLogger(__name__)

Found = TypeVar("Found", covariant=True)
Gradients = list[Tensor | None]
Phase = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Portion:
    """Sentences of a batch, and the bound on what is decoded at once (0: none)."""

    rows: slice
    max_tokens: int


class PortionLoss(Protocol[Found]):
    """Loss of a portion, summed over its sentences, and anything else that was found."""

    def __call__(self, model: nn.Module, portion: Portion) -> tuple[Tensor, Found]: ...


def plan_portions(tokens: Sequence[int], max_tokens: int, start: int = 0) -> list[Portion]:
    """Cut a batch, from its sentence ``start`` on, into runs of sentences.

    Args:
        tokens: of each sentence, padding between its rows included.
        max_tokens: bound on the sum over a portion (0: one portion); a longer sentence is a
            portion of its own, and is decoded in parts.
    """
    portions, held = [], 0
    for row, count in enumerate(tokens[start:], start):
        if max_tokens and row > start and held + count > max_tokens:
            portions.append(Portion(slice(start, row), max_tokens))
            start, held = row, 0
        held += count
    return [*portions, Portion(slice(start, len(tokens)), max_tokens)]


class Portions:
    """Computes a batch's loss by portions; remembers what did not fit.

    Args:
        max_tokens: ``--risk-max-tokens``; smaller after memory ran out.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    def __call__(
        self,
        model: nn.Module,
        net_input: dict[str, Any],
        tokens: Sequence[int],
        portion_loss: PortionLoss[Found],
        phase: Phase,
    ) -> tuple[Tensor, list[Found]]:
        """Return a batch's loss, ready for ``backward``, and what each portion found, in order.

        Args:
            model: in its distributed wrapper if there is one.
            net_input: what the wrapper is called with.
            tokens: see :func:`plan_portions`.
            phase: times what is computed under a name ("scoring", "backward").

        Raises:
            torch.OutOfMemoryError: if one row of one sentence alone does not fit.
        """
        plain = unwrap(model)
        parameters = list(plain.parameters())
        work = _Work(self, plain, parameters, tokens, portion_loss, phase)
        if not torch.is_grad_enabled():
            return call_wrapper_once(model, net_input, lambda: work.gradients()[0]), work.found
        if in_half_range(parameters) or not gradients_can_be_taken(model, plain):
            whole = Portion(slice(0, len(tokens)), self.max_tokens)
            loss = call_wrapper_once(model, net_input, lambda: work.loss(whole))
        else:
            loss = call_wrapper_once(
                model, net_input, lambda: _GradientsInForward.apply(work, *work.parameters)
            )
        return loss, work.found

    def shrink(self, portion: Portion, tokens: Sequence[int]) -> bool:
        """Bound portions to half of one that ran out of memory; whether that can be done."""
        rows = portion.rows
        held = sum(tokens[rows])
        bound = min(portion.max_tokens or held, held) // 2
        if bound:
            self.max_tokens = bound
            logger.warning(
                f"out of memory while scoring {rows.stop - rows.start} sentences; going on in "
                f"smaller portions, of at most {bound} tokens "
                f"(--risk-max-tokens {bound} does so from the start)"
            )
        return bound > 0


class _Work:
    """One batch: its portions, and their results so far."""

    def __init__(
        self,
        owner: Portions,
        model: nn.Module,
        parameters: list[nn.Parameter],
        tokens: Sequence[int],
        portion_loss: PortionLoss[Any],
        phase: Phase,
    ) -> None:
        self.owner, self.model, self.tokens = owner, model, tokens
        self.portion_loss, self.phase = portion_loss, phase
        self.parameters = [p for p in parameters if p.requires_grad]
        self.found: list[Any] = []
        self.training = torch.is_grad_enabled()
        self.device = parameters[0].device.type
        self.autocast: dict[str, Any] = {
            "device_type": self.device,
            "enabled": torch.is_autocast_enabled(self.device),
            "dtype": torch.get_autocast_dtype(self.device),
        }

    def loss(self, portion: Portion) -> Tensor:
        with self.phase("scoring"), torch.autocast(**self.autocast):
            loss, found = self.portion_loss(self.model, portion)
        self.found.append(found)
        return loss

    def gradients(self) -> tuple[Tensor, Gradients]:
        """Return the loss and, in a training, its gradient by each parameter.

        Each portion is computed by itself. Where memory runs out, it and all after it give way to
        smaller ones; what is done before it stays done.
        """
        open_ = plan_portions(self.tokens, self.owner.max_tokens)
        total: Tensor | None = None
        gradients: Gradients | None = None
        while open_:
            portion = open_.pop(0)
            done = len(self.found)
            try:
                loss, new = self._computed(portion)
            except torch.OutOfMemoryError:
                del self.found[done:]
                if not self.owner.shrink(portion, self.tokens):
                    raise
            else:
                total = loss if total is None else total + loss
                gradients = new if gradients is None else _added(gradients, new)
                continue
            # Here, not above: while an exception is handled, its frames hold on to their tensors.
            if self.device == "cuda":
                torch.cuda.empty_cache()
            open_ = plan_portions(self.tokens, self.owner.max_tokens, portion.rows.start)
        assert total is not None and gradients is not None
        return total, gradients

    def _computed(self, portion: Portion) -> tuple[Tensor, Gradients]:
        with torch.set_grad_enabled(self.training):
            loss = self.loss(portion)
        if not self.training:
            return loss, []
        with self.phase("backward"), torch.autocast(self.device, enabled=False):
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return loss.detach(), list(gradients)


def _added(total: Gradients, new: Gradients) -> Gradients:
    both = [(a, b) for a, b in zip(total, new, strict=True) if a is not None and b is not None]
    if both:  # in few operations, not one a parameter
        torch._foreach_add_(*map(list, zip(*both, strict=True)))
    return [b if a is None else a for a, b in zip(total, new, strict=True)]


class _GradientsInForward(torch.autograd.Function):
    """Gradients in the forward pass, handed out by the backward pass."""

    @staticmethod
    def forward(ctx: Any, work: _Work, *parameters: Tensor) -> Tensor:
        loss, ctx.gradients = work.gradients()
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None  # so that .grad takes them over uncopied
        torch._foreach_mul_([g for g in gradients if g is not None], scale)
        return (None, *gradients)


def call_wrapper_once(
    model: nn.Module, net_input: dict[str, Any], body: Callable[[], Tensor]
) -> Tensor:
    """Call a wrapped model once, with ``body`` in place of the forward pass of the model within.

    Distributed wrappers prepare the exchange of gradients in this call::

        model(**net_input)      the wrapper prepares, and calls
            plain.forward       which is put back, and
                body()          calls the model as often as there are portions
    """
    plain = unwrap(model)
    if plain is model:
        return body()
    with ExitStack() as stack:

        def forward(*args: Any, **kwargs: Any) -> Tensor:
            stack.close()  # puts the model's forward back
            return body()

        stack.enter_context(replaced(plain, "forward", forward))
        loss: Tensor = model(**net_input)
    return loss


def in_half_range(parameters: Sequence[Tensor]) -> bool:
    """Return whether gradients have the range of fp16, and so need the trainer's loss scale."""
    device = parameters[0].device.type
    if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16:
        return True
    return any(p.dtype == torch.float16 for p in parameters)


def gradients_can_be_taken(model: nn.Module, plain: nn.Module) -> bool:
    """Return whether the gradient may be computed aside from the trainer's backward pass.

    Not where a wrapper has parameters of its own (FSDP shards them), and not under fairseq's
    --checkpoint-activations, which works in ``loss.backward()`` only.
    """
    same = model is plain or (
        [id(p) for p in model.parameters()] == [id(p) for p in plain.parameters()]
    )
    checkpointed = any(
        isinstance(vars(module).get("forward"), functools.partial) for module in plain.modules()
    )
    return same and not checkpointed

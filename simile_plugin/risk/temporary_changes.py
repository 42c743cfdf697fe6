"""What is changed in a model for a while: its mode, its precision, an attribute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def unwrap(model: nn.Module) -> Any:
    """Return the model inside any distributed wrappers."""
    while isinstance(inner := getattr(model, "module", None), nn.Module):
        model = inner
    return model


@contextmanager
def replaced(owner: nn.Module, name: str, value: Any) -> Iterator[None]:
    """Within the block ``owner.name`` is ``value``, for this object only; then what it was."""
    held = owner._modules if name in owner._modules else vars(owner)
    before = {name: held[name]} if name in held else {}
    held[name] = value
    try:
        yield
    finally:
        held.update(before)
        if not before:
            del held[name]


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode for the block; each module's own mode comes back, also on an exception."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def weights_as(
    model: nn.Module, dtype: torch.dtype | None, copies: dict[Tensor, Any] | None = None
) -> Iterator[None]:
    """Within the block the model computes in ``dtype``, on copies of its weights.

    The parameters themselves stay as they are: the gradient, the optimiser and distributed
    wrappers hold on to them. None: nothing is changed.

    Args:
        copies: those of earlier blocks, to be used again where they lie; new ones are added.
    """
    if dtype is None:
        yield
        return
    # Plain tensors too: sinusoidal positions take the weights' type and would stay rounded.
    plain = [(m, {k: v for k, v in vars(m).items() if _is_float(v)}) for m in model.modules()]
    owned = [
        (module, name, tensor)
        for module in model.modules()
        for group in (module._parameters, module._buffers)
        for name, tensor in group.items()
        if tensor is not None and _is_float(tensor)
    ]
    lower: dict[Tensor, Any] = {} if copies is None else copies
    with torch.no_grad():
        for tensor, copy in lower.items():
            copy.copy_(tensor)
    try:
        for module, name, tensor in owned:
            if tensor not in lower:
                copy = tensor.detach().to(dtype)
                parameter = isinstance(tensor, nn.Parameter)
                lower[tensor] = nn.Parameter(copy, requires_grad=False) if parameter else copy
            setattr(module, name, lower[tensor])  # an LSTM notes it in its list of weights, too
        with torch.autocast(next(model.parameters()).device.type, enabled=False):
            yield
    finally:
        for module, name, tensor in owned:
            setattr(module, name, tensor)
        for module, tensors in plain:
            vars(module).update(tensors)


def _is_float(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()

"""What is changed in a model for a while: its mode, an attribute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


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

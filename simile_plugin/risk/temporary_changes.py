"""Temporary changes: a model's mode, an attribute, torch's way of attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.backends import cuda


def unwrap(model: nn.Module) -> Any:
    """Return the model inside any distributed wrappers."""
    while isinstance(inner := getattr(model, "module", None), nn.Module):
        model = inner
    return model


@contextmanager
def attention_without_plans() -> Iterator[None]:
    """Keep cuDNN out of attention in half precision, where torch prefers it on an H100 or H200.

    It makes a plan for every new shape (docs/results/speed.md; half a second on a B200:
    modelscope/FunASR#3704); in training each batch has shapes of its own, and in a search each
    step. Enter it around all of a training: layers that are computed again must take the same
    kernel.
    """
    before = cuda.cudnn_sdp_enabled()
    cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        cuda.enable_cudnn_sdp(before)


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

"""Counts where the host waits for the device: each time, a GPU runs out of work."""

from __future__ import annotations

import traceback
from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# The shape of their result depends on values: a GPU has to say how large it is.
COUNTED = {
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.repeat_interleave.Tensor,
    aten._local_scalar_dense.default,  # item(), float(), bool(), if
    aten.multinomial.default,  # looks for weights that are negative or infinite
}
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


class Waits(TorchDispatchMode):
    """Within the block, counts operations after which the host waits for the device.

    Attributes:
        places: how often, by operation and line of code.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if waits(func, args, kwargs):
            frames = [f for f in traceback.extract_stack() if "/torch/" not in f.filename]
            frame = next(f for f in reversed(frames) if "/tests/other_device/" not in f.filename)
            self.places[f"{func} at {frame.filename}:{frame.lineno} {frame.line}"] += 1
        return func(*args, **kwargs)


def waits(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the host waits for an operation on the device, or between it and the host.

    Copies wait unless they are asked not to.
    """
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    devices = {x.device.type for x in tensors if x.device.type == "cpu" and x.dim()}
    devices |= {x.device.type for x in tensors if x.device.type != "cpu"}
    if func is aten._to_copy.default and kwargs.get("device") is not None:
        devices.add(torch.device(kwargs["device"]).type)
        return len(devices) > 1 and not kwargs.get("non_blocking")
    if func is aten.copy_.default:
        return len(devices) > 1 and not (args[2:] or [False])[0]
    if not devices - {"cpu"}:
        return False
    if func in INDEXED:
        indices = [x for x in args[1] if isinstance(x, Tensor)]
        return any(x.dtype == torch.bool or x.device.type == "cpu" for x in indices)
    return func in COUNTED

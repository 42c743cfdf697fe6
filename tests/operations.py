"""Counts what a device would be asked for."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

VIEWS = {"view", "t", "transpose", "expand", "detach", "slice", "select", "unsqueeze", "squeeze"}
VIEWS |= {"_unsafe_view", "alias", "unbind", "split", "permute", "lift_fresh"}
VIEWS |= {
    "as_strided",
    "chunk",
    "empty",
    "new_empty",
    "_local_scalar_dense",
    "promote_types",
}  # no work of the device, either


class Operations(TorchDispatchMode):
    """Counts operations that are more than views, and bytes written that lie along a vocabulary."""

    def __init__(self, vocabulary=0):
        super().__init__()
        self.vocabulary, self.count, self.bytes, self.seen = vocabulary, 0, 0, True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **kwargs or {})
        name = func.overloadpacket._qualified_op_name.split("::")[1]
        if self.seen and name not in VIEWS:
            self.count += 1
            if isinstance(found, torch.Tensor) and found.shape[1:] == (self.vocabulary,):
                self.bytes += found.numel() * found.element_size()
        return found

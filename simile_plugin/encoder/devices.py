"""Values of the host on a device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(values: Tensor | NDArray[np.generic], device: torch.device) -> Tensor:
    """Tensors or arrays on a device, without waiting for what it has to do before.

    A plain copy to a GPU waits until the GPU has done all that it was asked for, and the GPU then
    waits for its next work. Only page-locked memory is copied without.
    """
    held = torch.as_tensor(values)
    if held.device.type != "cpu":
        return held.to(device)
    return (held.pin_memory() if device.type == "cuda" else held).to(device, non_blocking=True)

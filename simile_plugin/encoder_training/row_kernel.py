"""The compiled part of adam.py, where it is to be had: built by setup.py if there is a compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

POINTER, SIZE, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
HEAD: list[Any] = [POINTER, SIZE, SIZE, SIZE]  # rows, begin, end, dim
# Fewer rows are not worth another thread: torch's threads still spin, waiting for work.
ROWS_OF_A_THREAD = 4096


@cache
def load_kernel() -> RowKernel | None:
    """Return the kernel; None where it was not compiled."""
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).with_name("_row_kernel" + suffix)
        if path.is_file():
            return RowKernel(ctypes.CDLL(str(path)))
    return None


class RowKernel:
    """Adam of some rows of float32 tables in this computer's memory, in threads.

    Threads take rows, which do not depend on each other: their number changes nothing.

    Args:
        library: row_kernel.c, compiled.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._replay = library.simile_replay_rows
        self._replay.argtypes = [*HEAD, *[POINTER] * 6, FLOAT]
        self._adam = library.simile_adam_rows
        self._adam.argtypes = [*HEAD, *[POINTER] * 6, *[FLOAT] * 5]
        for function in (self._replay, self._adam):
            function.restype = None
        self._pool = ThreadPoolExecutor()

    def replay(
        self,
        rows: NDArray[np.int64],
        tables: tuple[Tensor, Tensor, Tensor],
        coefficients: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
        eps: float,
    ) -> None:
        """Make the steps that rows missed: weight -= (total + spread x^2) first / (root + eps).

        Args:
            tables: weight, first and second moments, (V, D) each; weight is changed.
            coefficients: total, mean and spread of each row, (R,) each.
        """
        values = [np.ascontiguousarray(part, dtype=np.float32) for part in coefficients]
        pointers = [table.data_ptr() for table in tables] + [part.ctypes.data for part in values]
        self._run(self._replay, rows, tables[0].shape[1], pointers, [eps])

    def adam(
        self,
        rows: NDArray[np.int64],
        tables: tuple[Tensor, Tensor, Tensor],
        gradient: Tensor,
        decays: tuple[NDArray[Any], NDArray[Any]],
        numbers: tuple[float, float, float, float, float],
    ) -> None:
        """Make a step of rows.

        Args:
            tables: weight, first and second moments, (V, D) each; all are changed.
            gradient: (R, D).
            decays: factors of the moments, missed steps included, (R,) each.
            numbers: 1 - beta1, 1 - beta2, lr / (1 - beta1^t), sqrt(1 - beta2^t), eps.
        """
        gradient = gradient.contiguous()
        values = [np.ascontiguousarray(part, dtype=np.float32) for part in decays]
        pointers = [table.data_ptr() for table in tables]
        pointers += [gradient.data_ptr(), *(part.ctypes.data for part in values)]
        self._run(self._adam, rows, tables[0].shape[1], pointers, list(numbers))

    def _run(
        self,
        function: Callable[..., None],
        rows: NDArray[np.int64],
        dim: int,
        pointers: list[int],
        numbers: list[float],
    ) -> None:
        count = max(1, min(torch.get_num_threads(), len(rows) // ROWS_OF_A_THREAD))
        limits = [len(rows) * part // count for part in range(count + 1)]

        def part(number: int) -> None:
            begin, end = limits[number], limits[number + 1]
            function(rows.ctypes.data, begin, end, dim, *pointers, *numbers)

        # ctypes gives up the interpreter's lock during a call; the last part is done here.
        others = [self._pool.submit(part, number) for number in range(count - 1)]
        part(count - 1)
        for other in others:
            other.result()

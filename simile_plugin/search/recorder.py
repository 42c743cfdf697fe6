"""Steps that a search takes again and again, recorded once as a CUDA graph and then replayed.

A step is some hundred small operations, and a GPU waits for the host to ask for each of them. As a
graph they are asked for at once: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

from __future__ import annotations

import gc
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

# A graph of a step takes about a megabyte. A training has some lengths of each of some batch sizes.
MOST = 128
# Of a device's memory, what buffers may keep from one search to the next.
SHARE = 1 / 16
LEAST = 8  # sentences: fewer take no less time on a GPU

Replay = Callable[[], object]


class Compaction(Protocol):
    """When finished sentences leave a batch, and how many sentences a step is computed for."""

    def sentences(self, count: int) -> int:
        """Return the sentences that the first step of ``count`` is computed for."""

    def fewer(self, going: int, sentences: int) -> int | None:
        """Return how many the next step is computed for, if ``going`` of them are not finished;
        None: as many as before."""


class AtOnce:
    """Finished sentences leave at once: the fewest products."""

    def sentences(self, count: int) -> int:
        """Return ``count``."""
        return count

    def fewer(self, going: int, sentences: int) -> int | None:
        """Return ``going`` where a sentence is finished."""
        return going if going < sentences else None


class Halves:
    """Finished sentences stay until half of a batch is finished: steps of few shapes, so that each
    can be recorded once and replayed."""

    def sentences(self, count: int) -> int:
        """Return ``count``, filled up to one of few shapes."""
        # There are eight shapes in each power of two, so that at most an eighth is filling.
        width = max(2, 1 << max(0, count.bit_length() - 4))
        return max(LEAST, -(-count // width) * width)

    def fewer(self, going: int, sentences: int) -> int | None:
        """Return half of the sentences, or half of that and so on, that holds all that go on."""
        half = sentences // 2
        if going > half or half < LEAST:
            return None
        while going <= half // 2 and half // 2 >= LEAST:
            half //= 2
        return half


class Recorder:
    """Runs steps on buffers that stay where they are, without a GPU.

    What it is for::

        recorder.watch(model.parameters())
        last = recorder.buffer("last", (rows,), torch.int64, device)
        logits = recorder.buffer("logits", (rows, vocabulary), torch.float32, device)

        def step() -> None:
            logits.copy_(model(last))

        for ... in ...:
            recorder.run(("step", rows), step)

    A step takes and returns nothing: it reads buffers and the watched tensors, and writes into
    buffers. It asks the device for nothing (``item``, ``nonzero``, a mask as an index). All else
    that it depends on is in its key: shapes, flags, a number of Python. What it makes on the way is
    gone after it. Random numbers come from the device's own generator; each run draws others.

    A step is computed once for each ``run``: at the first one of its key as it stands, later as it
    was recorded then. This class keeps the function and calls it again, so that a test without a
    GPU finds steps that depend on more than their key.

    Attributes:
        records: whether steps are recorded, so that a shape must stay what it was.
        compaction: of searches whose steps these are.
        recorded: what replays the step of a key; None: it ran once, and is recorded next time.
    """

    records: ClassVar[bool] = True
    compaction: ClassVar[Compaction] = Halves()  # of few shapes

    def __init__(self, most: int = MOST) -> None:
        """Begin with nothing.

        Args:
            most: keys that are remembered; the one that was not used for longest is forgotten.
        """
        self.most = most
        self.recorded: OrderedDict[Hashable, Replay | None] = OrderedDict()
        self.held: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self.seen: tuple[object, ...] = ()

    def watch(self, tensors: Iterable[Tensor]) -> None:
        """Forget all steps if these tensors (weights) lie elsewhere than at the last call.

        Values may change in place, as an optimiser changes them.
        """
        places = tuple((_place(one), one.dtype) for one in tensors)
        if places != self.seen:
            self.recorded.clear()
            self.seen = places

    def buffer(
        self, name: str, shape: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Return a contiguous tensor with the memory that this name always has; any values.

        A smaller shape is the beginning of a larger one's memory. If it is larger than any before,
        the memory lies elsewhere from now on, and all steps are forgotten: ask for all buffers
        before the first ``run``, and again before each search.
        """
        size, key = math.prod(shape), (name, dtype, device)
        if key not in self.held or self.held[key].numel() < size:
            self.recorded.clear()
            self.held.pop(key, None)  # before there is a second one
            self.held[key] = torch.empty(size, dtype=dtype, device=device)
        return self.held[key][:size].view(*shape)

    def run(self, key: Hashable, step: Replay) -> None:
        """Take the step of this key: ``step``, or what was recorded of an earlier one."""
        if key in self.recorded:
            replay = self.recorded.pop(key) or self._record(step)
        else:
            replay = self._record_at_once(step)
            if len(self.recorded) >= self.most:
                self.recorded.popitem(last=False)
        (replay or step)()
        self.recorded[key] = replay

    def clear(self) -> None:
        """Forget all steps and free the buffers: the memory is needed, or the work is done."""
        self.recorded.clear()
        self.held.clear()

    def search_is_over(self) -> None:
        """Leave the memory to others if there is much of it."""

    def _record_at_once(self, step: Replay) -> Replay | None:
        """Return what replays a step that runs for the first time; None: it is not recorded yet."""
        return step

    def _record(self, step: Replay) -> Replay | None:
        """Return what replays a step that has run before; None: it cannot be recorded."""
        return step


class Unrecorded(Recorder):
    """Buffers for steps that are computed as they stand."""

    records = False
    compaction = AtOnce()

    def run(self, key: Hashable, step: Replay) -> None:
        """Take the step."""
        step()


class GraphRecorder(Recorder):
    """Records steps as CUDA graphs: at the second run of a key, for the first one loads kernels.

    Where that fails, steps are computed as they stand, and the log says so once.
    """

    def __init__(self, most: int = MOST) -> None:
        super().__init__(most)
        self.stream: torch.cuda.Stream | None = None
        # Memory of all graphs: what is made within a step is gone after it, and no two run at a
        # time. The first graph does nothing: a pool without any would be gone.
        self.pool: Any = None
        self.first: Replay | None = None
        self.failed = False

    def run(self, key: Hashable, step: Replay) -> None:
        """See Recorder. Autocast is part of the key, and its copies of weights are not kept."""
        mixed = torch.is_autocast_enabled("cuda")
        kept = torch.is_autocast_cache_enabled()
        # A copy made before would be read after it is gone; one made here, overwritten by replays.
        torch.set_autocast_cache_enabled(False)
        try:
            super().run((key, torch.get_autocast_dtype("cuda") if mixed else None), step)
        finally:
            torch.set_autocast_cache_enabled(kept)

    def search_is_over(self) -> None:
        """Free the buffers if they take more than SHARE of the device's memory."""
        held = sum(one.numel() * one.element_size() for one in self.held.values())
        # Where searches are so large, hardly any of their time is the host's.
        if held > SHARE * torch.cuda.get_device_properties().total_memory:
            self.clear()

    def clear(self) -> None:
        """Forget all graphs, and free their memory and the buffers."""
        super().clear()
        self.pool = self.first = None

    def _record_at_once(self, step: Replay) -> Replay | None:
        return None

    def _record(self, step: Replay) -> Replay | None:
        if self.failed:
            return None
        try:
            return self._recorded(step)
        except torch.OutOfMemoryError:
            pass  # until here the error's frames hold on to their tensors
        # While a stream is captured, torch does not give back what it keeps of freed memory.
        torch.cuda.empty_cache()
        return self._recorded(step)

    def _recorded(self, step: Replay) -> Replay | None:
        """Return the graph of a step in the pool; None, and a warning, where there can be none.

        Raises:
            torch.OutOfMemoryError: where memory is too small for it.
        """
        try:
            if self.first is None:
                self.pool = torch.cuda.graph_pool_handle()
                self.first = self._capture(lambda: torch.zeros(1, device="cuda"))
            return self._capture(step)
        except RuntimeError as error:
            _end_capture_of_random_numbers()
            # The end of a capture may raise another error than what went wrong within it.
            if torch.OutOfMemoryError in map(type, (error, error.__context__)):
                raise torch.OutOfMemoryError(str(error)) from error
            self.failed = True
            self.recorded.clear()
            first = str(error).splitlines()[0]
            logger.warning(f"no CUDA graphs, so that searches are slower: {first}")
            return None

    def _capture(self, step: Replay) -> Replay:
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        gc.disable()  # what it frees may not be freed while a stream is captured
        self.stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self.stream):
                # Other threads (NCCL's watchdog, a loader's) may go on asking the device.
                graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
                try:
                    step()
                finally:
                    graph.capture_end()
        finally:
            if collecting:
                gc.enable()
        torch.cuda.current_stream().wait_stream(self.stream)
        replay: Replay = graph.replay
        return replay


def _end_capture_of_random_numbers() -> None:
    """Give the device's generator a state of its own: after a failed capture it belongs to none."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.graphsafe_set_state(generator.clone_state())


def recorder_for(device: torch.device) -> Recorder:
    """Return a recorder for the steps of one search at a time on this device."""
    return GraphRecorder() if device.type == "cuda" else Recorder()


def _place(tensor: Tensor) -> int:
    return tensor.data_ptr() if tensor.is_cuda else id(tensor)

"""What is a model's list of candidates: beam search and sampling over the steps of any decoder.

A decoder is `Steps`, or, for a GPU, `StaticSteps` in the buffers of a `Recorder`.
"""

from simile_plugin.search.beam import Hypotheses, Rules, Steps, numbers, search
from simile_plugin.search.continuations import kernels_for
from simile_plugin.search.halves import within_memory
from simile_plugin.search.recorder import Recorder, recorder_for
from simile_plugin.search.static_beam import ROOM, StaticSteps, bucket, static_search, taken

__all__ = [
    "ROOM",
    "Hypotheses",
    "Recorder",
    "Rules",
    "StaticSteps",
    "Steps",
    "bucket",
    "kernels_for",
    "numbers",
    "recorder_for",
    "search",
    "static_search",
    "taken",
    "within_memory",
]

"""What is a model's list of candidates: beam search and sampling over the steps of any decoder.

A decoder is `Steps`, or, for a GPU, `StaticSteps` in the buffers of a `Recorder`.
"""

from simile_plugin.search.beam import Hypotheses, Rules, Steps, search
from simile_plugin.search.continuations import kernels_for
from simile_plugin.search.halves import within_memory
from simile_plugin.search.node_cache import ROOM, NodeCache
from simile_plugin.search.recorder import Recorder, recorder_for
from simile_plugin.search.static_beam import bucket, static_search

__all__ = [
    "ROOM",
    "Hypotheses",
    "NodeCache",
    "Recorder",
    "Rules",
    "Steps",
    "bucket",
    "kernels_for",
    "recorder_for",
    "search",
    "static_search",
    "within_memory",
]

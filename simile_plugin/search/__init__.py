"""A model's lists of candidates: beam search and sampling over the steps of any decoder.

A decoder is `Steps`: those of a `NodeCache` can be recorded by a `Recorder`, for a GPU.
"""

from simile_plugin.search.beam import Hypotheses, Rules
from simile_plugin.search.continuations import kernels_for
from simile_plugin.search.loop import Steps, search, within_memory
from simile_plugin.search.node_cache import ROOM, NodeCache
from simile_plugin.search.recorder import AtOnce, Halves, Recorder, Unrecorded, recorder_for

__all__ = [
    "ROOM",
    "AtOnce",
    "Halves",
    "Hypotheses",
    "NodeCache",
    "Recorder",
    "Rules",
    "Steps",
    "Unrecorded",
    "kernels_for",
    "recorder_for",
    "search",
    "within_memory",
]

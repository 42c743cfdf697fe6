"""What is a model's list of candidates: steps of a decoder, recorded for a GPU."""

from simile_plugin.search.recorder import Recorder, recorder_for

__all__ = ["Recorder", "recorder_for"]

"""n-best lists of any model: readers."""

from simile_plugin.nbest.readers import COSTS, NbestList, read_nbest_lists

__all__ = ["COSTS", "NbestList", "read_nbest_lists"]

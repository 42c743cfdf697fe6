"""Lists of candidates of any model: readers and MBR decoding.

>>> from simile_plugin.encoder import load_encoder
>>> from simile_plugin.nbest import NbestList, choose, expected_utilities
>>> from simile_plugin.reward import Reward, Scorer
>>> hyps = ("he paid with coins", "a heron waits", "he paid for the tickets with coins")
>>> lists = [NbestList(0, None, hyps)]
>>> scorer = Scorer(Reward("simile"), load_encoder("encoder"))
>>> (values,) = expected_utilities(lists, scorer)  # sum of SIMILE with each of the list / 3
>>> values.shape, choose(lists[0], values) != 1  # what no other candidate says is not chosen
((3,), True)
"""

from typing import TYPE_CHECKING

from simile_plugin.files import imported_later

if TYPE_CHECKING:  # later: a report does not wait for torch to read lists
    from simile_plugin.nbest.mbr import (
        TIE,
        choose,
        expected_utilities,
    )
    from simile_plugin.nbest.readers import (
        NbestList,
        are_sampled,
        cost_warning,
        name_of_first,
        read_lists,
        read_nbest_lists,
        references,
        sources,
        with_references,
        with_sources,
    )

__all__ = [
    "TIE",
    "NbestList",
    "are_sampled",
    "choose",
    "cost_warning",
    "expected_utilities",
    "name_of_first",
    "read_lists",
    "read_nbest_lists",
    "references",
    "sources",
    "with_references",
    "with_sources",
]

__getattr__ = imported_later(__name__, ("readers", "mbr"), __all__)

"""Changes to fairseq: checkpoints on current torch, exact resume, lost ranks, one-line errors.

:func:`install` makes all changes of this process, and only it does: importing changes nothing.
"""

from simile_plugin.fairseq_hooks.byte_pieces import join_bytes
from simile_plugin.fairseq_hooks.installation import install, uninstall
from simile_plugin.fairseq_hooks.known_pairs import KNOWN_PAIRS
from simile_plugin.fairseq_hooks.model_flags import read_model_flags
from simile_plugin.fairseq_hooks.preflight import count_sentences, written_over
from simile_plugin.fairseq_hooks.torch_load import allow_fairseq_checkpoints, read_checkpoint

__all__ = [
    "KNOWN_PAIRS",
    "allow_fairseq_checkpoints",
    "count_sentences",
    "install",
    "join_bytes",
    "read_checkpoint",
    "read_model_flags",
    "uninstall",
    "written_over",
]

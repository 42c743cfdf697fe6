"""What fairseq needs: checkpoints on current torch, exact resume, lost ranks, one-line errors.

:func:`install` makes all changes of this process, and only it does: importing changes nothing.
"""

from simile_plugin.fairseq_hooks.installation import install, uninstall
from simile_plugin.fairseq_hooks.torch_load import allow_fairseq_checkpoints, read_checkpoint

__all__ = ["allow_fairseq_checkpoints", "install", "read_checkpoint", "uninstall"]

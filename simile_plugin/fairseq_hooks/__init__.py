"""What fairseq needs: checkpoints on current torch, exact resume, lost ranks, one-line errors."""

from simile_plugin.fairseq_hooks.fixes import (
    allow_fairseq_checkpoints,
    install,
    show_flags_with_help,
)

__all__ = ["allow_fairseq_checkpoints", "install", "show_flags_with_help"]

"""What --user-dir points at: mends fairseq, registers the criterion and the architectures."""

from simile_plugin import fairseq_hooks

fairseq_hooks.install()

from simile_plugin.fairseq_training import architectures, criterion  # noqa: E402, F401

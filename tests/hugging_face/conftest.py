"""Our face goes first: it leaves out a torchaudio that transformers could not import."""

import simile_plugin.hugging_face  # noqa: F401

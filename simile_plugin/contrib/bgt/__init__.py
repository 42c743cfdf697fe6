"""The Bilingual Generative Transformer (Wieting's thesis, 5.4 to 5.9): bitext to an encoder.

`registration` makes its task, model and criterion known to fairseq; user_dir imports it.
"""

from simile_plugin.contrib.bgt.checkpoints import check_pieces, export_encoder, read_bgt

__all__ = ["check_pieces", "export_encoder", "read_bgt"]

"""The Bilingual Generative Transformer (Wieting's thesis, 5.4 to 5.9): bitext to an encoder.

`registration` makes its task, model and criterion known to fairseq; user_dir imports it. The names
below come from modules that are imported when they are first asked for.
"""

from typing import TYPE_CHECKING

from simile_plugin.files import imported_later

if TYPE_CHECKING:
    from simile_plugin.bgt.checkpoints import export_encoder, read_bgt
    from simile_plugin.bgt.transfer import Voices

__all__ = ["Voices", "export_encoder", "read_bgt"]

__getattr__ = imported_later(__name__, ("checkpoints", "transfer"), __all__)

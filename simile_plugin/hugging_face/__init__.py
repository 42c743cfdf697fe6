"""The loss of the criterion simile_risk in a trainer of transformers.

docs/reference/python.md has an example of fifteen lines.
"""

# ruff: noqa: E402
from importlib.metadata import version

from simile_plugin.encoder import hide_broken_torchaudio
from simile_plugin.files import InputError

hide_broken_torchaudio()
# An older Trainer lacks methods that ours builds on (5.2), or tokenizers lose their tags (5.3).
OLDEST, NEXT = (5, 8), (6,)
FOUND = version("transformers")
if not OLDEST <= tuple(int(part) for part in FOUND.split(".")[:2]) < NEXT:
    raise InputError(
        f"transformers: got {FOUND}, expected 5.8 or later and before 6: "
        "pip install 'transformers>=5.8,<6'"
    )

from simile_plugin.hugging_face.arguments import SimileRiskArguments
from simile_plugin.hugging_face.candidates import risk_set_of
from simile_plugin.hugging_face.compact_output import CompactOutput
from simile_plugin.hugging_face.loading import (
    last_checkpoint,
    load,
    mixed,
    read_pairs,
    saved_prefix,
    with_adapters,
)
from simile_plugin.hugging_face.models import (
    SpecialTokens,
    positions,
    silent_ids,
    special_tokens,
    table_size,
)
from simile_plugin.hugging_face.scoring import Scorer
from simile_plugin.hugging_face.steps import known_decoder
from simile_plugin.hugging_face.target_pieces import choose_output
from simile_plugin.hugging_face.text import Pairs, prefix_warning, tag_warning
from simile_plugin.hugging_face.trained_rows import TrainedRows
from simile_plugin.hugging_face.trainer import SimileRiskTrainer

__all__ = [
    "CompactOutput",
    "Pairs",
    "Scorer",
    "SimileRiskArguments",
    "SimileRiskTrainer",
    "SpecialTokens",
    "TrainedRows",
    "choose_output",
    "known_decoder",
    "last_checkpoint",
    "load",
    "mixed",
    "positions",
    "prefix_warning",
    "read_pairs",
    "risk_set_of",
    "saved_prefix",
    "silent_ids",
    "special_tokens",
    "table_size",
    "tag_warning",
    "with_adapters",
]

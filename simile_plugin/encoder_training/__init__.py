"""From paraphrase pairs to a reward encoder: reading, filtering, binarising, training.

What needs torch is imported when it is first asked for: the workers that segment text do without.
"""

from typing import TYPE_CHECKING

from simile_plugin.encoder_training.binarized import (
    MANIFEST,
    BinarizeOptions,
    FolderWriter,
    are_binarized,
    binarize_pairs,
    binarized_segmenter,
    open_binarized,
    read_manifest,
)
from simile_plugin.encoder_training.config import TrainingConfig
from simile_plugin.encoder_training.filtering import (
    FilterOptions,
    FilterReport,
    filter_pairs,
    read_exclusions,
)
from simile_plugin.encoder_training.pairs import (
    BadLines,
    Pairs,
    TextPairs,
    Tokens,
    read_pairs,
    segment_pairs,
    train_sentencepiece,
    train_tokenizer,
)
from simile_plugin.encoder_training.tsv import PPDB, Columns, TsvInput
from simile_plugin.encoder_training.workers import choose_workers
from simile_plugin.files import imported_later

if TYPE_CHECKING:
    from simile_plugin.encoder_training.adam import DENSE_STEPS
    from simile_plugin.encoder_training.run import RunOptions, keep_freed_memory, train_encoder
    from simile_plugin.encoder_training.trainer import Trainer

__all__ = [
    "DENSE_STEPS",
    "MANIFEST",
    "PPDB",
    "BadLines",
    "BinarizeOptions",
    "Columns",
    "FilterOptions",
    "FilterReport",
    "FolderWriter",
    "Pairs",
    "RunOptions",
    "TextPairs",
    "Tokens",
    "Trainer",
    "TrainingConfig",
    "TsvInput",
    "are_binarized",
    "binarize_pairs",
    "binarized_segmenter",
    "choose_workers",
    "filter_pairs",
    "keep_freed_memory",
    "open_binarized",
    "read_exclusions",
    "read_manifest",
    "read_pairs",
    "segment_pairs",
    "train_encoder",
    "train_sentencepiece",
    "train_tokenizer",
]

__getattr__ = imported_later(__name__, ("adam", "trainer", "run"), __all__)

"""From paraphrase pairs to a reward encoder: reading, filtering, binarising, training.

What needs torch is imported when it is first asked for: the workers that segment text do without.
"""

from typing import TYPE_CHECKING

from simile_plugin.encoder_training.binarized import (
    BinarizeOptions,
    FolderWriter,
    binarize_pairs,
    open_binarized,
)
from simile_plugin.encoder_training.config import DistilConfig, TrainingConfig
from simile_plugin.encoder_training.filtering import FilterOptions, filter_pairs
from simile_plugin.encoder_training.options import RunOptions
from simile_plugin.encoder_training.pairs import BadLines, Pairs, Tokens, read_pairs, segment_pairs
from simile_plugin.encoder_training.tokenizers import train_sentencepiece, train_tokenizer
from simile_plugin.encoder_training.tsv import TsvInput
from simile_plugin.files import imported_later

if TYPE_CHECKING:
    from simile_plugin.encoder_training.adam import DENSE_STEPS
    from simile_plugin.encoder_training.distillation import distil_encoder
    from simile_plugin.encoder_training.negatives import hardest_negatives, sharing_pairs
    from simile_plugin.encoder_training.row_kernel import load_kernel
    from simile_plugin.encoder_training.run import train_encoder
    from simile_plugin.encoder_training.trainer import Trainer

__all__ = [
    "DENSE_STEPS",
    "BadLines",
    "BinarizeOptions",
    "DistilConfig",
    "FilterOptions",
    "FolderWriter",
    "Pairs",
    "RunOptions",
    "Tokens",
    "Trainer",
    "TrainingConfig",
    "TsvInput",
    "binarize_pairs",
    "distil_encoder",
    "filter_pairs",
    "hardest_negatives",
    "load_kernel",
    "open_binarized",
    "read_pairs",
    "segment_pairs",
    "sharing_pairs",
    "train_encoder",
    "train_sentencepiece",
    "train_tokenizer",
]

__getattr__ = imported_later(
    __name__, ("adam", "distillation", "negatives", "row_kernel", "trainer", "run"), __all__
)

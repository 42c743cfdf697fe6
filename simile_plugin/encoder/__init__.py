"""The reward encoder: text to tokens to a vector; its folder on disk; other people's encoders.

What needs torch is imported when it is first asked for: the workers that segment text do without.

>>> from simile_plugin.encoder import cosine, load_encoder
>>> encoder = load_encoder("encoder")  # a folder by `simile train-encoder`
>>> vectors = encoder.embed_text(["two boys skip stones", "two boys skip stones", "he paid"])
>>> vectors.shape == (3, encoder.dim)  # float32, on the encoder's device
True
>>> sim = cosine(vectors[0], vectors[1:])  # SIM, in [-1, 1]
>>> bool(sim[0] > 0.999) and bool(sim[1] < sim[0])
True
"""

from typing import TYPE_CHECKING

from simile_plugin.encoder.kinds import Kind, find_kind, register_kind
from simile_plugin.encoder.languages import language_classifier
from simile_plugin.encoder.piece_model import SPACE_MARK
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter, Tokenizer
from simile_plugin.encoder.tokens import (
    count_vocabulary,
    file_names,
    load_tokenizer,
    types_of,
)
from simile_plugin.encoder.torchaudio import hide_broken_torchaudio
from simile_plugin.encoder.unspaced import JOINERS, split_parts, split_words
from simile_plugin.encoder.word_cache import Words, flat_rows
from simile_plugin.files import imported_later

if TYPE_CHECKING:
    from simile_plugin.encoder.averages import Average, Composer, make_composer
    from simile_plugin.encoder.devices import keep_freed_memory, to_device
    from simile_plugin.encoder.export import export_encoder
    from simile_plugin.encoder.format import WEIGHTS, load_encoder, load_own_encoder, save_encoder
    from simile_plugin.encoder.models import Encoder, RewardEncoder, cosine, usable_device
    from simile_plugin.encoder.published import convert_published
    from simile_plugin.encoder.source_side import copied_share

__all__ = [
    "JOINERS",
    "SPACE_MARK",
    "WEIGHTS",
    "Average",
    "Composer",
    "Encoder",
    "Kind",
    "Preprocessing",
    "RewardEncoder",
    "Segmenter",
    "Tokenizer",
    "Words",
    "convert_published",
    "copied_share",
    "cosine",
    "count_vocabulary",
    "export_encoder",
    "file_names",
    "find_kind",
    "flat_rows",
    "hide_broken_torchaudio",
    "keep_freed_memory",
    "language_classifier",
    "load_encoder",
    "load_own_encoder",
    "load_tokenizer",
    "make_composer",
    "register_kind",
    "save_encoder",
    "split_parts",
    "split_words",
    "to_device",
    "types_of",
    "usable_device",
]

__getattr__ = imported_later(
    __name__,
    ("averages", "devices", "models", "format", "export", "published", "source_side"),
    __all__,
)

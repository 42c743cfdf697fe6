"""The reward encoder: text to tokens to a vector; its folder on disk; other people's encoders.

What needs torch is imported when it is first asked for: the workers that segment text do without.

>>> from simile_plugin.encoder import cosine, load_encoder
>>> encoder = load_encoder("encoder")  # a folder by `simile train-encoder`
>>> found = encoder.embed_counted(["two boys skip stones", "two boys skip stones", "he paid"])
>>> found.vectors.shape == (3, encoder.dim)  # float32, on the encoder's device
True
>>> sim = cosine(found.vectors[0], found.vectors[1:])  # SIM, in [-1, 1]
>>> bool(sim[0] > 0.999) and bool(sim[1] < sim[0])
True
"""

from typing import TYPE_CHECKING

from simile_plugin.encoder.kinds import (
    COMBINE,
    MIXTURES,
    RECURRENT,
    TRANSFORMER,
    check_kind,
    possible_tokens,
)
from simile_plugin.encoder.piece_model import CONTROL, SPACE_MARK, UNKNOWN
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter, find_invisible
from simile_plugin.encoder.tokens import (
    MIX,
    TOKENS,
    Ints,
    Tokenizer,
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
    from simile_plugin.encoder.averages import (
        BagComposer,
        Composer,
        Mixture,
        SequenceComposer,
        make_composer,
    )
    from simile_plugin.encoder.devices import to_device
    from simile_plugin.encoder.export import (
        MODEL2VEC,
        SENTENCE_TRANSFORMERS,
        export_encoder,
    )
    from simile_plugin.encoder.format import WEIGHTS, load_encoder, load_own_encoder, save_encoder
    from simile_plugin.encoder.models import (
        AT_ONCE,
        COMPOSER,
        EMBEDDINGS,
        Encoder,
        RewardEncoder,
        cosine,
        usable_device,
    )
    from simile_plugin.encoder.published import convert_published, read_published
    from simile_plugin.encoder.sentence_transformer import MODULES
    from simile_plugin.encoder.transformer import LONGEST, TransformerComposer, sinusoids

__all__ = [
    "AT_ONCE",
    "COMBINE",
    "COMPOSER",
    "CONTROL",
    "EMBEDDINGS",
    "JOINERS",
    "LONGEST",
    "MIX",
    "MIXTURES",
    "MODEL2VEC",
    "MODULES",
    "RECURRENT",
    "SENTENCE_TRANSFORMERS",
    "SPACE_MARK",
    "TOKENS",
    "TRANSFORMER",
    "UNKNOWN",
    "WEIGHTS",
    "BagComposer",
    "Composer",
    "Encoder",
    "Ints",
    "Mixture",
    "Preprocessing",
    "RewardEncoder",
    "Segmenter",
    "SequenceComposer",
    "Tokenizer",
    "TransformerComposer",
    "Words",
    "check_kind",
    "convert_published",
    "cosine",
    "count_vocabulary",
    "export_encoder",
    "file_names",
    "find_invisible",
    "flat_rows",
    "hide_broken_torchaudio",
    "load_encoder",
    "load_own_encoder",
    "load_tokenizer",
    "make_composer",
    "possible_tokens",
    "read_published",
    "save_encoder",
    "sinusoids",
    "split_parts",
    "split_words",
    "to_device",
    "types_of",
    "usable_device",
]

__getattr__ = imported_later(
    __name__,
    (
        "averages",
        "devices",
        "models",
        "format",
        "sentence_transformer",
        "transformer",
        "export",
        "published",
    ),
    __all__,
)

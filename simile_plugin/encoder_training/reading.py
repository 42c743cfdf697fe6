"""The pairs of a training: text that is segmented here, or a folder of binarize-pairs.

Both say what the data is (`digest`, `facts`, `identity`) and give its tokeniser and tokens.
"""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from simile_plugin.encoder import Tokenizer, types_of
from simile_plugin.encoder_training.binarized import are_binarized, open_binarized
from simile_plugin.encoder_training.options import RunOptions, TextOptions
from simile_plugin.encoder_training.pairs import BadLines, Pairs, read_pairs, segment_pairs
from simile_plugin.encoder_training.processes import rank_and_world
from simile_plugin.encoder_training.state import RunFolder
from simile_plugin.encoder_training.tokenizers import read_sentencepiece, say, train_tokenizer
from simile_plugin.files import InputError, flag_name

PIECES = 8000  # of a sentencepiece model, unless --vocab-size says otherwise


class TextData:
    """Pairs of TSV files.

    Args:
        tokens: name of the tokens of the encoder, as "sp" or "sp+word".

    Raises:
        InputError: for a folder, flags that such tokens do not use, several processes, bad files.
    """

    def __init__(self, options: RunOptions, tokens: str) -> None:
        options.check_tokens(tokens)
        for path in filter(os.path.isdir, options.pairs):
            raise InputError(
                f"{path}: is a folder, expected TSV files, or one folder of binarize-pairs alone"
            )
        if rank_and_world()[1] > 1:
            raise InputError(
                f"{options.pairs[0]}: several processes need binarized pairs, expected one folder; "
                "make it with simile binarize-pairs"
            )
        self.options = options
        self.tokens = tokens
        self.vocab_size = options.vocab_size or (PIECES if tokens == "sp" else 0)  # 0: the papers'
        bad = BadLines(options.strict)
        self.text = read_pairs(options.pairs, options.preprocessing, bad)
        bad.warn()
        say(f"{len(self.text)} pairs of {len(self.text.sentences)} distinct sentences")

    def __len__(self) -> int:
        return len(self.text)

    @property
    def digest(self) -> str:
        """The hash of the accepted lines."""
        return self.text.digest

    @property
    def is_one_pair(self) -> bool:
        """True where all pairs are of the same two sentences."""
        return len(self.text.sentences) < 3

    def facts(self) -> dict[str, Any]:
        """Return the facts on the data for the encoder's config.json."""
        return {
            "data": self.digest,
            "sentences": len(self.text.sentences),
            "skipped_lines": self.text.skipped,
            "sentencepiece": "given" if self.options.sentencepiece else "trained on the pairs",
        }

    def identity(self) -> dict[str, Any]:
        """Return the values that a resumed run must share; keys read as flags."""
        return {
            "pairs": self.digest,
            "tokens": self.tokens,
            "vocab-size": self.vocab_size,
            "sentencepiece": self.options.sentencepiece,
            "preprocessing": self.options.preprocessing.facts,
        }

    def segmented(self, folder: RunFolder) -> tuple[Tokenizer, Pairs]:
        """Return the tokeniser, of the interrupted run, given or trained now, and the tokens."""
        options = self.options
        tokenizer = folder.tokenizer(self.tokens, options.preprocessing)
        if tokenizer is None:
            given = read_sentencepiece(options.sentencepiece, options.preprocessing)
            settings = options.preprocessing, self.vocab_size, given
            tokenizer = train_tokenizer(self.tokens, self.text.sentences, *settings)
            folder.save_tokenizer(tokenizer)
        pairs = segment_pairs(self.text, tokenizer)
        if len(pairs) < len(self):
            say(
                f"warning: {len(self) - len(pairs)} pairs dropped: a side has no "
                f"{types_of(tokenizer.name)[:-1]} of the model"
            )
        return tokenizer, pairs


class BinarizedData:
    """Pairs of a folder of binarize-pairs, mapped into memory.

    Raises:
        InputError: for a damaged folder, other tokens than the encoder's, or flags that
            binarize-pairs has decided.
    """

    def __init__(self, options: RunOptions, tokens: str) -> None:
        folder = options.pairs[0]
        for field in fields(TextOptions):
            if getattr(options, field.name):
                raise InputError(
                    f"{flag_name(field.name)}: {folder} is binarized, which decided it; "
                    "leave the flag out, or binarize the pairs again"
                )
        self.pairs, self.tokenizer = open_binarized(folder)
        kind = types_of(self.tokenizer.name)
        if self.tokenizer.name != tokens:
            raise InputError(
                f"{folder}: holds {kind}, expected {types_of(tokens)}; binarize the pairs again "
                f"with --tokens {tokens}, or train an encoder of {kind}"
            )
        say(f"{len(self.pairs)} binarized pairs, {len(self.tokenizer)} {kind}")

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def digest(self) -> str:
        """The hash of the lines that were binarized."""
        return self.pairs.digest

    @property
    def is_one_pair(self) -> bool:
        """True where all pairs are of the same two sentences."""
        hashes = self.pairs.hashes
        return bool(((hashes == hashes[0]) | (hashes == hashes[1])).all())

    def facts(self) -> dict[str, Any]:
        """Return the facts on the data for the encoder's config.json."""
        return {"data": self.digest, "sentencepiece": "of the binarized pairs"}

    def identity(self) -> dict[str, Any]:
        """Return the values that a resumed run must share; keys read as flags."""
        return {"pairs": self.digest}

    def segmented(self, folder: RunFolder) -> tuple[Tokenizer, Pairs]:
        """Return the tokeniser and the tokens of the folder."""
        return self.tokenizer, self.pairs


def read_training_data(options: RunOptions, tokens: str) -> TextData | BinarizedData:
    """Read PAIRS, for an encoder of these tokens."""
    if are_binarized(options.pairs):
        return BinarizedData(options, tokens)
    return TextData(options, tokens)

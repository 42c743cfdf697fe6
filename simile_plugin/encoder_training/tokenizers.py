"""The tokeniser of a training: a given sentencepiece model, or trained on the sentences."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import sentencepiece

from simile_plugin.encoder import (
    Preprocessing,
    Segmenter,
    Tokenizer,
    count_vocabulary,
    file_names,
    load_tokenizer,
    types_of,
)
from simile_plugin.files import InputError

LONGEST = 4192  # bytes of a sentence that sentencepiece trains on by default
CAPITALS = 0.02  # share of pieces: a model of lowercased text has none with a capital
DEFAULT_SIZE = {"sp": 30_000, "word": 200_000, "trigram": 200_000, "ngram": 200_000}  # the papers'


class Prepared(Preprocessing):
    """Preprocessing that changes nothing, for text that is preprocessed already."""

    def apply(self, sentence: str) -> str:
        """Return the sentence."""
        return sentence


def of_prepared(tokenizer: Tokenizer) -> Tokenizer:
    """Return the same tokeniser for sentences that are preprocessed already."""
    return load_tokenizer(
        tokenizer.name, tokenizer.files, Prepared(**asdict(tokenizer.preprocessing))
    )


def say(message: str) -> None:
    """Print a line on standard error."""
    print(message, file=sys.stderr, flush=True)


def read_sentencepiece(path: str | None, preprocessing: Preprocessing) -> bytes | None:
    """Read the model of --sentencepiece and warn of capitals; None without the flag."""
    if path is None:
        return None
    content = Path(path).read_bytes()
    try:
        pieces = Segmenter(content, preprocessing).texts
    except ValueError as error:
        raise InputError(f"--sentencepiece: {path}: {error}") from error
    capital = sum(piece is not None and piece != piece.lower() for piece in pieces)
    if preprocessing.lowercase and capital > CAPITALS * len(pieces):
        say(
            f"warning: --sentencepiece: {capital} of the {len(pieces)} pieces of {path} have a "
            "capital and are never used, for text is lowercased; give --keep-case, or a model of "
            "lowercased text"
        )
    return content


def train_tokenizer(
    name: str,
    prepared: Sequence[str],
    preprocessing: Preprocessing,
    vocab_size: int | None,
    given: bytes | None = None,
) -> Tokenizer:
    """Return a tokeniser of at most ``vocab_size`` tokens, made for the given text.

    Args:
        prepared: preprocessed sentences, distinct.
        vocab_size: of each part; None for the papers' sizes.
        given: a sentencepiece model, which is used instead of training.
    """
    files = {}
    for part, file in zip(name.split("+"), file_names(name), strict=True):
        size = vocab_size or DEFAULT_SIZE[part]
        if part == "sp" and given is not None:
            files[file] = given
            continue
        doing = (
            f"training a sentencepiece model of up to {size} pieces"
            if part == "sp"
            else f"counting {types_of(part)}, keeping up to {size},"
        )
        say(f"{doing} on {len(prepared)} distinct sentences")
        make = train_sentencepiece if part == "sp" else partial(count_vocabulary, part)
        files[file] = make(prepared, Prepared(), size)
        made = len(load_tokenizer(part, {file_names(part)[0]: files[file]}, preprocessing))
        if made < size:
            say(f"the text supports {made} {types_of(part)}, fewer than --vocab-size {size}")
    return load_tokenizer(name, files, preprocessing)


def train_sentencepiece(
    sentences: Iterable[str], preprocessing: Preprocessing, vocab_size: int
) -> bytes:
    """Train a sentencepiece unigram model of at most ``vocab_size`` pieces on preprocessed text.

    Text with fewer distinct substrings than asked for gives a smaller model, not an error.
    """
    model = io.BytesIO()
    texts = [preprocessing.apply(sentence) for sentence in sentences]
    longest = max((len(text.encode()) for text in texts), default=0)
    # sentencepiece drops sentences above max_sentence_length (4,192 bytes). Raise it only if
    # needed: the value is written into the model.
    longer: dict[str, Any] = {"max_sentence_length": longest} if longest > LONGEST else {}
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=0.9995,
            # The text is normalised already, by the code that normalises it in use.
            normalization_rule_name="identity",
            bos_id=-1,
            eos_id=-1,
            num_threads=1,  # with several threads the pieces depend on their order
            minloglevel=2,
            **longer,
        )
    except (RuntimeError, OSError, ValueError) as error:  # ValueError: a size beyond 32 bits
        raise InputError(
            f"--vocab-size {vocab_size}: sentencepiece could not be trained "
            f"({' '.join(str(error).split())}); give more text or another size"
        ) from error
    return model.getvalue()

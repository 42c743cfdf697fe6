"""Which pieces of a vocabulary a target language uses: `--target-pieces`."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from simile_plugin.encoder import SPACE_MARK
from simile_plugin.files import InputError, read_lines
from simile_plugin.hugging_face.compact_output import CompactOutput
from simile_plugin.hugging_face.models import PADDING, SpecialTokens, silent_ids
from simile_plugin.hugging_face.text import Pairs, parts_of
from simile_plugin.hugging_face.trained_rows import TrainedRows

logger = logging.getLogger(__name__)

FLAG, AUTO, ALL = "--target-pieces", "auto", "all"
# Pieces of a vocabulary from which on `auto` chooses: those of many languages have 128,000 and
# more, those of two languages (OPUS-MT) up to 65,000.
LARGE = 100_000
# Share of the rows up to which it saves memory to train them alone: a copy, a gradient and Adam's
# two moments of each, in the place of a gradient and two moments of all.
FEW = 0.75
BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # what sentencepiece writes an unknown character by


def choose_output(
    asked: str, model: Any, tokenizer: Any, special: SpecialTokens, datasets: Iterable[Any]
) -> CompactOutput | None:
    """Return the output layer of the target's pieces, or None for the whole vocabulary.

    They are the pieces of the references, single characters in their scripts, tags and special
    tokens, and those of a file.

    Args:
        asked: "auto" (where the vocabulary is large and the references can be counted), "all", or a
            file of pieces, one a line, as the tokenizer's vocabulary writes them.
        datasets: of the training and the validation, see `count_pieces`; None is none.

    Raises:
        InputError: for a line of the file that is no piece.
    """
    size = model.get_output_embeddings().weight.size(0)
    if asked == ALL or (asked == AUTO and size < LARGE):
        return None
    # Rows of no piece have no word, or that of unknown ones.
    words = [word or "" for word in tokenizer.convert_ids_to_tokens(list(range(size)))]
    given = set() if asked == AUTO else _of_file(asked, words)
    used: Counter[int] = Counter()
    for dataset in datasets:
        counts = count_pieces(dataset)
        if counts is None and asked == AUTO:
            logger.warning(
                f"{FLAG} auto: a stream of examples cannot be counted, so that all {size:,} pieces "
                "are scored; a FILE of pieces needs no counting"
            )
            return None
        used += counts or Counter()
    if asked == AUTO and not used:  # nothing says what the target language is
        return None
    characters = _single_characters(words, given | used.keys())
    needed = {*silent_ids(tokenizer), *_forced(model, special)}
    known = {token for token in given | used.keys() | characters | needed if 0 <= token < size}
    covered = ""
    if given:
        share = sum(used[token] for token in given & used.keys()) / max(1, used.total())
        covered = f"; {asked} has {share:.2%} of the references' tokens, and the rest is added"
    logger.info(
        f"target pieces: {len(known):,} of {size:,}, among them all of the references{covered}"
    )
    return CompactOutput(model, known)


def choose_rows(output: CompactOutput, dataset: Any) -> TrainedRows | None:
    """Return the rows that occur in a training, or None where the whole matrix is to be trained.

    They are those of the target pieces and, if the encoder reads the same matrix, of the sources.

    Args:
        dataset: of the training, see `count_pieces`.
    """
    weight = output.head.weight
    if not weight.requires_grad:  # as beside adapters
        return None
    sources: Counter[int] | None = Counter()
    if output.model.get_encoder().get_input_embeddings().weight is weight:
        sources = count_pieces(dataset, "input_ids")
    if sources is None:
        return None
    ids = {*output.place_of, *sources}
    return TrainedRows(output.model, ids) if len(ids) < FEW * len(weight) else None


def count_pieces(dataset: Any, name: str = "labels") -> Counter[int] | None:
    """Count the ids of a data set's references; None for a stream, which ends nobody knows when.

    Args:
        dataset: `Pairs`, or any data set of such examples, see `parts_of`; None is none.
        name: what examples have them under; "input_ids" are the sources.
    """
    found: Counter[int] = Counter()
    for part in parts_of(dataset):
        if isinstance(part, Pairs):
            found += part.count(name)
            continue
        if not hasattr(part, "__len__"):
            return None
        for index in range(len(part)):
            ids = part[index].get(name)
            if ids is not None:
                found.update(ids.tolist() if isinstance(ids, Tensor) else map(int, ids))
    del found[PADDING]
    return found


def check_references(output: CompactOutput, rows: Iterable[Iterable[int]], tokenizer: Any) -> None:
    """Raise InputError for a reference with an id outside the pieces: it has no probability."""
    for token in sorted(output.unknown(rows))[:1]:
        raise InputError(
            f"{FLAG}: a reference has the piece {tokenizer.convert_ids_to_tokens(token)!r} (id "
            f"{token}), which is not among the {len(output):,} target pieces; expected all, or a "
            "file that has it"
        )


def _of_file(path: str, words: list[str]) -> set[int]:
    ids = {word: token for token, word in reversed([*enumerate(words)]) if word}
    found = set()
    for number, line in enumerate(read_lines(path, FLAG), 1):
        if line not in ids:
            raise InputError(
                f"{FLAG}: {path}:{number}: {line[:60]!r} is no piece of the tokenizer; expected a "
                "piece a line, as tokenizer.get_vocab() names them"
            )
        found.add(ids[line])
    if not found:
        raise InputError(f"{FLAG}: {path} is empty; expected a piece a line")
    return found


def _single_characters(words: list[str], used: Iterable[int]) -> set[int]:
    """Return the pieces of one character or byte, by which all text of these scripts is written."""
    scripts = {_script(character) for token in used for character in words[token]} | {""}
    texts = {token: word.removeprefix(SPACE_MARK) for token, word in enumerate(words) if word}
    return {
        token
        for token, text in texts.items()
        if BYTE.fullmatch(text) or not text or (len(text) == 1 and _script(text) in scripts)
    }


def _script(character: str) -> str:
    """Return the script of a letter, LATIN or CJK; "" for digits and marks, which all have."""
    letter = unicodedata.category(character)[0] in "LM"
    return unicodedata.name(character, "").partition(" ")[0] if letter else ""


def _forced(model: Any, special: SpecialTokens) -> set[int]:
    """Return what a target starts, begins or ends with."""
    asked = model.generation_config
    found = [special.start, special.end, special.pad, special.tag, special.language]
    return {token for token in (*found, asked.forced_bos_token_id) if token is not None}

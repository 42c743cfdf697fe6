"""Paraphrase pairs: TSV -> distinct sentences as flat arrays of pieces, and pairs of their rows."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from simile_plugin.encoder import (
    MIX,
    Ints,
    Preprocessing,
    Segmenter,
    Tokenizer,
    count_vocabulary,
    file_names,
    load_tokenizer,
    types_of,
)
from simile_plugin.encoder_training.tsv import TsvInput
from simile_plugin.files import InputError

SHOWN = 5  # bad lines that are reported one by one; the rest is only counted
CHUNK = 20_000  # sentences segmented at once
DEFAULT_SIZE = {"sp": 30_000, "word": 200_000, "trigram": 200_000, "ngram": 200_000}  # the papers'


@dataclass
class BadLines:
    """Lines that gave no pair: how many for each reason, and the first few as file:line.

    Attributes:
        strict: the first one raises.
        unit: what is counted; a line of a cluster can lose one pair and keep others.
        counts: of each reason.
        examples: the first few.
    """

    strict: bool = False
    unit: str = "lines"
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def add(self, name: str, line: int, reason: str) -> None:
        """Count one; with ``strict`` raise ValueError instead."""
        message = f"{name}:{line}: {reason}"
        if self.strict:
            raise InputError(f"{message}; expected sentence TAB paraphrase (--strict)")
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(self.examples) < SHOWN:
            self.examples.append(message)

    @property
    def total(self) -> int:
        """All bad lines."""
        return sum(self.counts.values())

    def summary(self) -> str:
        """One line: total, count of each reason, first examples."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.counts.items())
        more = ", ..." if self.total > len(self.examples) else ""
        return f"{self.total} {self.unit} skipped ({reasons}): {', '.join(self.examples)}{more}"


@dataclass
class TextPairs:
    """Pairs as text: each distinct preprocessed sentence once.

    Attributes:
        sentences: (S,) a raw form of each distinct sentence.
        hashes: (S,) uint64, of the preprocessed form; equal sentences have equal hashes.
        rows: (n, 2) int32, pair -> its two sentences.
        digest: 16 hex digits of sha256 over the accepted lines: the training data's hash.
    """

    sentences: list[str]
    hashes: NDArray[np.uint64]
    rows: NDArray[np.int32]
    digest: str


@dataclass
class Pairs:
    """Pairs as pieces, ready for training: in memory, or mapped from a folder on disk.

    Attributes:
        ids: (P,) uint16, int32 or uint32, known pieces of all sentences one after the other.
        offsets: (S + 1,) int64, sentence s is ids[offsets[s]:offsets[s + 1]].
        hashes: (S,) uint64, as in TextPairs.
        rows: (n, 2) int32, pair -> its two sentences; None: pair i is sentences 2i and 2i + 1.
        digest: the training data's hash.
    """

    ids: NDArray[np.uint16] | NDArray[np.int32] | NDArray[np.uint32]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    rows: NDArray[np.int32] | None
    digest: str

    def __len__(self) -> int:
        return len(self.hashes) // 2 if self.rows is None else len(self.rows)

    def pair_rows(self, chosen: NDArray[np.integer]) -> NDArray[np.integer]:
        """Sentences (m, 2) of the chosen pairs (m,)."""
        if self.rows is not None:
            return self.rows[chosen]
        return 2 * chosen.astype(np.int64)[:, None] + np.arange(2)

    def bags(self, sentences: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pieces of the given sentences: flat ids (P,) and the start of each bag (len,)."""
        begin = self.offsets[sentences]
        lengths = self.offsets[sentences + 1] - begin
        ends = np.cumsum(lengths)
        starts = ends - lengths
        positions = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - starts, lengths)
        return self.ids[positions].astype(np.int64), starts


def sentence_hash(prepared: str) -> int:
    """64-bit hash of a preprocessed sentence, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(prepared.encode(), digest_size=8).digest(), "little")


def read_pairs(
    paths: Sequence[str], preprocessing: Preprocessing, bad: BadLines | None = None
) -> TextPairs:
    """Stream TSV files (plain, .gz, .zst, "-"): two columns, more are ignored.

    Args:
        paths: files, read in order as one.
        preprocessing: decides which sentences are equal, and which are empty.
        bad: collects the lines that are skipped.

    Raises:
        ValueError: for an unreadable file, a file without a pair, or the first bad line if
            ``bad.strict``.
    """
    bad = BadLines() if bad is None else bad
    sentences: list[str] = []
    hashes: list[int] = []
    row_of_raw: dict[str, int] = {}
    row_of_hash: dict[int, int] = {}
    rows: list[int] = []
    digest = hashlib.sha256()

    def row(raw: str) -> int:
        """Row of a sentence, -1 if it is empty; new sentences are appended."""
        known = row_of_raw.get(raw)
        if known is None:
            prepared = preprocessing.apply(raw)
            key = sentence_hash(prepared)
            known = row_of_hash.setdefault(key, len(sentences)) if prepared else -1
            if known == len(sentences):
                sentences.append(raw)
                hashes.append(key)
            row_of_raw[raw] = known
        return known

    for block in TsvInput(paths).blocks():
        report = partial(bad.add, block.name)
        for number, line in block.lines(report):
            columns = line.split("\t", 2)
            if len(columns) < 2:
                report(number, "no second column")
                continue
            left, right = row(columns[0]), row(columns[1])
            if left < 0 or right < 0:
                report(number, "empty side")
                continue
            rows += left, right
            digest.update(f"{columns[0]}\t{columns[1]}\n".encode())
    if not rows:
        raise InputError(
            f"{', '.join(paths)}: no pair found, expected lines of sentence TAB paraphrase"
            + (f"; {bad.summary()}" if bad.total else "")
        )
    return TextPairs(
        sentences,
        np.array(hashes, dtype=np.uint64),
        np.array(rows, dtype=np.int32).reshape(-1, 2),
        digest.hexdigest()[:16],
    )


def known_only(segmenter: Tokenizer, sentences: Sequence[str]) -> tuple[Ints, Ints]:
    """Known tokens of all sentences one after the other (P,), and how many each has (U,)."""
    ids, offsets = segmenter.encode_flat(sentences)
    known = segmenter.known(ids)
    before = np.concatenate([[0], np.cumsum(known)])
    return ids[known], np.diff(before[np.append(offsets, len(ids))])


def segment_pairs(text: TextPairs, segmenter: Tokenizer) -> tuple[Pairs, int]:
    """Segment each distinct sentence once; unknown tokens are left out, as in the encoder's mean.

    Returns:
        the pairs, and how many were dropped because a side has no known token.

    Raises:
        ValueError: if no pair is left.
    """
    dtype = np.uint16 if len(segmenter) <= np.iinfo(np.uint16).max + 1 else np.int32
    chunks, lengths = [], [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(text.sentences), CHUNK):
        ids, counts = known_only(segmenter, text.sentences[start : start + CHUNK])
        chunks.append(ids.astype(dtype))
        lengths.append(counts)
    each = np.concatenate(lengths)
    keep = np.asarray((each[text.rows] > 0).all(1))
    if not keep.any():
        flag = "--sentencepiece" if segmenter.name == "sp" else "--kind"
        raise InputError(
            f"{flag}: none of the {len(keep)} pairs has a known {types_of(segmenter.name)[:-1]} "
            "on both sides; the model is of other text"
        )
    offsets = np.concatenate([[0], np.cumsum(each)])
    pairs = Pairs(np.concatenate(chunks), offsets, text.hashes, text.rows[keep], text.digest)
    return pairs, int((~keep).sum())


def read_sentencepiece(path: str | None, preprocessing: Preprocessing) -> bytes | None:
    """The model of --sentencepiece, if there is one.

    Raises:
        ValueError: naming the flag, if it is none.
    """
    if path is None:
        return None
    content = Path(path).read_bytes()
    try:
        Segmenter(content, preprocessing)
    except ValueError as error:
        raise InputError(f"--sentencepiece: {path}: {error}") from error
    return content


def train_tokenizer(
    name: str,
    sentences: Sequence[str],
    preprocessing: Preprocessing,
    vocab_size: int,
    given: bytes | None,
    say: Callable[[str], object],
) -> Tokenizer:
    """A tokeniser of at most ``vocab_size`` tokens, made for the given text.

    Args:
        name: one of tokens.TOKENS, or several with + between them.
        vocab_size: of each part; 0 for the papers' sizes.
        given: a sentencepiece model to use instead of training one, or None.
        say: is told in a line what is done.

    Raises:
        ValueError: if the text has none, or sentencepiece cannot train.
    """
    files = {}
    for part, file in zip(name.split(MIX), file_names(name), strict=True):
        size = vocab_size or DEFAULT_SIZE[part]
        if part == "sp" and given is not None:
            files[file] = given
            continue
        doing = (
            f"training a sentencepiece model of up to {size} pieces"
            if part == "sp"
            else f"counting {types_of(part)}, keeping up to {size},"
        )
        say(f"{doing} on {len(sentences)} distinct sentences")
        make = train_sentencepiece if part == "sp" else partial(count_vocabulary, part)
        files[file] = make(sentences, preprocessing, size)
        found = len(load_tokenizer(part, {file_names(part)[0]: files[file]}, preprocessing))
        if found < size:
            asked = f", fewer than --vocab-size {size}" if vocab_size else ""
            say(f"the text supports {found} {types_of(part)}{asked}")
    return load_tokenizer(name, files, preprocessing)


def train_sentencepiece(
    sentences: Iterable[str], preprocessing: Preprocessing, vocab_size: int
) -> bytes:
    """Train a sentencepiece unigram model of at most ``vocab_size`` pieces on preprocessed text.

    Text with fewer distinct substrings than asked for gives a smaller model, not an error.

    Raises:
        ValueError: if sentencepiece cannot train, with its reason.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(preprocessing.apply, sentences),
            model_writer=model,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=0.9995,
            # Normalised already, and by the same code that will do it in use.
            normalization_rule_name="identity",
            bos_id=-1,
            eos_id=-1,
            num_threads=1,  # the order of threads must not decide the pieces
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"--vocab-size {vocab_size}: sentencepiece could not be trained ({reason}); "
            "give more text or another size"
        ) from error
    return model.getvalue()

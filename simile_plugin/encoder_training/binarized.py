"""Pairs as a folder of flat arrays: written once from text of any size, then memory-mapped.

    ids.bin       uint16 or uint32, known pieces of all sentences one after the other
    offsets.bin   int64 (2n + 1), sentence s is ids[offsets[s]:offsets[s + 1]]
    hashes.bin    uint64 (2n), of the preprocessed sentences; equal sentences have equal hashes
    sentencepiece.model, manifest.json

Sentences 2i and 2i + 1 are the sides of pair i. Numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from simile_plugin import __version__
from simile_plugin.encoder import (
    MIX,
    TOKENS,
    Preprocessing,
    Segmenter,
    Tokenizer,
    file_names,
    load_tokenizer,
    types_of,
)
from simile_plugin.encoder_training.pairs import (
    DEFAULT_SIZE,
    NO_PIECE,
    BadLines,
    Pairs,
    Tokens,
    ids_dtype,
    no_pair,
    of_prepared,
    read_block,
    read_sentencepiece,
    segment_block,
    sentence_hash,
    train_tokenizer,
)
from simile_plugin.encoder_training.tsv import FIRST_TWO, Block, Columns, PairsProgress, TsvInput
from simile_plugin.encoder_training.workers import ordered_map
from simile_plugin.files import InputError, atomic_folder

FORMAT = "simile binarized pairs"
FORMAT_VERSION = 3  # as of encoder folders: older ones where the preprocessing is of old
MANIFEST = "manifest.json"
IDS, OFFSETS, HASHES = "ids.bin", "offsets.bin", "hashes.bin"
OFFSETS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class SegmentedBlock:
    """What a block of lines gives.

    Attributes:
        tokens: of its pairs.
        accepted: the lines that enter the digest of the data.
        bad: (line number, reason) of the lines that gave no pair.
    """

    name: str
    tokens: Tokens
    accepted: bytes
    bad: list[tuple[int, str]]


@dataclass(frozen=True)
class BlockSegmenter:
    """Block of lines -> tokens; picklable, so that it can run in another process."""

    tokenizer: Tokenizer
    columns: Columns

    @cached_property
    def _of_prepared(self) -> Tokenizer:
        return of_prepared(self.tokenizer)

    def __call__(self, block: Block) -> SegmentedBlock:
        """Parse, preprocess, hash and segment."""
        bad: list[tuple[int, str]] = []
        preprocessing = self.tokenizer.preprocessing
        text = read_block(block, self.columns, preprocessing, lambda *line: bad.append(line))
        tokens, usable = segment_block(text, self._of_prepared)
        bad += [(n, NO_PIECE) for n, good in zip(text.numbers, usable, strict=True) if not good]
        return SegmentedBlock(block.name, tokens, text.accepted, sorted(bad))


class _DataFile:
    """A file that is written once, front to back: its bytes and sha256."""

    def __init__(self, path: Path) -> None:
        self.stream: IO[bytes] = open(path, "wb")
        self.sha256 = hashlib.sha256()
        self.bytes = 0

    def write(self, values: NDArray[Any]) -> None:
        data = np.ascontiguousarray(values).data
        self.stream.write(data)
        self.sha256.update(data)
        self.bytes += data.nbytes

    def facts(self) -> dict[str, Any]:
        self.stream.close()
        return {"bytes": self.bytes, "sha256": self.sha256.hexdigest()}


class FolderWriter:
    """Writes the three arrays of a folder block by block.

    Args:
        folder: exists and is empty.
        dtype: of the ids, "<u2" or "<u4".
    """

    def __init__(self, folder: Path, dtype: str) -> None:
        self.folder, self.dtype = folder, dtype
        self.files = {name: _DataFile(folder / name) for name in (IDS, OFFSETS, HASHES)}
        self.sentences = self.tokens = 0
        self.files[OFFSETS].write(np.zeros(1, dtype="<i8"))

    def add(self, tokens: Tokens) -> None:
        """Append sentences; none of them is empty."""
        ids, lengths, hashes = tokens
        ends = self.tokens + np.cumsum(lengths)
        self.files[IDS].write(ids.astype(self.dtype, copy=False))
        self.files[OFFSETS].write(ends.astype("<i8", copy=False))
        self.files[HASHES].write(hashes.astype("<u8", copy=False))
        self.sentences += len(lengths)
        self.tokens += len(ids)

    def finish(self, segmenter: Tokenizer, facts: dict[str, Any]) -> dict[str, Any]:
        """Write the tokeniser's files and manifest.json; returns the manifest."""
        models = {}
        for name, model in segmenter.files.items():
            (self.folder / name).write_bytes(model)
            models[name] = {"bytes": len(model), "sha256": hashlib.sha256(model).hexdigest()}
        sp, drops = segmenter.name == "sp", segmenter.preprocessing.drop_invisible
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION if drops else 1 if sp else 2,
            **({} if sp else {"tokenizer": segmenter.name}),
            "pairs": self.sentences // 2,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "dtype": np.dtype(self.dtype).name,
            "vocab_size": len(segmenter),
            "preprocessing": segmenter.preprocessing.facts,
            **facts,
            "files": {name: file.facts() for name, file in self.files.items()} | models,
            "simile_plugin": __version__,
        }
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (self.folder / MANIFEST).write_text(text, encoding="utf-8")
        return manifest


@dataclass(frozen=True)
class BinarizeOptions:
    """What to binarize and how.

    Attributes:
        paths: TSV files, "-" for standard input.
        output: folder to write.
        preprocessing: of every sentence before segmentation.
        sentencepiece: path of a model, or None to train one.
        vocab_size: of the tokeniser that is trained, an upper limit; 0 for the papers' sizes.
        sample_sentences: distinct sentences that it is trained on, at most.
        columns: that hold the sentences.
        header: the first line of each file is none of them.
        workers: processes.
        tokens: what sentences are split into, one of tokens.TOKENS or several joined by +.
    """

    paths: tuple[str, ...]
    output: str
    preprocessing: Preprocessing
    sentencepiece: str | None = None
    vocab_size: int = 0
    sample_sentences: int = 1_000_000
    columns: Columns = FIRST_TWO
    header: bool = False
    workers: int = 1
    tokens: str = "sp"


def binarize_pairs(options: BinarizeOptions, bad: BadLines) -> dict[str, Any]:
    """Write the folder; one that is there stays whole until the new one is complete.

    Args:
        options: what and how.
        bad: collects the lines that gave no pair.

    Returns:
        the manifest.

    Raises:
        InputError: for bad input, a folder that is not ours to replace, no pair at all, or the
            first bad line if ``bad.strict``.
    """
    source = TsvInput(options.paths, options.header)
    with atomic_folder(options.output, marker=MANIFEST) as folder:
        tokenizer, origin = _tokenizer(options, source, bad.strict)
        job = BlockSegmenter(tokenizer, options.columns)
        writer = FolderWriter(folder, ids_dtype(tokenizer))
        digest = hashlib.sha256()
        with PairsProgress("binarizing", source) as progress:
            for block in ordered_map(job, source.blocks(), options.workers):
                for number, reason in block.bad:
                    bad.add(block.name, number, reason)
                digest.update(block.accepted)
                writer.add(block.tokens)
                progress.add(len(block.tokens.lengths) // 2)
        if not writer.sentences:
            raise no_pair(options.paths, bad)
        facts = {
            "digest": digest.hexdigest()[:16],
            "columns": str(options.columns),
            "skipped_lines": bad.counts,
            "sentencepiece": origin,
        }
        return writer.finish(tokenizer, facts)


def _tokenizer(
    options: BinarizeOptions, source: TsvInput, strict: bool
) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokeniser, given or trained now, and where it is from."""
    given = read_sentencepiece(options.sentencepiece, options.preprocessing)
    if given is not None and options.tokens == "sp":
        return Segmenter(given, options.preprocessing), {"trained": False}
    if source.total is None:
        raise InputError(
            "--vocab-size: standard input or a pipe can be read only once, and training a "
            "sentencepiece model, or counting words, takes a pass of its own; give "
            "--sentencepiece MODEL or a file"
        )
    sample = sample_sentences(source, options.columns, options.sample_sentences, strict)
    sample = list(map(options.preprocessing.apply, sample))
    tokenizer = train_tokenizer(
        options.tokens, sample, options.preprocessing, options.vocab_size, given
    )
    return tokenizer, {
        "trained": True,
        "vocab_size_asked": options.vocab_size or DEFAULT_SIZE.get(options.tokens, 0),
        "sentences": len(sample),
    }


def sample_sentences(
    source: TsvInput, columns: Columns, size: int, strict: bool = False
) -> list[str]:
    """The ``size`` distinct sentences with the smallest hashes, or all if there are fewer.

    The same ones whatever the order of the lines and files; equal to a draw without replacement
    from the distinct sentences. At most a quarter more are in memory at once.

    Raises:
        InputError: if there is no sentence, or for a bad line if ``strict``.
    """
    kept: dict[int, str] = {}
    limit = 1 << 64
    bad = BadLines.of(columns, strict)
    with PairsProgress("sampling", source) as progress:
        for block in source.blocks():
            count = 0
            for key, sentence in _hashed_sentences(block, columns, bad):
                count += 1
                if key < limit:
                    kept[key] = sentence
                    if len(kept) > size + size // 4:
                        limit = heapq.nsmallest(size + 1, kept)[-1]
                        kept = {key: kept[key] for key in kept if key < limit}
            progress.add(count // 2)
    if not kept:
        raise no_pair(source.paths, bad)
    return [kept[key] for key in sorted(kept)[:size]]


def _hashed_sentences(block: Block, columns: Columns, bad: BadLines) -> Iterator[tuple[int, str]]:
    report = partial(bad.add, block.name)
    for number, line in block.lines(report):
        pairs, reason = columns.pairs(line)
        if reason is not None:
            report(number, reason)
        for pair in pairs:
            for sentence in pair:
                if sentence.strip():
                    yield sentence_hash(sentence), sentence


def are_binarized(paths: Sequence[str]) -> bool:
    """Whether the pairs to train on are one folder made by binarize_pairs, not files."""
    return len(paths) == 1 and (Path(paths[0]) / MANIFEST).is_file()


def open_binarized(folder: str | Path) -> Pairs:
    """Map a folder into memory; all of it is read once, to check it, and nothing is kept loaded.

    Args:
        folder: as binarize_pairs writes it.

    Raises:
        InputError: naming the folder or file, if a part is missing, truncated, changed, foreign or
            of a newer format.
    """
    root = Path(folder)
    manifest = read_manifest(root)
    sizes = {
        IDS: manifest["tokens"] * np.dtype(manifest["dtype"]).itemsize,
        OFFSETS: 8 * (manifest["sentences"] + 1),
        HASHES: 8 * manifest["sentences"],
    }
    for name, size in sizes.items():
        _check_file(root / name, size, manifest)
    for name in tokenizer_files(manifest):
        _check_file(root / name, None, manifest)
    offsets = _mapped(root / OFFSETS, "<i8")
    if offsets[0] != 0 or offsets[-1] != manifest["tokens"]:
        raise InputError(
            f"{root / OFFSETS}: runs from {offsets[0]} to {offsets[-1]}, expected 0 to "
            f"{manifest['tokens']}; binarize the pairs again"
        )
    ids = _mapped(root / IDS, np.dtype(manifest["dtype"]).newbyteorder("<"))
    _check_numbers(root, ids, offsets, manifest["vocab_size"])
    return Pairs(
        ids=ids,
        offsets=offsets,
        hashes=_mapped(root / HASHES, "<u8"),
        digest=manifest["digest"],
    )


def _check_numbers(
    root: Path, ids: NDArray[np.integer], offsets: NDArray[np.int64], vocab_size: int
) -> None:
    """A manifest can agree with files that no version has written: look at what they say."""
    largest = int(ids.max())
    if largest >= vocab_size:
        raise InputError(
            f"{root / IDS}: got piece {largest}, expected pieces below {vocab_size} "
            f"(vocab_size of {MANIFEST}); binarize the pairs again"
        )
    for start in range(0, len(offsets) - 1, OFFSETS_AT_ONCE):
        rising = np.diff(offsets[start : start + OFFSETS_AT_ONCE + 1]) > 0
        if not rising.all():
            sentence = start + int(rising.argmin())
            raise InputError(
                f"{root / OFFSETS}: sentence {sentence} runs from {offsets[sentence]} to "
                f"{offsets[sentence + 1]}; binarize the pairs again"
            )


def tokenizer_files(manifest: dict[str, Any]) -> list[str]:
    """Names of the tokeniser's files."""
    return file_names(manifest.get("tokenizer", "sp"))


def binarized_segmenter(folder: str | Path) -> Tokenizer:
    """The tokeniser with the preprocessing that a folder was made with.

    Raises:
        InputError: as open_binarized.
    """
    root = Path(folder)
    manifest = read_manifest(root)
    names = tokenizer_files(manifest)
    for name in names:
        _check_file(root / name, None, manifest)
    tokens = manifest.get("tokenizer", "sp")
    preprocessing = Preprocessing.of_facts(manifest["preprocessing"])
    assert preprocessing is not None, "read_manifest looked at it"
    try:
        files = {name: (root / name).read_bytes() for name in names}
        segmenter = load_tokenizer(tokens, files, preprocessing)
    except ValueError as error:
        raise InputError(f"{root}/{error}") from error
    if len(segmenter) != manifest["vocab_size"]:
        raise InputError(
            f"{root / names[0]}: has {len(segmenter)} {types_of(tokens)}, but {MANIFEST} says "
            f"{manifest['vocab_size']}; binarize the pairs again"
        )
    return segmenter


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """``manifest.json`` with every key that is needed, of the right type.

    Raises:
        InputError: naming the file, if it is missing, not valid, foreign or of a newer format.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder}: no {MANIFEST} there, expected a folder of binarized pairs; "
            "make one with `simile binarize-pairs`"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path}: is no manifest of binarized pairs (format: {FORMAT!r})")
    version = manifest.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"{path}: format_version {version} is newer than {FORMAT_VERSION}, the newest this "
            "version reads; update simile-plugin or binarize the pairs again"
        )
    for key in ("pairs", "sentences", "tokens", "vocab_size"):
        if type(manifest.get(key)) is not int or manifest[key] < 1:
            raise InputError(f"{path}: {key}: got {manifest.get(key)!r}, expected a number above 0")
    parts = manifest.get("files")
    checks = {
        "tokenizer": set(str(manifest.get("tokenizer", "sp")).split(MIX)) <= set(TOKENS),
        "sentences": manifest["sentences"] == 2 * manifest["pairs"],
        "dtype": manifest.get("dtype") in ("uint16", "uint32"),
        "digest": isinstance(manifest.get("digest"), str),
        "preprocessing": Preprocessing.of_facts(manifest.get("preprocessing")) is not None,
        "files": isinstance(parts, dict)
        and all(
            isinstance(parts.get(name), dict) and isinstance(parts[name].get("sha256"), str)
            for name in (IDS, OFFSETS, HASHES, *tokenizer_files(manifest))
        ),
    }
    for key, good in checks.items():
        if not good:
            raise InputError(
                f"{path}: {key}: got {manifest.get(key)!r}, which no version has written; "
                "binarize the pairs again"
            )
    return manifest


def _check_file(path: Path, size: int | None, manifest: dict[str, Any]) -> None:
    """Compare the size with that the counts give, and the content with the manifest."""
    if not path.is_file():
        raise InputError(f"{path.parent}: {path.name} is missing; binarize the pairs again")
    found = path.stat().st_size
    if size is not None and found != size:
        raise InputError(
            f"{path}: has {found} bytes, expected {size}: truncated or of another folder; "
            "copy it again or binarize the pairs again"
        )
    with open(path, "rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 != manifest["files"][path.name]["sha256"]:
        raise InputError(
            f"{path}: its sha256 is not that of {MANIFEST}: changed or of another folder; "
            "copy it again or binarize the pairs again"
        )


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    # A plain array over the map: indexing a memmap makes memmaps, which is slow.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")).view(np.ndarray)

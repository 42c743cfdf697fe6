"""Pairs as a folder of flat arrays: written once from text of any size, then memory-mapped.

    ids.bin       uint16 or uint32, known pieces of all sentences, concatenated
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simile_plugin import __version__
from simile_plugin.encoder import Preprocessing, Segmenter, Tokenizer, file_names, load_tokenizer
from simile_plugin.encoder_training.config import COUNT
from simile_plugin.encoder_training.options import ColumnFiles, TextOptions, data, text
from simile_plugin.encoder_training.pairs import (
    NO_PIECE,
    BadLines,
    Pairs,
    Tokens,
    ids_dtype,
    read_block,
    segment_block,
    sentence_hash,
)
from simile_plugin.encoder_training.tokenizers import (
    DEFAULT_SIZE,
    of_prepared,
    read_sentencepiece,
    train_tokenizer,
)
from simile_plugin.encoder_training.tsv import Block, Columns, PairsProgress, TsvInput
from simile_plugin.encoder_training.workers import choose_workers, ordered_map
from simile_plugin.files import (
    FILE,
    InputError,
    atomic_folder,
    refuse_overwriting_input,
    refuse_unasked_overwrite,
)

FORMAT = "simile binarized pairs"
FORMAT_VERSION = 3  # 1 and 2 where the preprocessing keeps invisible characters
MANIFEST = "manifest.json"
IDS, OFFSETS, HASHES = "ids.bin", "offsets.bin", "hashes.bin"


@dataclass(frozen=True)
class BinarizeOptions(TextOptions, ColumnFiles):
    """Flags of `simile binarize-pairs`."""

    output: str = data("folder to write", metavar="DIR", range=FILE)
    overwrite: bool = data("replace the pairs that are in --output", False)
    tokens: str = text(
        "what sentences are split into: sp (sentencepiece pieces), word, trigram (of characters); "
        "with + between them for a mixture (default %(default)s)",
        "sp",
    )
    sample_sentences: int = text(
        "distinct sentences at most that sentencepiece is trained on, or words are counted on; the "
        "training of sentencepiece takes about 2 KB of memory for each (default %(default)s: 2 GB, "
        "a few minutes)",
        1_000_000,
        range=COUNT,
    )


@dataclass(frozen=True)
class BlockSegmenter:
    """Block of lines -> its tokens, accepted lines, and (line number, reason) of its bad lines.

    Picklable, so that it can run in another process.
    """

    tokenizer: Tokenizer
    columns: Columns

    @cached_property
    def _of_prepared(self) -> Tokenizer:
        return of_prepared(self.tokenizer)

    def __call__(self, block: Block) -> tuple[str, Tokens, bytes, list[tuple[int, str]]]:
        bad: list[tuple[int, str]] = []
        preprocessing = self.tokenizer.preprocessing
        pairs = read_block(block, self.columns, preprocessing, lambda *line: bad.append(line))
        tokens, usable = segment_block(pairs, self._of_prepared)
        bad += [(n, NO_PIECE) for n, good in zip(pairs.numbers, usable, strict=True) if not good]
        return block.name, tokens, pairs.accepted, sorted(bad)


class FolderWriter:
    """Writes the three arrays of an empty folder block by block; dtype: of the ids."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.folder, self.dtype = folder, dtype
        self.files = {name: open(folder / name, "wb") for name in (IDS, OFFSETS, HASHES)}
        self.sentences = self.tokens = 0
        self.files[OFFSETS].write(bytes(8))

    def add(self, tokens: Tokens) -> None:
        """Append sentences; none of them is empty."""
        ids, lengths, hashes = tokens
        ends = self.tokens + np.cumsum(lengths)
        self.files[IDS].write(ids.astype(self.dtype).data)
        self.files[OFFSETS].write(ends.astype("<i8").data)
        self.files[HASHES].write(hashes.astype("<u8").data)
        self.sentences += len(lengths)
        self.tokens += len(ids)

    def finish(self, segmenter: Tokenizer, facts: dict[str, Any]) -> dict[str, Any]:
        """Write the tokeniser's files and manifest.json; returns the manifest."""
        for file in self.files.values():
            file.close()
        for name, model in segmenter.files.items():
            (self.folder / name).write_bytes(model)
        paths = [self.folder / name for name in (*self.files, *segmenter.files)]
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
            "files": {
                path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in paths
            },
            "simile_plugin": __version__,
        }
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (self.folder / MANIFEST).write_text(text, encoding="utf-8")
        return manifest


def binarize_pairs(options: BinarizeOptions) -> dict[str, Any]:
    """Write the folder; an old folder stays whole until the new folder is complete.

    Returns:
        the manifest.

    Raises:
        InputError: for bad input, a folder that is not ours, no pair, or a bad line if strict.
    """
    try:
        file_names(options.tokens)
    except InputError as error:
        raise InputError(f"--tokens: {error}") from error
    options.check_tokens(options.tokens)
    refuse_overwriting_input(options.output, options.pairs)
    refuse_unasked_overwrite(options.output, MANIFEST, "binarized pairs", options.overwrite)
    source = TsvInput(options.pairs, options.header, options.chosen)
    workers, bad = choose_workers(options.workers, source.total), BadLines(options.strict)
    with atomic_folder(options.output, marker=MANIFEST) as folder:
        tokenizer, origin = _tokenizer(options, source)
        job = BlockSegmenter(tokenizer, options.chosen)
        writer = FolderWriter(folder, ids_dtype(tokenizer))
        digest = hashlib.sha256()
        with PairsProgress("binarizing", source) as progress:
            for name, tokens, accepted, wrong in ordered_map(job, source.blocks(), workers):
                for number, reason in wrong:
                    bad.add(name, number, reason)
                digest.update(accepted)
                writer.add(tokens)
                progress.add(len(tokens.lengths) // 2)
        if not writer.sentences:
            raise bad.no_pair(options.pairs)
        bad.warn()
        facts = {
            "digest": digest.hexdigest()[:16],
            "columns": str(options.chosen),
            "skipped_lines": bad.counts,
            "sentencepiece": origin,
        }
        return writer.finish(tokenizer, facts)


def _tokenizer(options: BinarizeOptions, source: TsvInput) -> tuple[Tokenizer, dict[str, Any]]:
    """Return the tokeniser, given or trained now, and where it is from."""
    given = read_sentencepiece(options.sentencepiece, options.preprocessing)
    if given is not None and options.tokens == "sp":
        return Segmenter(given, options.preprocessing), {"trained": False}
    if source.total is None:
        raise InputError(
            "--vocab-size: standard input or a pipe can be read only once, and training a "
            "sentencepiece model, or counting words, takes a pass before; give "
            "--sentencepiece MODEL or a file"
        )
    sample = sample_sentences(source, options.chosen, options.sample_sentences, options.strict)
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
    """Return the ``size`` distinct sentences with the smallest hashes, or all if there are fewer.

    This is a draw without replacement from the distinct sentences, which does not depend on the
    order of lines and files. At most a quarter more sentences are in memory at once.
    """
    kept: dict[int, str] = {}
    limit = 1 << 64
    bad = BadLines(strict)
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
        raise bad.no_pair(source.paths)
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
    """Return True where the pairs to train on are a folder of binarize_pairs, not files."""
    return len(paths) == 1 and (Path(paths[0]) / MANIFEST).is_file()


def open_binarized(folder: str | Path) -> tuple[Pairs, Tokenizer]:
    """Map a folder into memory; it is read once as a check, and nothing stays loaded.

    Returns:
        the pairs, and the tokeniser with the preprocessing that they were made with.

    Raises:
        InputError: for a part that is missing, truncated, changed, foreign or of a newer format.
    """
    root = Path(folder)
    manifest = read_manifest(root)
    tokens = manifest.get("tokenizer", "sp")
    try:
        names = file_names(tokens)
    except InputError as error:
        raise InputError(f"{root / MANIFEST}: tokenizer: {error}") from error
    ids = np.dtype(manifest["dtype"]).newbyteorder("<")
    sentences = manifest["sentences"]
    _check_file(root / IDS, ids.itemsize * manifest["tokens"], manifest)
    _check_file(root / OFFSETS, 8 * (sentences + 1), manifest)
    _check_file(root / HASHES, 8 * sentences, manifest)
    for name in names:
        _check_file(root / name, None, manifest)
    try:
        files = {name: (root / name).read_bytes() for name in names}
        preprocessing = Preprocessing.of_facts(manifest["preprocessing"])
        assert preprocessing is not None, "read_manifest checks it"
        tokenizer = load_tokenizer(tokens, files, preprocessing)
    except ValueError as error:
        raise InputError(f"{root}/{error}") from error
    pairs = Pairs(
        ids=_mapped(root / IDS, ids),
        offsets=_mapped(root / OFFSETS, "<i8"),
        hashes=_mapped(root / HASHES, "<u8"),
        digest=manifest["digest"],
    )
    if len(tokenizer) != manifest["vocab_size"] or pairs.ids.max() >= len(tokenizer):
        raise InputError(
            f"{root}: the tokeniser has {len(tokenizer)} tokens, and the pairs have been made with "
            "another one; binarize the pairs again"
        )
    return pairs, tokenizer


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Read ``manifest.json`` and check that every key is there, of the right type.

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
    checks = {
        **{
            key: type(manifest.get(key)) is int and manifest[key] > 0
            for key in ("pairs", "sentences", "tokens", "vocab_size")
        },
        "tokenizer": isinstance(manifest.get("tokenizer", "sp"), str),
        "dtype": manifest.get("dtype") in ("uint16", "uint32"),
        "digest": isinstance(manifest.get("digest"), str),
        "preprocessing": Preprocessing.of_facts(manifest.get("preprocessing")) is not None,
        "files": isinstance(manifest.get("files"), dict)
        and all(isinstance(part, dict) for part in manifest["files"].values()),
    }
    for key, good in checks.items():
        if not good:
            raise InputError(
                f"{path}: {key}: got {manifest.get(key)!r}, which no version has written; "
                "binarize the pairs again"
            )
    return manifest


def _check_file(path: Path, size: int | None, manifest: dict[str, Any]) -> None:
    """Raise InputError unless the file has this size, and the digest of the manifest."""
    if not path.is_file():
        raise InputError(f"{path.parent}: {path.name} is missing; binarize the pairs again")
    actual = path.stat().st_size
    if size is not None and actual != size:
        raise InputError(
            f"{path}: has {actual} bytes, expected {size}: truncated or of another folder; "
            "copy it again or binarize the pairs again"
        )
    if _sha256(path) != manifest["files"].get(path.name, {}).get("sha256"):
        raise InputError(
            f"{path}: its sha256 is not that of {MANIFEST}: changed or of another folder; "
            "copy it again or binarize the pairs again"
        )


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    # A plain array over the map: indexing a memmap makes memmaps, which is slow.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")).view(np.ndarray)

"""The papers' filters of paraphrase pairs, line by line, each with a count of what it removed."""

from __future__ import annotations

import gzip
import math
import multiprocessing
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from html import unescape
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder import Preprocessing, language_classifier, split_words
from simile_plugin.encoder_training.config import COUNT
from simile_plugin.encoder_training.options import ColumnFiles, data
from simile_plugin.encoder_training.pairs import BadLines, sentence_hash
from simile_plugin.encoder_training.tsv import Block, PairsProgress, TsvInput
from simile_plugin.encoder_training.workers import choose_workers, ordered_map
from simile_plugin.files import (
    FILE,
    InputError,
    Range,
    atomic_write,
    check_outputs,
    finite_number,
    option,
)

# Filters compare words, whatever their case and the spaces around punctuation.
COMPARED = Preprocessing()
SCORE, LENGTH, OVERLAP, LANGUAGE = "score", "length", "overlap", "language"
EXCLUDED, DUPLICATE, NEAR_DUPLICATE = "excluded", "duplicate", "near-duplicate"
SHARE, NOT_NEGATIVE = Range.within(0, 1), Range.at_least(0)
filters = partial(option, group="filters")


@dataclass(frozen=True)
class FilterOptions(ColumnFiles):
    """Flags of `simile filter-pairs`: conditions on a pair; bounds are inclusive."""

    output: str | None = data(
        "file to write, .gz by its name (default: standard output)", None, metavar="FILE"
    )
    score_column: int | None = filters("column of the paraphrase score, from 1", None, range=COUNT)
    encoder: str | None = filters(
        "the score is this encoder's cosine of the sides", None, metavar="DIR", range=FILE
    )
    min_score: float | None = filters("lowest score that is kept", None)
    min_tokens: int | None = filters(
        "fewest words of a side; punctuation counts, and each letter of a script without spaces",
        None,
        range=NOT_NEGATIVE,
    )
    max_tokens: int | None = filters("most words of a side", None, range=NOT_NEGATIVE)
    max_overlap: float = filters(
        "largest trigram overlap, 1: all pairs (default and papers: %(default)s). A side of one or "
        "two words is compared by words or bigrams",
        0.2,
        range=SHARE,
    )
    language: str | None = filters(
        "ISO 639-1 code, as en; needs the package py3langid", None, metavar="CODE"
    )
    keep_duplicates: bool = filters("keep a pair that came before", False)
    near_duplicates: bool = filters("remove near duplicates too", False)
    exclude: list[str] = option(
        "evaluation files (STS.input.*.txt, judgements, any TSV or text): pairs with a sentence "
        "that is a column of a line there are removed; compared without case, punctuation and "
        "spaces",
        [],
        nargs="+",
        metavar="FILE",
        range=FILE,
        group="filters",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        scored = self.score_column is not None or self.encoder is not None
        if self.score_column is not None and self.encoder is not None:
            raise InputError("--score-column and --encoder: give one of them, not both")
        if scored != (self.min_score is not None):
            raise InputError(
                "--min-score: is for a score, and a score for it; give it with --score-column or "
                "--encoder, or none of them"
            )
        low, high = self.min_tokens, self.max_tokens
        if low is not None and high is not None and low > high:
            raise InputError(f"--min-tokens {low} is above --max-tokens {high}: no pair could stay")

    @property
    def active(self) -> list[str]:
        """Names of the filters that are on, in the order they are applied.

        Only the score of an encoder comes later, after the language: it costs most.
        """
        on = {
            SCORE: self.min_score is not None,
            LENGTH: self.min_tokens is not None or self.max_tokens is not None,
            OVERLAP: self.max_overlap < 1,
            EXCLUDED: bool(self.exclude),
            LANGUAGE: self.language is not None,
            DUPLICATE: not self.keep_duplicates,
            NEAR_DUPLICATE: self.near_duplicates,
        }
        return [name for name, is_on in on.items() if is_on]


def trigram_overlap(left: Sequence[str], right: Sequence[str]) -> float:
    """Return word trigrams in common (as often as in both) / trigrams of the shorter side.

    In [0, 1]. A side of one or two words has no trigram: then bigrams or words take their place, so
    that a short copy counts as a copy.
    """
    shorter = min(len(left), len(right))
    size = min(3, shorter)
    if size == 0:
        return 0.0
    grams = [
        Counter(zip(*(words[i:] for i in range(size)), strict=False)) for words in (left, right)
    ]
    return (grams[0] & grams[1]).total() / (shorter - size + 1)


class _Only(dict[int, str | None]):
    """Translation table that deletes every character whose category begins otherwise."""

    def __init__(self, categories: str) -> None:
        super().__init__()
        self.categories = categories

    def __missing__(self, codepoint: int) -> str | None:
        char = chr(codepoint)
        kept = self[codepoint] = char if unicodedata.category(char)[0] in self.categories else None
        return kept


_LETTERS, _LETTERS_AND_DIGITS = _Only("LM"), _Only("LMN")


def without_punctuation(prepared: str) -> str:
    """Return letters and digits of a preprocessed sentence: tokenisers differ in all else."""
    return prepared.translate(_LETTERS_AND_DIGITS)


def _exclusion_key(sentence: str, prepared: str) -> int:
    if "&" in sentence:  # Moses' &apos;
        prepared = COMPARED.apply(unescape(sentence))
    return sentence_hash(without_punctuation(prepared))


def letters_only(prepared: str) -> str:
    """Return the letters of a preprocessed sentence, or the sentence if it has none."""
    return prepared.translate(_LETTERS) or prepared


def pair_key(left: str, right: str) -> int:
    """Return a 64-bit hash of a pair in either order."""
    return sentence_hash("\t".join(sorted((left, right))))


def read_exclusions(paths: Sequence[str]) -> frozenset[int]:
    """Return hashes of the sentences of evaluation files: every column that has a letter.

    Compared without case, punctuation and spaces, and without Moses' escapes (&apos;), so that
    tokenised sentences are excluded, too.

    Raises:
        InputError: for a file that is not UTF-8 text, has no sentence, or has its cells in a format
            in which they would not be found.
    """
    keys: set[int] = set()
    for path in paths:
        if found := {".csv", ".json", ".jsonl"}.intersection(Path(path).suffixes):
            raise InputError(
                f"--exclude: {path}: got {found.pop()}, whose sentences would not be found; "
                "expected a sentence a line, or columns with TABs between them"
            )
        bad, sentences = BadLines(), 0
        for block in TsvInput([path]).blocks():
            for _, line in block.lines(partial(bad.add, block.name)):
                for cell in line.split("\t"):
                    prepared = COMPARED.apply(unescape(cell))
                    if prepared.translate(_LETTERS):
                        keys.add(sentence_hash(without_punctuation(prepared)))
                        sentences += 1
        if bad.total or not sentences:
            reason = bad.examples[0] if bad.total else f"{path}: no sentence in it"
            raise InputError(f"--exclude: {reason}; its sentences could not be excluded")
    return frozenset(keys)


@dataclass
class _Candidate:
    """A pair on its way through the filters."""

    text: str  # the line to write
    raw: tuple[str, str]
    prepared: tuple[str, str]
    score: float = math.nan

    @cached_property
    def words(self) -> list[list[str]]:
        return [split_words(side) for side in self.prepared]


@dataclass(frozen=True)
class FilteredBlock:
    """The pairs of a block that passed its filters; duplicates of other blocks are still there."""

    name: str
    lines: list[bytes]  # of these pairs
    keys: NDArray[np.uint64]  # equal for exact duplicates
    near_keys: NDArray[np.uint64]  # equal for near duplicates
    read: int  # pairs of the block
    removed: Counter[str]  # pairs under the first filter that removed them
    bad: list[tuple[int, str]]  # number and reason of the lines that gave no pair


@dataclass(frozen=True)
class BlockFilter:
    """All filters of a single pair; picklable, to run in another process."""

    options: FilterOptions
    exclusions: frozenset[int] = frozenset()

    def __call__(self, block: Block) -> FilteredBlock:
        bad: list[tuple[int, str]] = []
        removed: Counter[str] = Counter()
        kept = candidates = self._candidates(block, bad)
        for name, passes in self._filters():
            if name == SCORE and kept and self.options.encoder is not None:
                self._add_similarities(kept)
            before = len(kept)
            kept = [pair for pair in kept if passes(pair)]
            removed[name] += before - len(kept)
        near = [tuple(map(letters_only, pair.prepared)) for pair in kept]
        return FilteredBlock(
            name=block.name,
            lines=[f"{pair.text}\n".encode() for pair in kept],
            keys=np.array([pair_key(*pair.prepared) for pair in kept], dtype=np.uint64),
            near_keys=np.array([pair_key(*sides) for sides in near], dtype=np.uint64),
            read=len(candidates),
            removed=removed,
            bad=sorted(bad),
        )

    def _candidates(self, block: Block, bad: list[tuple[int, str]]) -> list[_Candidate]:
        columns = self.options.chosen
        candidates: list[_Candidate] = []
        for number, line in block.lines(lambda *fault: bad.append(fault)):
            pairs, reason = columns.pairs(line)
            score = self._score(line)
            if reason is None and score is None:
                reason = f"no score in column {self.options.score_column}"
            if reason is not None or score is None:
                bad.append((number, reason or ""))
                continue
            for raw in pairs:
                prepared = COMPARED.apply(raw[0]), COMPARED.apply(raw[1])
                if all(prepared):
                    text = "\t".join(raw) if columns.is_cluster else line
                    candidates.append(_Candidate(text, raw, prepared, score))
                else:
                    bad.append((number, "empty side"))
        return candidates

    def _score(self, line: str) -> float | None:
        """Return the score of a line, NaN without --score-column, None if it is no number."""
        if self.options.score_column is None:
            return math.nan
        cells = line.split("\t", self.options.score_column)
        place = self.options.score_column - 1
        return finite_number(cells[place]) if place < len(cells) else None

    def _filters(self) -> Iterator[tuple[str, Callable[[_Candidate], bool]]]:
        """Yield names and filters, cheap ones first; the first that removes a pair counts it."""
        options = self.options
        if options.score_column is not None:
            yield SCORE, self._scores_enough
        if LENGTH in options.active:
            low = options.min_tokens or 0
            high = math.inf if options.max_tokens is None else options.max_tokens
            yield LENGTH, lambda pair: all(low <= len(words) <= high for words in pair.words)
        if OVERLAP in options.active:
            yield OVERLAP, lambda pair: trigram_overlap(*pair.words) <= options.max_overlap
        if self.exclusions:
            yield EXCLUDED, self._is_not_excluded
        if options.language is not None:
            yield LANGUAGE, self._is_in_language
        if options.encoder is not None:
            yield SCORE, self._scores_enough

    def _scores_enough(self, pair: _Candidate) -> bool:
        return self.options.min_score is None or pair.score >= self.options.min_score

    def _is_not_excluded(self, pair: _Candidate) -> bool:
        keys = map(_exclusion_key, pair.raw, pair.prepared)
        return not any(key in self.exclusions for key in keys)

    @cached_property
    def _classify(self) -> Callable[[str], tuple[str, float]]:
        return language_classifier(self.options.language or "")

    def _is_in_language(self, pair: _Candidate) -> bool:
        return all(self._classify(side)[0] == self.options.language for side in pair.raw)

    @cached_property
    def _encoder(self) -> Any:
        import torch

        from simile_plugin.encoder import load_encoder

        if multiprocessing.parent_process() is not None:
            torch.set_num_threads(1)  # the workers share the cores out among themselves
        return load_encoder(self.options.encoder or "")

    def _add_similarities(self, pairs: Sequence[_Candidate]) -> None:
        """Make the encoder's cosine of the sides the score of each pair."""
        from simile_plugin.evaluation import similarities

        sims = similarities(self._encoder, [p.raw[0] for p in pairs], [p.raw[1] for p in pairs])
        for pair, sim in zip(pairs, sims.tolist(), strict=True):
            pair.score = sim


class SeenKeys:
    """A growing set of 64-bit keys at 8 bytes each (twice that while it grows).

    Sorted runs, each less than half as long as the run before: a look-up searches log(n) runs.
    """

    def __init__(self) -> None:
        self.runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add keys (m,); return a mask of the new keys, of equal ones the first."""
        distinct, first = np.unique(keys, return_index=True)
        seen = np.zeros(len(distinct), dtype=bool)
        for run in self.runs:
            places = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            seen |= run[places] == distinct
        new = np.zeros(len(keys), dtype=bool)
        new[first[~seen]] = True
        if not seen.all():
            self.runs.append(distinct[~seen])
        while len(self.runs) > 1 and 2 * len(self.runs[-1]) >= len(self.runs[-2]):
            merged = np.concatenate([self.runs.pop(), self.runs.pop()])
            merged.sort(kind="stable")  # merges sorted runs in linear time
            self.runs.append(merged)
        return new


def filter_pairs(options: FilterOptions) -> dict[str, Any]:
    """Write the lines whose pairs pass every filter; the two-column lines of clusters.

    The output is gzip if its name ends in .gz, and written under another name until it is complete.

    Returns:
        counts: "read" and "kept" pairs, "removed" under the first filter that did, and
        "skipped_lines" by reason.
    """
    _check_files(options)
    source = TsvInput(options.pairs, options.header, options.chosen)
    workers, bad = choose_workers(options.workers, source.total), BadLines(options.strict)
    job = BlockFilter(options, read_exclusions(options.exclude))
    if options.language is not None:
        language_classifier(options.language)  # fails now rather than in a worker
    removed = dict.fromkeys(options.active, 0)
    read = kept = 0
    seen = {DUPLICATE: SeenKeys(), NEAR_DUPLICATE: SeenKeys()}
    with _writer(options.output) as stream, PairsProgress("filtering", source) as progress:
        for block in ordered_map(job, source.blocks(), workers):
            for number, reason in block.bad:
                bad.add(block.name, number, reason)
            read += block.read
            for name, count in block.removed.items():
                removed[name] += count
            keep = np.ones(len(block.lines), dtype=bool)
            for name, keys in ((DUPLICATE, block.keys), (NEAR_DUPLICATE, block.near_keys)):
                if name in removed:
                    places = np.flatnonzero(keep)
                    new = seen[name].add(keys[places])
                    keep[places[~new]] = False
                    removed[name] += int((~new).sum())
            kept += int(keep.sum())
            stream.writelines(line for line, good in zip(block.lines, keep, strict=True) if good)
            progress.add(block.read)
        if not read:
            raise bad.no_pair(source.paths)
    bad.warn()
    return {"read": read, "kept": kept, "removed": removed, "skipped_lines": bad.counts}


def _check_files(options: FilterOptions) -> None:
    if "-" in options.pairs and "-" in options.exclude:
        raise InputError("PAIRS, --exclude: only one of them can be - (standard input)")
    if options.output is not None and options.output.endswith(".zst"):
        raise InputError("--output: .zst is read but not written; name a .gz or a plain file")
    inputs = [*options.pairs, *options.exclude, options.encoder]
    check_outputs({"--output": options.output}, inputs)


@contextmanager
def _writer(output: str | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_write(output, "wb") as stream:
        if output.endswith(".gz"):
            # Without name and time: the same pairs give the same bytes.
            with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield stream

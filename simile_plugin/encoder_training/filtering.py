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
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import unescape
from typing import IO

import numpy as np
from numpy.typing import NDArray

from simile_plugin.encoder import Preprocessing, split_words
from simile_plugin.encoder_training.deciles import Decile, Tally, merge_tallies
from simile_plugin.encoder_training.pairs import BadLines, no_pair, sentence_hash
from simile_plugin.encoder_training.tsv import FIRST_TWO, Block, Columns, PairsProgress, TsvInput
from simile_plugin.encoder_training.workers import ordered_map
from simile_plugin.files import InputError, atomic_write, finite_number

# Filters compare words; case and the spacing of punctuation must not decide.
COMPARED = Preprocessing()
SCORE, LENGTH, OVERLAP, LANGUAGE = "score", "length", "overlap", "language"
EXCLUDED, DUPLICATE, NEAR_DUPLICATE = "excluded", "duplicate", "near-duplicate"


@dataclass(frozen=True)
class FilterOptions:
    """What must hold of a pair; None, False, or an overlap from 0 to 1 switch a filter off.

    Attributes:
        columns: that hold the sentences.
        score_column: column of the paraphrase score, from 0.
        encoder: folder of an encoder whose cosine is the score instead.
        min_score, max_score: bounds of the score, inclusive.
        min_tokens, max_tokens: bounds of the words of each side, inclusive; punctuation counts, and
            each letter of a script without spaces.
        min_overlap, max_overlap: bounds of trigram_overlap, inclusive.
        language: ISO 639-1 code that both sides must be identified as.
        duplicates: remove a pair that came before, in either order.
        near_duplicates: also one that differs in nothing but case, digits, punctuation and spaces.
        deciles: also count what each filter that looks at one pair alone would remove of all pairs.
    """

    columns: Columns = FIRST_TWO
    score_column: int | None = None
    encoder: str | None = None
    min_score: float | None = None
    max_score: float | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_overlap: float = 0.0
    max_overlap: float = 1.0
    language: str | None = None
    duplicates: bool = True
    near_duplicates: bool = False
    deciles: bool = False

    def __post_init__(self) -> None:
        """Raise InputError naming the flag of a value that makes no sense."""
        scored = self.score_column is not None or self.encoder is not None
        bounded = self.min_score is not None or self.max_score is not None
        if self.score_column is not None and self.encoder is not None:
            raise InputError("--score-column and --encoder: give one of them, not both")
        if self.score_column is not None and self.columns.ppdb:
            raise InputError(
                f"--score-column: got {self.score_column + 1}, but PPDB's lines have no columns "
                "between TABs; leave it out, or let --encoder score the pairs"
            )
        if bounded and not scored:
            raise InputError("--min-score, --max-score: need --score-column or --encoder")
        if scored and not bounded:
            flag = "--encoder" if self.score_column is None else "--score-column"
            raise InputError(f"{flag}: removes nothing without --min-score or --max-score")
        lengths = self.min_tokens is not None or self.max_tokens is not None
        if self.deciles and not (scored or lengths or self._bounds_overlap):
            raise InputError(
                "--deciles: no filter with a score is on; give --score-column or --encoder, "
                "--min-tokens, --max-tokens, --min-overlap above 0, or --max-overlap below 1"
            )
        for name in ("min_overlap", "max_overlap"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InputError(f"--{name.replace('_', '-')}: got {value}, expected 0 to 1")
        for what in ("score", "tokens", "overlap"):
            low, high = f"min_{what}", f"max_{what}"
            lowest, highest = getattr(self, low), getattr(self, high)
            for name, value in ((low, lowest), (high, highest)):
                if value is not None and not math.isfinite(value):
                    raise InputError(f"--{name.replace('_', '-')}: got {value}, expected a number")
                if name.endswith("tokens") and value is not None and value < 0:
                    raise InputError(f"--{name.replace('_', '-')}: got {value}, expected 0 or more")
            if lowest is not None and highest is not None and lowest > highest:
                flags = f"--{low} {lowest} is above --{high} {highest}".replace("_", "-")
                raise InputError(f"{flags}: no pair could stay")

    @property
    def _bounds_overlap(self) -> bool:
        return self.min_overlap > 0 or self.max_overlap < 1

    @property
    def active(self) -> list[str]:
        """Names of the filters that are on, in the order they are applied.

        Only the score of an encoder, which costs most, is looked at after the language.
        """
        on = {
            SCORE: self.score_column is not None or self.encoder is not None,
            LENGTH: self.min_tokens is not None or self.max_tokens is not None,
            OVERLAP: self._bounds_overlap,
            EXCLUDED: True,
            LANGUAGE: self.language is not None,
            DUPLICATE: self.duplicates,
            NEAR_DUPLICATE: self.near_duplicates,
        }
        return [name for name, is_on in on.items() if is_on]


@dataclass
class FilterReport:
    """What a run of the filters did.

    Attributes:
        read: pairs that were looked at.
        kept: pairs that were written.
        removed: pairs under the first filter that removed them.
        deciles: score / length / overlap -> its tenths, if they were asked for.
    """

    read: int = 0
    kept: int = 0
    removed: dict[str, int] = field(default_factory=dict)
    deciles: dict[str, list[Decile]] = field(default_factory=dict)


def trigram_overlap(left: Sequence[str], right: Sequence[str]) -> float:
    """Word trigrams in common (as often as in both) / trigrams of the shorter side, in [0, 1].

    A side of one or two words is short of trigrams: then bigrams or words, as long as it is, take
    their place, so that a short copy counts as one.
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
        kept = unicodedata.category(chr(codepoint))[0] in self.categories
        value = chr(codepoint) if kept else None
        self[codepoint] = value
        return value


_LETTERS, _LETTERS_AND_DIGITS = _Only("LM"), _Only("LMN")


def without_punctuation(prepared: str) -> str:
    """Letters and digits of a preprocessed sentence, without spaces: tokenisers differ in them."""
    return prepared.translate(_LETTERS_AND_DIGITS)


def _exclusion_key(sentence: str, prepared: str) -> int:
    if "&" in sentence:  # Moses' &apos;
        prepared = COMPARED.apply(unescape(sentence))
    return sentence_hash(without_punctuation(prepared))


def letters_only(prepared: str) -> str:
    """Letters of a preprocessed sentence, without spaces; the sentence itself if it has none."""
    return prepared.translate(_LETTERS) or prepared


def pair_key(left: str, right: str) -> int:
    """64-bit hash of a pair in either order."""
    return sentence_hash("\t".join(sorted((left, right))))


def read_exclusions(paths: Sequence[str]) -> frozenset[int]:
    """Hashes of the sentences of evaluation files: every column of every line that has a letter.

    Compared without case, punctuation and spaces, and without Moses' escapes (&apos;), so that
    tokenised text is found too.

    Raises:
        InputError: for a file that is not UTF-8 text or has no sentence.
        OSError: if a file cannot be read.
    """
    found: set[int] = set()
    for path in paths:
        bad, before = BadLines(), 0
        for block in TsvInput([path]).blocks():
            for _, line in block.lines(partial(bad.add, block.name)):
                for cell in line.split("\t"):
                    prepared = COMPARED.apply(unescape(cell))
                    if prepared.translate(_LETTERS):
                        found.add(sentence_hash(without_punctuation(prepared)))
                        before += 1
        if bad.total or not before:
            reason = bad.examples[0] if bad.total else f"{path}: no sentence in it"
            raise InputError(f"--exclude: {reason}; nothing would be known to be excluded")
    return frozenset(found)


@dataclass
class _Candidate:
    """A pair on its way through the filters."""

    text: str  # the line to write
    raw: tuple[str, str]
    prepared: tuple[str, str]
    score: float = math.nan


@dataclass(frozen=True)
class FilteredBlock:
    """What is left of a block, before duplicates of other blocks are removed.

    Attributes:
        lines: of the pairs that are left.
        keys, near_keys: uint64, for exact and near duplicates.
        read: pairs of the block.
        removed: pairs under the first filter that removed them.
        bad: (line number, reason) of the lines that gave no pair.
        tallies: what each filter would remove of all pairs, by each score.
    """

    name: str
    lines: list[bytes]
    keys: NDArray[np.uint64]
    near_keys: NDArray[np.uint64]
    read: int
    removed: Counter[str]
    bad: list[tuple[int, str]]
    tallies: dict[str, Tally]


@dataclass(frozen=True)
class BlockFilter:
    """All filters that look at one pair alone; picklable, to run in another process."""

    options: FilterOptions
    exclusions: frozenset[int] = frozenset()

    def __call__(self, block: Block) -> FilteredBlock:
        """Apply them to a block of lines."""
        bad: list[tuple[int, str]] = []
        removed: Counter[str] = Counter()
        kept = candidates = self._candidates(block, bad)
        tallies = self._tallies(candidates) if self.options.deciles else {}
        for name, passes in self._filters():
            before = len(kept)
            kept = [pair for pair in kept if passes(pair)]
            removed[name] += before - len(kept)
        if self.options.encoder is not None and kept:
            if not self.options.deciles:
                self._add_similarities(kept)
            before = len(kept)
            kept = [pair for pair in kept if self._in_range(pair.score)]
            removed[SCORE] += before - len(kept)
        near = [tuple(map(letters_only, pair.prepared)) for pair in kept]
        return FilteredBlock(
            name=block.name,
            lines=[f"{pair.text}\n".encode() for pair in kept],
            keys=np.array([pair_key(*pair.prepared) for pair in kept], dtype=np.uint64),
            near_keys=np.array([pair_key(*sides) for sides in near], dtype=np.uint64),
            read=len(candidates),
            removed=removed,
            bad=sorted(bad),
            tallies=tallies,
        )

    def _tallies(self, pairs: list[_Candidate]) -> dict[str, Tally]:
        """Every filter asked about every pair, by each of the scores that filters look at."""
        filters = dict(self._filters())
        if self.options.encoder is not None:
            if pairs:
                self._add_similarities(pairs)
            filters[SCORE] = lambda pair: self._in_range(pair.score)
        scores: dict[str, Callable[[_Candidate], float]] = {
            SCORE: lambda pair: pair.score,
            LENGTH: lambda pair: max(len(split_words(side)) for side in pair.prepared),
            OVERLAP: lambda pair: trigram_overlap(*map(split_words, pair.prepared)),
        }
        tallies = {name: Tally() for name in scores if name in filters}
        order = [name for name in self.options.active if name in filters]
        for pair in pairs:
            gone = [not filters[name](pair) for name in order]
            for name, tally in tallies.items():
                tally.add(scores[name](pair), gone)
        return tallies

    def _candidates(self, block: Block, bad: list[tuple[int, str]]) -> list[_Candidate]:
        columns = self.options.columns
        found: list[_Candidate] = []
        for number, line in block.lines(lambda number, reason: bad.append((number, reason))):
            pairs, reason = columns.pairs(line)
            score = self._score(line)
            if reason is None and score is None:
                assert self.options.score_column is not None
                reason = f"no score in column {self.options.score_column + 1}"
            if reason is not None or score is None:
                bad.append((number, reason or ""))
                continue
            for raw in pairs:
                prepared = COMPARED.apply(raw[0]), COMPARED.apply(raw[1])
                if all(prepared):
                    text = "\t".join(raw) if columns.is_cluster or columns.ppdb else line
                    found.append(_Candidate(text, raw, prepared, score))
                else:
                    bad.append((number, "empty side"))
        return found

    def _score(self, line: str) -> float | None:
        """The score of a line, NaN where none is asked for, None if there is no finite number."""
        column = self.options.score_column
        if column is None:
            return math.nan
        cells = line.split("\t")
        return finite_number(cells[column]) if column < len(cells) else None

    def _filters(self) -> Iterator[tuple[str, Callable[[_Candidate], bool]]]:
        """Cheap ones first; a pair is counted under the first that removes it."""
        options = self.options
        if options.score_column is not None:
            yield SCORE, lambda pair: self._in_range(pair.score)
        if LENGTH in options.active:
            low = 0 if options.min_tokens is None else options.min_tokens
            high = math.inf if options.max_tokens is None else options.max_tokens
            yield LENGTH, lambda p: all(low <= len(split_words(s)) <= high for s in p.prepared)
        if OVERLAP in options.active:
            yield OVERLAP, self._overlap_in_range
        if self.exclusions:
            yield EXCLUDED, self._is_not_excluded
        if options.language is not None:
            yield LANGUAGE, self._is_in_language

    def _in_range(self, score: float) -> bool:
        low, high = self.options.min_score, self.options.max_score
        return (low is None or score >= low) and (high is None or score <= high)

    def _overlap_in_range(self, pair: _Candidate) -> bool:
        overlap = trigram_overlap(*map(split_words, pair.prepared))
        return self.options.min_overlap <= overlap <= self.options.max_overlap

    def _is_not_excluded(self, pair: _Candidate) -> bool:
        keys = map(_exclusion_key, pair.raw, pair.prepared)
        return not any(key in self.exclusions for key in keys)

    @cached_property
    def _classify(self) -> Callable[[str], tuple[str, float]]:
        return language_classifier(self.options.language or "")

    def _is_in_language(self, pair: _Candidate) -> bool:
        return all(self._classify(side)[0] == self.options.language for side in pair.raw)

    @cached_property
    def _encoder(self) -> object:
        import torch

        from simile_plugin.encoder import load_encoder

        if multiprocessing.parent_process() is not None:
            torch.set_num_threads(1)  # the workers share the cores out among themselves
        return load_encoder(self.options.encoder or "")

    def _add_similarities(self, pairs: Sequence[_Candidate]) -> None:
        """The encoder's cosine of the sides becomes the score of each pair."""
        from simile_plugin.encoder import RewardEncoder
        from simile_plugin.evaluation import similarities

        encoder = self._encoder
        assert isinstance(encoder, RewardEncoder)
        sims = similarities(encoder, [p.raw[0] for p in pairs], [p.raw[1] for p in pairs])
        for pair, sim in zip(pairs, sims.tolist(), strict=True):
            pair.score = sim


def language_classifier(language: str) -> Callable[[str], tuple[str, float]]:
    """Sentence -> (ISO 639-1 code, log-probability), by py3langid.

    Raises:
        InputError: if it is not installed, or does not know ``language``.
    """
    try:
        import py3langid
    except ImportError as error:
        raise InputError(
            "--language: the package py3langid is not installed; install it "
            "(pip install py3langid) or leave out --language"
        ) from error
    known = sorted(code for code, _ in py3langid.rank("a"))
    if language not in known:
        raise InputError(f"--language: got {language!r}, expected one of {' '.join(known)}")
    classify: Callable[[str], tuple[str, float]] = py3langid.classify
    return classify


class SeenKeys:
    """A growing set of 64-bit keys at 8 bytes each (twice that while it grows).

    Sorted runs, each less than half as long as the one before: a key is looked for in log(n) runs.
    """

    def __init__(self) -> None:
        self.runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add keys (m,); True for each that is new, and for the first of equal new ones."""
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
            merged.sort(kind="stable")  # merges what is in order already
            self.runs.append(merged)
        return new


def filter_pairs(
    source: TsvInput,
    output: str | None,
    options: FilterOptions,
    exclusions: frozenset[int],
    bad: BadLines,
    workers: int = 1,
) -> FilterReport:
    """Write the lines whose pairs pass every filter; the two-column lines of clusters.

    Args:
        source: TSV files.
        output: a file, gzip if its name ends in .gz, written under another name until it is
            complete; None for standard output.
        options: the filters.
        exclusions: of read_exclusions.
        bad: collects the lines that gave no pair.
        workers: processes; the output does not depend on their number.

    Raises:
        InputError: for bad input, no pair at all, or the first bad line if ``bad.strict``.
    """
    job = BlockFilter(options, exclusions)
    if options.language is not None:
        language_classifier(options.language)  # fails now rather than in a worker
    report = FilterReport(removed=dict.fromkeys(options.active, 0))
    if not exclusions:
        del report.removed[EXCLUDED]
    seen, seen_near = SeenKeys(), SeenKeys()
    tallies: dict[str, Tally] = {}
    with _writer(output) as stream, PairsProgress("filtering", source) as progress:
        for block in ordered_map(job, source.blocks(), workers):
            for number, reason in block.bad:
                bad.add(block.name, number, reason)
            report.read += block.read
            for name, count in block.removed.items():
                report.removed[name] += count
            merge_tallies(tallies, block.tallies)
            keep = np.ones(len(block.lines), dtype=bool)
            if options.duplicates:
                keep &= seen.add(block.keys)
                report.removed[DUPLICATE] += int((~keep).sum())
            if options.near_duplicates:
                places = np.flatnonzero(keep)
                new = seen_near.add(block.near_keys[places])
                keep[places[~new]] = False
                report.removed[NEAR_DUPLICATE] += int((~new).sum())
            report.kept += int(keep.sum())
            stream.writelines(line for line, good in zip(block.lines, keep, strict=True) if good)
            progress.add(block.read)
        if not report.read:
            raise no_pair(source.paths, bad)
    alone = [name for name in report.removed if name not in (DUPLICATE, NEAR_DUPLICATE)]
    report.deciles = {name: tally.deciles(alone) for name, tally in tallies.items()}
    return report


@contextmanager
def _writer(output: str | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_write(output, "wb") as stream:
        if output.endswith(".gz"):
            # No name and time in it: the same pairs give the same bytes.
            with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield stream

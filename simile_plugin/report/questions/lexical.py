"""Which words does a system get right more often? Word F1 by kind of word (the paper's Table 70).

The counting is compare-mt's (Neubig et al. 2019): its bucketers say how many words of a bucket an
output has, the reference has, and both have. Intervals are drawn here, from its counts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import InputError
from simile_plugin.report.answer import Answer, Cell, Figure, Table, make_table, optional, signed
from simile_plugin.report.inputs.lexical import (
    LexicalPair,
    PairFiles,
    choose_tags,
    parse_pairs,
    read_pair,
)
from simile_plugin.report.inputs.systems import read_sentences
from simile_plugin.report.inputs.texts import tokenised
from simile_plugin.report.render.compare_mt import write_compare_mt
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    COLORS,
    INK,
    SEED,
    Chart,
    Floats,
    interval,
    resample_counts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from simile_plugin.report.inputs import Inputs

NEEDS = (("lexical",), ("ref", "sys"))
ASKED_BY = ("lexical",)
PICTURED = True

CUTOFFS = (1, 2, 6, 11, 101, 1001)
FREQUENCIES = ("1", "2-5", "6-10", "11-100", "101-1000", "1001+")
TITLES = {"frequency": "Frequency in the references", "pos": "Part of speech"}


@dataclass(frozen=True)
class LexicalCell:
    """F1 of the words of one bucket, in percent; with several seeds the mean of theirs.

    Attributes:
        ref_count: words of this bucket in the references.
        difference: second minus first.
        low, high: 95% bootstrap interval of the difference, over sentences.
    """

    ref_count: int
    first_f1: float
    second_f1: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class LexicalRow:
    """One bucket: a cell for each language pair that has it, and the mean of the differences."""

    bucket: str
    cells: dict[str, LexicalCell]
    average: float | None


@dataclass(frozen=True)
class LexicalResult:
    """Rows by kind of bucket.

    Attributes:
        tables: frequency / pos -> rows.
        html_folders: language pair -> folder of compare-mt's own report.
        resamples, seed: of the intervals.
    """

    first_name: str
    second_name: str
    language_pairs: tuple[str, ...]
    tables: dict[str, tuple[LexicalRow, ...]]
    html_folders: dict[str, str]
    notes: tuple[str, ...]
    resamples: int
    seed: int


def analyse_lexical(
    names: tuple[str, str],
    pairs: Sequence[LexicalPair],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    notes: Sequence[str] = (),
    html_folders: dict[str, str] | None = None,
) -> LexicalResult:
    """Differences of word F1 between two systems, by frequency and, with tags, part of speech.

    F1 = 2 m / (o + r) of a bucket: r words of the references, o words of an output, m of them
    matched, each word of a reference once in its sentence. A matched word is in the bucket of the
    reference's word, another one in its own.

    Args:
        names: of the first and the second system.
        notes: what the reader should know of the data.
    """
    by_pair = {pair.language_pair: _frequency_cells(pair, resamples, seed) for pair in pairs}
    tables = {"frequency": _rows(by_pair, FREQUENCIES)}
    tagged = [pair for pair in pairs if pair.tags is not None]
    if tagged:
        by_tag = {pair.language_pair: _tag_cells(pair, resamples, seed) for pair in tagged}
        totals: dict[str, int] = {}
        for cells in by_tag.values():
            for tag, cell in cells.items():
                totals[tag] = totals.get(tag, 0) + cell.ref_count
        order = sorted(totals, key=lambda tag: (-totals[tag], tag))
        tables["pos"] = _rows(by_tag, order)
    names_of_pairs = tuple(pair.language_pair for pair in pairs)
    return LexicalResult(
        *names, names_of_pairs, tables, html_folders or {}, tuple(notes), resamples, seed
    )


def _rows(
    by_pair: dict[str, dict[str, LexicalCell]], buckets: Sequence[str]
) -> tuple[LexicalRow, ...]:
    rows = []
    for bucket in buckets:
        cells = {pair: found[bucket] for pair, found in by_pair.items() if bucket in found}
        differences = [cell.difference for cell in cells.values()]
        average = sum(differences) / len(differences) if len(differences) > 1 else None
        rows.append(LexicalRow(bucket, cells, average))
    return tuple(rows)


def _frequency_cells(pair: LexicalPair, resamples: int, seed: int) -> dict[str, LexicalCell]:
    from compare_mt.bucketers import FreqWordBucketer

    words = Counter(word for ref in pair.refs for word in ref)
    bucketer = FreqWordBucketer(freq_counts=words, bucket_cutoffs=list(CUTOFFS))
    outputs = [*pair.first, *pair.second]
    _, refs, totals, matches = bucketer.calc_statistics(pair.refs, outputs)
    # The first bucket holds words of outputs alone, which no reference has.
    counts = (np.array(part)[..., 1:] for part in (refs, totals, matches))
    return _cells(FREQUENCIES, len(pair.first), *counts, resamples=resamples, seed=seed)


def _tag_cells(pair: LexicalPair, resamples: int, seed: int) -> dict[str, LexicalCell]:
    from compare_mt.bucketers import LabelWordBucketer

    assert pair.tags is not None
    labels = sorted({tag for sentence in pair.tags[0] for tag in sentence})
    bucketer = LabelWordBucketer(label_set=labels)
    # compare-mt cannot place the words of an output whose reference is empty.
    kept = [line for line, ref in enumerate(pair.refs) if ref]
    refs, *outputs = ([text[i] for i in kept] for text in (pair.refs, *pair.first, *pair.second))
    ref_tags, *tags = ([text[i] for i in kept] for text in pair.tags)
    _, *parts = bucketer.calc_statistics(refs, outputs, ref_labels=ref_tags, out_labels=tags)
    counts = (np.array(part)[..., : len(labels)] for part in parts)
    return _cells(labels, len(pair.first), *counts, resamples=resamples, seed=seed)


def _cells(
    buckets: Sequence[str],
    first_seeds: int,
    refs: NDArray[np.int64],
    totals: NDArray[np.int64],
    matches: NDArray[np.int64],
    *,
    resamples: int,
    seed: int,
) -> dict[str, LexicalCell]:
    """A cell for each bucket that the references have, from counts a sentence.

    Args:
        refs: (N, K) words of the references; totals, matches: (N, S, K), seeds of both systems.
    """
    statistics = np.concatenate([refs[:, None], totals, matches], axis=1)  # (N, 1 + 2 S, K)
    sentences, rows, width = statistics.shape
    first, second = _means(statistics.sum(0, dtype=np.float64), first_seeds)
    flat = statistics.reshape(sentences, rows * width).astype(np.float64)
    drawn = np.concatenate(
        [
            np.subtract(*_means((counts @ flat).reshape(-1, rows, width), first_seeds)[::-1])
            for counts in resample_counts(sentences, resamples, seed)
        ]
    )  # (resamples, K)
    ref_counts = refs.sum(0)
    cells = {}
    for k, bucket in enumerate(buckets):
        if ref_counts[k]:
            spread = interval(drawn[:, k])
            difference = float(second[k] - first[k])
            numbers = (float(first[k]), float(second[k]), difference, spread.low, spread.high)
            cells[bucket] = LexicalCell(int(ref_counts[k]), *numbers)
    return cells


def _means(sums: Floats, first_seeds: int) -> tuple[Floats, Floats]:
    """F1 in percent of the first and the second system: sums (..., 1 + 2 S, K) -> (..., K)."""
    seeds = (sums.shape[-2] - 1) // 2
    refs, totals, matches = np.split(sums, [1, 1 + seeds], axis=-2)
    f1 = 200 * matches / np.maximum(totals + refs, 1)
    return f1[..., :first_seeds, :].mean(-2), f1[..., first_seeds:, :].mean(-2)


# --- the answer ---


def on_page(inputs: Inputs) -> bool:
    """The page compares two systems of the table unasked."""
    return len(inputs.named_systems) > 1


def ask(inputs: Inputs) -> Answer:
    """Word F1 of two systems of --sys, or of the files of --lexical."""
    from simile_plugin.reward import check_tokenizer

    args = inputs.args
    check_tokenizer(args.tokenize, "--tokenize")
    if args.lexical:
        names = [name.strip() for name in (args.compare or "first,second").split(",")]
        if len(names) != 2 or not all(names):
            raise InputError(f"--compare: got {args.compare}; expected FIRST,SECOND, two names")
        first, second = names
        files = parse_pairs(args.lexical)
        for name in (one.language_pair for one in files if args.compare_mt):
            if "/" in name or name in (".", ".."):
                raise InputError(
                    f"--lexical: got the name {name}, of which --compare-mt makes a folder"
                )
        flag, kinds = "--lexical", ("text", "text")
    else:
        named = list(inputs.named_systems.items())
        (first, one), (second, other) = (named[place] for place in inputs.pair)
        files = [PairFiles("test", args.ref, one, other)]
        flag, kinds = "--sys", (args.ref_lines, args.sys_lines)
    read = inputs.texts.lines
    pairs, told = [], dict[str, list[str]]()
    for pair_files in files:
        refs = tuple(read_sentences(pair_files.ref, flag, kinds[0], read))
        tokens = tokenised(args.tokenize, refs)
        tag, note = choose_tags(args.tags, args.spacy_model, tokens, read)
        told.setdefault(note, []).append(pair_files.language_pair)
        pairs.append(read_pair(pair_files, tag, flag, *kinds, args.tokenize, read))
    folders = {}
    for pair in pairs if args.compare_mt else ():
        own = os.path.join(args.compare_mt, pair.language_pair)
        title = f"compare-mt: {first} and {second}, {pair.language_pair}"
        outputs = [pair.first[0], pair.second[0]]
        os.makedirs(args.compare_mt, exist_ok=True)
        folders[pair.language_pair] = write_compare_mt(
            own, title, (first, second), pair.refs, outputs
        )
    test = inputs.test
    notes = [f"words: tokens of sacreBLEU's {args.tokenize}"]
    for note, whose in told.items():
        notes.append(note if len(told) == 1 else f"{', '.join(whose)}: {note}")
    return answer_lexical(
        analyse_lexical((first, second), pairs, test.resamples, test.seed, notes, folders)
    )


def answer_lexical(result: LexicalResult) -> Answer:
    """A table a kind of bucket: count, F1 and difference for each language pair, and the mean."""
    kinds = [TITLES[kind].lower() for kind in result.tables]
    label = (
        f"Difference of word F1, {result.second_name} - {result.first_name}, "
        f"by {' and '.join(kinds)}"
    )
    width = 4.6 + 5.2 * (len(result.tables) - 1)
    chart = Chart(label, (width, 3.8), partial(_draw, result=result))
    caption = f"Word F1 of {result.second_name} minus {result.first_name}."
    return Answer(
        "lexical",
        "Which words are translated better",
        "F1 of word choice by how frequent the word is and by part of speech, for two systems.",
        f"Word F1 in percent, {result.second_name} - {result.first_name}",
        [Figure(chart, caption), *(_table(result, kind) for kind in result.tables)],
        asdict(result),
        notes=[
            "count: words of the references; in brackets: 95% bootstrap interval over the "
            f"sentences, {result.resamples:,} resamples, seed {result.seed}, * where it leaves out "
            "0",
            f"F1: compare-mt {version('compare_mt')}'s bucketers",
            *(f"compare-mt's own report of {lp}: {at}" for lp, at in result.html_folders.items()),
            *result.notes,
        ],
    )


def _table(result: LexicalResult, kind: str) -> Table:
    several = len(result.language_pairs) > 1
    header = [TITLES[kind]]
    for pair in result.language_pairs:
        header += [f"{pair} count", result.first_name, result.second_name, "difference"]
    rows = []
    for row in result.tables[kind]:
        line: list[Cell | str] = [row.bucket]
        for pair in result.language_pairs:
            cell = row.cells.get(pair)
            line += _cells_of(cell) if cell else ["0", "-", "-", "-"]
        rows.append(line + [optional(row.average, "+.2f")] * several)
    return make_table(header + ["average"] * several, rows)


def _cells_of(cell: LexicalCell) -> list[Cell | str]:
    clear = not cell.low <= 0 <= cell.high
    told = f"{cell.difference:+.2f} [{cell.low:+.2f}, {cell.high:+.2f}]{'*' if clear else ' '}"
    return [
        f"{cell.ref_count:,}",
        f"{cell.first_f1:.2f}",
        f"{cell.second_f1:.2f}",
        signed(cell.difference, clear, told),
    ]


def _draw(figure: Drawing, result: LexicalResult) -> None:
    ratios = [len(rows) for rows in result.tables.values()]
    panels = figure.subplots(1, len(ratios), squeeze=False, width_ratios=ratios, sharey=True)[0]
    step = 0.7 / len(result.language_pairs)
    bars = []
    for panel, (kind, rows) in zip(panels, result.tables.items(), strict=True):
        for place, pair in enumerate(result.language_pairs):
            found = [(i, row.cells[pair]) for i, row in enumerate(rows) if pair in row.cells]
            x = [i - 0.35 + step * (place + 0.5) for i, _ in found]
            y = [cell.difference for _, cell in found]
            # A difference can lie outside a percentile interval of its resamples.
            below = [max(0.0, cell.difference - cell.low) for _, cell in found]
            above = [max(0.0, cell.high - cell.difference) for _, cell in found]
            bars.append(panel.bar(x, y, 0.9 * step, color=COLORS[place % len(COLORS)]))
            panel.errorbar(x, y, [below, above], fmt="none", ecolor=INK, elinewidth=1)
        panel.axhline(0, color=INK, linewidth=0.8)
        names = [row.bucket for row in rows]
        panel.set_xticks(range(len(rows)), names, rotation=45, ha="right", rotation_mode="anchor")
        panel.set_title(TITLES[kind], loc="left", fontsize=12)
        panel.grid(axis="y")
    panels[0].set_ylabel("difference of F1, points")
    if len(result.language_pairs) > 1:
        shown = result.language_pairs  # as labels of the bars, _x would not be in a legend
        first = bars[: len(shown)]  # panel: it has all pairs
        figure.legend(first, shown, loc="outside lower center", ncols=6, frameon=False)

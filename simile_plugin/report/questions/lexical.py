"""Which words does a system get right more often? Word F1 by kind of word (the paper's Table 70).

The counting is compare-mt's (Neubig et al. 2019): its bucketers say how many words of a bucket an
output has, the reference has, and both have. Intervals are drawn here, from its counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import InputError
from simile_plugin.report.answer import Answer, Cell, Data, Figure, Table, make_table, signed
from simile_plugin.report.inputs.tags import english_tags, read_tags
from simile_plugin.report.inputs.texts import Sentences, tokenised
from simile_plugin.significance import COLORS, INK, Chart, Floats, interval, resample_counts

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

NEEDS = (("ref", "sys"),)
ASKED_BY = ()
PICTURED = True

CUTOFFS = (1, 2, 6, 11, 101, 1001)
FREQUENCIES = ("1", "2-5", "6-10", "11-100", "101-1000", "1001+")
TITLES = {"frequency": "Frequency in the references", "pos": "Part of speech"}
# Of K buckets their names, and counts by sentence (N, 1 + 2 S, K), see `_f1`.
Counts = tuple[Sequence[str], NDArray[np.int64]]


def on_page(inputs: Inputs) -> bool:
    """Answer on the page unasked where there are two systems."""
    return len(inputs.named_systems) > 1


def ask(inputs: Inputs) -> Answer:
    """Compute word F1 of two systems of --sys."""
    from simile_plugin.reward import check_tokenizer

    options, test = inputs.options, inputs.test
    check_tokenizer(options.tokenize, "--tokenize")
    first, second = (inputs.systems[place] for place in inputs.pair)
    texts = [
        tokenised(options.tokenize, text)
        for text in (tuple(inputs.refs), *first.outputs, *second.outputs)
    ]
    if not any(texts[0]):
        raise InputError(f"--ref: {options.ref} has no words; expected a translation a line")
    tags: list[list[list[str]]] | None
    if options.tags:
        read, suffix = inputs.texts.lines, options.tags
        paths = [options.ref or "", *first.files, *second.files]
        tags = [
            read_tags(path + suffix, text, read) for path, text in zip(paths, texts, strict=True)
        ]
        note = f"parts of speech: files *{suffix}"
    else:
        tags, note = english_tags(texts)
    tables = compare_words(texts, len(first.outputs), tags, test.resamples, test.seed)
    return answer_lexical(
        {
            "first_name": first.name,
            "second_name": second.name,
            "tables": tables,
            "notes": [f"words: tokens of sacreBLEU's {options.tokenize}", note],
            "resamples": test.resamples,
            "seed": test.seed,
        }
    )


def compare_words(
    texts: Sequence[Sentences],
    first_seeds: int,
    tags: Sequence[Sentences] | None,
    resamples: int,
    seed: int,
) -> dict[str, list[Data]]:
    """Compare word F1 of two systems, by frequency and, with tags, part of speech.

    F1 = 2 m / (o + r) of a bucket: r words of the references, o words of an output, m of them
    matched, each word of a reference once in its sentence. A matched word is in the bucket of the
    reference's word, another one in its own.

    Args:
        texts: tokens of the references, of the first system's `first_seeds` outputs, and of the
            second's.
        tags: their parts of speech.

    Returns:
        frequency, pos -> rows of a bucket and, where the references have such words, its cell:
        F1 in percent, of several seeds their mean, `low` to `high` the 95% bootstrap interval of
        the difference over sentences.
    """
    rows = _rows(_by_frequency(texts), first_seeds, resamples, seed)
    tables = {"frequency": rows}
    if tags is not None:
        rows = _rows(_by_tag(texts, tags), first_seeds, resamples, seed)
        tables["pos"] = sorted(rows, key=lambda row: -row["cells"]["test"]["ref_count"])
    return tables


def _by_frequency(texts: Sequence[Sentences]) -> Counts:
    from compare_mt.bucketers import FreqWordBucketer

    refs, *outputs = texts
    words = Counter(word for ref in refs for word in ref)
    bucketer = FreqWordBucketer(freq_counts=words, bucket_cutoffs=list(CUTOFFS))
    counts = _counted(bucketer.calc_statistics(refs, outputs))
    # The first bucket holds words of outputs alone, which no reference has.
    return FREQUENCIES, counts[..., 1:]


def _by_tag(texts: Sequence[Sentences], tags: Sequence[Sentences]) -> Counts:
    from compare_mt.bucketers import LabelWordBucketer

    labels = sorted({tag for sentence in tags[0] for tag in sentence})
    bucketer = LabelWordBucketer(label_set=labels)
    # compare-mt cannot place the words of an output whose reference is empty.
    kept = [line for line, ref in enumerate(texts[0]) if ref]
    refs, *outputs = ([text[i] for i in kept] for text in texts)
    ref_tags, *out_tags = ([text[i] for i in kept] for text in tags)
    found = bucketer.calc_statistics(refs, outputs, ref_labels=ref_tags, out_labels=out_tags)
    return labels, _counted(found)[..., : len(labels)]


def _counted(statistics: Sequence[Any]) -> NDArray[np.int64]:
    """Join compare-mt's counts: of the references (N, K), of outputs and of matches (N, S, K)."""
    _, refs, totals, matches = statistics
    return np.concatenate([np.array(refs)[:, None], np.array(totals), np.array(matches)], axis=1)


def _rows(counted: Counts, first_seeds: int, resamples: int, seed: int) -> list[Data]:
    buckets, counts = counted
    sentences, parts, width = counts.shape
    first, second = _f1(counts.sum(0, dtype=np.float64), first_seeds)
    flat = counts.reshape(sentences, parts * width).astype(np.float64)
    resampled = [
        np.subtract(*_f1((drawn @ flat).reshape(-1, parts, width), first_seeds)[::-1])
        for drawn in resample_counts(sentences, resamples, seed)
    ]
    differences = np.concatenate(resampled)  # (resamples, K)
    rows: list[Data] = []
    for k, bucket in enumerate(buckets):
        words = int(counts[:, 0, k].sum())
        rows.append({"bucket": bucket, "cells": {}})
        if words:
            spread = interval(differences[:, k])
            rows[-1]["cells"]["test"] = {
                "ref_count": words,
                "first_f1": float(first[k]),
                "second_f1": float(second[k]),
                "difference": float(second[k] - first[k]),
                "low": spread.low,
                "high": spread.high,
            }
    return rows


def _f1(sums: Floats, first_seeds: int) -> tuple[Floats, Floats]:
    """Return F1 in percent of the first and the second system, (..., K) each.

    sums: (..., 1 + 2 S, K): words of the references, of the outputs of S seeds (those of the
    first system before those of the second), and matched words of the same outputs.
    """
    seeds = (sums.shape[-2] - 1) // 2
    refs, totals, matches = np.split(sums, [1, 1 + seeds], axis=-2)
    f1 = 200 * matches / np.maximum(totals + refs, 1)
    return f1[..., :first_seeds, :].mean(-2), f1[..., first_seeds:, :].mean(-2)


# --- the answer ---


def answer_lexical(data: Data) -> Answer:
    """Show a table a kind of bucket: count, F1 and difference for each pair, and their mean."""
    compared = f"{data['second_name']} - {data['first_name']}"
    kinds = " and ".join(TITLES[kind].lower() for kind in data["tables"])
    label = f"Difference of word F1, {compared}, by {kinds}"
    size = (4.6 + 5.2 * (len(data["tables"]) - 1), 3.8)
    chart = Chart(label, size, lambda figure: _draw(figure, data))
    caption = f"Word F1 of {data['second_name']} minus {data['first_name']}."
    return Answer(
        "lexical",
        "Which words are translated better",
        "F1 of word choice by how frequent the word is and by part of speech, for two systems.",
        f"Word F1 in percent, {compared}",
        [Figure(chart, caption), *(_table(data, kind) for kind in data["tables"])],
        data,
        notes=[
            "count: words of the references; in brackets: 95% bootstrap interval over the "
            f"sentences, {data['resamples']:,} resamples, seed {data['seed']}, * where it leaves "
            "out 0",
            f"F1: compare-mt {version('compare_mt')}'s bucketers",
            *data["notes"],
        ],
    )


def _table(data: Data, kind: str) -> Table:
    header = [TITLES[kind], "test count", data["first_name"], data["second_name"], "difference"]
    rows = []
    for row in data["tables"][kind]:
        cell = row["cells"].get("test")
        rows.append([row["bucket"], *(_shown(cell) if cell else ["0", "-", "-", "-"])])
    return make_table(header, rows)


def _shown(cell: Data) -> list[Cell | str]:
    low, high, difference = cell["low"], cell["high"], cell["difference"]
    clear = not low <= 0 <= high
    told = f"{difference:+.2f} [{low:+.2f}, {high:+.2f}]{'*' if clear else ' '}"
    f1 = [f"{cell[key]:.2f}" for key in ("first_f1", "second_f1")]
    return [f"{cell['ref_count']:,}", *f1, signed(difference, clear, told)]


def _draw(figure: Any, data: Data) -> None:
    ratios = [len(rows) for rows in data["tables"].values()]
    panels = figure.subplots(1, len(ratios), squeeze=False, width_ratios=ratios, sharey=True)[0]
    for panel, (kind, rows) in zip(panels, data["tables"].items(), strict=True):
        own = [(i, row["cells"]["test"]) for i, row in enumerate(rows) if row["cells"]]
        x = [i for i, _ in own]
        y = [cell["difference"] for _, cell in own]
        # A difference can lie outside a percentile interval of its resamples.
        below = [max(0.0, cell["difference"] - cell["low"]) for _, cell in own]
        above = [max(0.0, cell["high"] - cell["difference"]) for _, cell in own]
        panel.bar(x, y, 0.63, color=COLORS[0])
        panel.errorbar(x, y, [below, above], fmt="none", ecolor=INK, elinewidth=1)
        panel.axhline(0, color=INK, linewidth=0.8)
        names = [row["bucket"] for row in rows]
        panel.set_xticks(range(len(rows)), names, rotation=45, ha="right", rotation_mode="anchor")
        panel.set_title(TITLES[kind], loc="left", fontsize=12)
        panel.grid(axis="y")
    panels[0].set_ylabel("difference of F1, points")

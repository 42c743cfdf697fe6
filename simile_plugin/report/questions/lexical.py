"""Which words does a system get right more often? Word F1 by kind of word (the paper's Table 70).

The counting is compare-mt's (Neubig et al. 2019): its bucketers say how many words of a bucket an
output has, the reference has, and both have; its n-grams, which ones one output gets right and the
other does not. Intervals are drawn here, from its counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import InputError
from simile_plugin.report.answer import Answer, Data, Figure, Part, Table, make_table
from simile_plugin.report.bucketed import BucketRow, bucket_chart, bucket_table, spread
from simile_plugin.report.inputs.buckets import FREQUENCIES, cutoff_names
from simile_plugin.report.inputs.tags import english_tags
from simile_plugin.report.inputs.texts import Sentences, tokenised
from simile_plugin.significance import Floats, resample_counts

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

TITLES = {"frequency": "Frequency", "pos": "Part of speech"}
FEW = 20  # words of the references, below which parts of speech stand together
MOST_NGRAMS = 25
# Of K buckets their names, and counts by sentence (N, 1 + 2 S, K), see `_f1`.
Counts = tuple[Sequence[str], NDArray[np.int64]]


@dataclass(frozen=True)
class Ngram:
    """An n-gram that two outputs get right how often; score: see `compare_ngrams`."""

    ngram: str
    first: int
    second: int
    score: float


@dataclass(frozen=True)
class Words:
    """Word F1 by bucket (frequency, pos), and the n-grams of two systems (first, second)."""

    first_name: str
    second_name: str
    tables: dict[str, list[BucketRow]]
    ngrams: dict[str, list[Ngram]]
    notes: list[str]
    resamples: int
    seed: int

    def data(self) -> Data:
        """Return it for --json."""
        tables = {kind: [row.data() for row in rows] for kind, rows in self.tables.items()}
        return {**asdict(self), "tables": tables}


def ask(inputs: Inputs) -> Answer:
    """Compute word F1 of every system, and compare the n-grams of two."""
    options, test, systems = inputs.options, inputs.rough_test, inputs.systems
    outputs = [output for system in systems for output in system.outputs]
    texts = [tokenised(options.tokenize, text) for text in (tuple(inputs.refs), *outputs)]
    if not any(texts[0]):
        raise InputError(f"--ref: {options.ref} has no words; expected a translation a line")
    tags, note = english_tags(texts)
    seeds = {system.name: len(system.outputs) for system in systems}
    first, second = (systems[place] for place in inputs.pair)
    numbers = test.resamples, test.seed
    pair = [tokenised(options.tokenize, system.outputs[0]) for system in (first, second)]
    return answer_lexical(
        Words(
            first_name=first.name,
            second_name=second.name,
            tables=compare_words(texts, seeds, first.name, tags, inputs.frequencies, *numbers),
            ngrams=compare_ngrams(texts[0], *pair),
            notes=[
                f"words: tokens of sacreBLEU's {options.tokenize}; {inputs.frequency_note}",
                *(
                    f"n-grams of {system.name}: of its first seed"
                    for system in (first, second)
                    if system.outputs[1:]
                ),
                note,
            ],
            resamples=test.resamples,
            seed=test.seed,
        )
    )


def compare_words(
    texts: Sequence[Sentences],
    seeds: Mapping[str, int],
    base: str,
    tags: Sequence[Sentences] | None,
    frequencies: Mapping[str, int],
    resamples: int,
    seed: int,
) -> dict[str, list[BucketRow]]:
    """Compare word F1 of systems, by frequency and, with tags, part of speech.

    F1 = 2 m / (o + r) of a bucket: r words of the references, o words of an output, m of them
    matched, each word of a reference once in its sentence. A matched word is in the bucket of the
    reference's word, another one in its own.

    Args:
        texts: tokens of the references, and of every system's outputs, as many as its `seeds`.
        base: the system that the others are held against.
        tags: their parts of speech.

    Returns:
        frequency, pos -> rows (see `bucketed`) of F1 in percent, of several seeds their mean, with
        95% bootstrap intervals of the differences over sentences.
    """
    tables = {"frequency": _rows(_by_frequency(texts, frequencies), seeds, base, resamples, seed)}
    if tags is not None:
        rows = _rows(_by_tag(texts, tags), seeds, base, resamples, seed)
        tables["pos"] = sorted(rows, key=lambda row: -row.count)
    return tables


def _by_frequency(texts: Sequence[Sentences], frequencies: Mapping[str, int]) -> Counts:
    from compare_mt.bucketers import FreqWordBucketer

    refs, *outputs = texts
    bucketer = FreqWordBucketer(freq_counts=frequencies, bucket_cutoffs=list(FREQUENCIES))
    return cutoff_names(FREQUENCIES), _counted(bucketer.calc_statistics(refs, outputs))


def _by_tag(texts: Sequence[Sentences], tags: Sequence[Sentences]) -> Counts:
    from compare_mt.bucketers import LabelWordBucketer

    counts_of = Counter(tag for sentence in tags[0] for tag in sentence)
    rare = sorted(tag for tag, number in counts_of.items() if number < FEW)
    other = f"other ({', '.join(rare)})" if len(rare) > 1 else ""
    named = {tag: other if other and tag in rare else tag for tag in counts_of}
    labels = sorted(set(named.values()))
    bucketer = LabelWordBucketer(label_set=labels)
    # compare-mt cannot place the words of an output whose reference is empty.
    kept = [line for line, ref in enumerate(texts[0]) if ref]
    refs, *outputs = ([text[i] for i in kept] for text in texts)
    labelled = [[[named.get(tag, tag) for tag in text[i]] for i in kept] for text in tags]
    counts = bucketer.calc_statistics(
        refs, outputs, ref_labels=labelled[0], out_labels=labelled[1:]
    )
    return labels, _counted(counts)[..., : len(labels)]


def _counted(statistics: Sequence[Any]) -> NDArray[np.int64]:
    """Join compare-mt's counts: of the references (N, K), of outputs and of matches (N, S, K)."""
    _, refs, totals, matches = statistics
    return np.concatenate([np.array(refs)[:, None], np.array(totals), np.array(matches)], axis=1)


def _rows(
    counted: Counts, seeds: Mapping[str, int], base: str, resamples: int, seed: int
) -> list[BucketRow]:
    buckets, counts = counted
    sentences, parts, width = counts.shape
    values = _f1(counts.sum(0, dtype=np.float64), seeds)
    flat = counts.reshape(sentences, parts * width).astype(np.float64)
    drawn = [
        _f1((times @ flat).reshape(-1, parts, width), seeds)
        for times in resample_counts(sentences, resamples, seed)
    ]
    draws = {name: np.concatenate([part[name] for part in drawn]) for name in seeds}
    rows = []
    for k, bucket in enumerate(buckets):
        words = int(counts[:, 0, k].sum())
        if not words:
            rows.append(BucketRow(bucket, 0, dict.fromkeys(values), {}))
            continue
        of_bucket = {name: float(f1[k]) for name, f1 in values.items()}
        against = spread(of_bucket, {name: drawn[:, k] for name, drawn in draws.items()}, base)
        rows.append(BucketRow(bucket, words, {**of_bucket}, against))
    return rows


def _f1(sums: Floats, seeds: Mapping[str, int]) -> dict[str, Floats]:
    """Return F1 in percent of each system, (..., K), the mean of its seeds.

    sums: (..., 1 + 2 S, K): words of the references, of the S outputs, and matched words of the
    same outputs.
    """
    outputs = (sums.shape[-2] - 1) // 2
    refs, totals, matches = np.split(sums, [1, 1 + outputs], axis=-2)
    f1 = 200 * matches / np.maximum(totals + refs, 1)
    ends = np.cumsum(list(seeds.values()))[:-1]
    parts = np.split(f1, ends, axis=-2)
    return {name: of_seeds.mean(-2) for name, of_seeds in zip(seeds, parts, strict=True)}


def compare_ngrams(refs: Sentences, first: Sentences, second: Sentences) -> dict[str, list[Ngram]]:
    """Find the n-grams (1 to 4 words) that one output gets right more often than the other.

    By (m1 + 1) / (m1 + m2 + 2) of m1 and m2 matches, as compare-mt ranks them; of equals the longer
    ones first, which hold the others.
    """
    from compare_mt.ngram_utils import compare_ngrams as compare
    from compare_mt.stat_utils import extract_salient_features

    matches = [compare(refs, output)[1] for output in (first, second)]
    scores = extract_salient_features(*matches)

    def best(sign: int) -> list[Ngram]:
        ranked = sorted(scores, key=lambda ngram: (-sign * scores[ngram], -len(ngram), ngram))
        return [
            Ngram(" ".join(ngram), matches[0][ngram], matches[1][ngram], scores[ngram])
            for ngram in ranked[:MOST_NGRAMS]
            if sign * (scores[ngram] - 0.5) > 0
        ]

    return {"first": best(1), "second": best(-1)}


# --- the answer ---


def answer_lexical(data: Words) -> Answer:
    """Show F1 by bucket of every system, then the n-grams of two."""
    parts: list[Part] = []
    for kind, rows in data.tables.items():
        label = f"Word F1 by {TITLES[kind].lower()}"
        filled = [row for row in rows if row.count]
        parts.append(Figure(bucket_chart(label, "F1, percent", filled), f"{label}."))
        parts.append(bucket_table(TITLES[kind], filled))
    names = data.first_name, data.second_name
    for better, key in zip(names, data.ngrams, strict=True):
        if data.ngrams[key]:
            parts.append(_ngram_table(data.ngrams[key], names, better))
    return Answer(
        "lexical",
        "Which words are translated better",
        "F1 of word choice by how frequent the word is and by part of speech; the words and "
        "n-grams that one system gets right and the other does not.",
        f"Word F1 in percent; *: clearly above or below {data.first_name}",
        parts,
        data.data(),
        notes=[
            f"count: words of the references; *: the 95% bootstrap interval of the difference from "
            f"{data.first_name} over the sentences leaves out 0, {data.resamples:,} "
            f"resamples, seed {data.seed}",
            f"F1, n-grams and their order: compare-mt {version('compare_mt')}'s",
            *data.notes,
        ],
    )


def _ngram_table(ngrams: Sequence[Ngram], names: tuple[str, str], better: str) -> Table:
    rows = [[of.ngram, of.first, of.second] for of in ngrams]
    title = f"n-grams that {better} gets right more often"
    return make_table(["n-gram, times right", *names], rows, folded=title)

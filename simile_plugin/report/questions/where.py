"""Where is a system better? By length, rarest word, domain; sentences won and lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simile_plugin.report.answer import (
    Answer,
    Data,
    Figure,
    Part,
    Table,
    count,
    make_table,
)
from simile_plugin.report.bucketed import BucketRow, bucket_chart, bucket_table, spread
from simile_plugin.report.inputs.buckets import LENGTH_DIFFERENCES, Buckets, cut
from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_systems
from simile_plugin.significance import TIE, SentenceStatistics, bootstrap

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

# Sentences of a bucket, below which it is not tested: without a difference (normal scores, 4,000
# trials) an interval leaves out 0 in 15% of buckets of 5, 11% of 10, and 7% of 20.
FEW = 20
MOST_BARS = 12  # buckets in a picture


@dataclass(frozen=True)
class Won:
    """Sentences of one metric that a system wins, ties and loses against the baseline."""

    won: int
    tied: int
    lost: int


@dataclass(frozen=True)
class Where:
    """BLEU by kind of sentence.

    Attributes:
        bleu: way of parting the sentences -> a row a bucket.
        won: system -> metric -> sentences won against the baseline.
    """

    baseline: str
    sentences: int
    bleu: dict[str, list[BucketRow]]
    length_difference: list[BucketRow]
    won: dict[str, dict[str, Won]]
    notes: list[str]
    resamples: int

    def data(self) -> Data:
        """Return it for --json."""
        rows = {key: [row.data() for row in rows] for key, rows in self.bleu.items()}
        lengths = [row.data() for row in self.length_difference]
        won = [
            {"name": name, **{metric: asdict(of) for metric, of in by_metric.items()}}
            for name, by_metric in self.won.items()
        ]
        return {**asdict(self), "bleu": rows, "length_difference": lengths, "won": won}


def ask(inputs: Inputs) -> Answer:
    """Score every bucket of sentences, and count the sentences won."""
    metrics = score_systems(inputs.systems, inputs.refs, inputs.scores, chrf=False)
    bleu = {name: row["bleu"] for name, row in zip(inputs.named_systems, metrics, strict=True)}
    base, test = inputs.baselines[0], inputs.rough_test
    tables = {
        way.key: _rows(way, bleu, base, test.resamples, test.seed)
        for way in inputs.sentence_buckets
    }
    lengths = {
        name: row[LENGTH_RATIO].values
        for name, row in zip(inputs.named_systems, metrics, strict=True)
    }
    data = Where(
        baseline=base,
        sentences=len(inputs.refs),
        bleu=tables,
        length_difference=_length_differences(lengths),
        won=_won(inputs, base),
        notes=[inputs.frequency_note],
        resamples=test.resamples,
    )
    return answer_where(data, inputs.sentence_buckets)


def _rows(
    way: Buckets, bleu: dict[str, SentenceStatistics], base: str, resamples: int, seed: int
) -> list[BucketRow]:
    rows = []
    for place, bucket in enumerate(way.names):
        chosen = way.places == place
        sentences = int(chosen.sum())
        if not sentences:
            continue
        inside = {n: SentenceStatistics(s.values[:, chosen], s.score) for n, s in bleu.items()}
        values = {name: statistics.corpus() for name, statistics in inside.items()}
        against = {}
        if sentences >= FEW and len(inside) > 1:
            draws = bootstrap(list(inside.values()), resamples, seed)
            against = spread(values, dict(zip(inside, draws, strict=True)), base)
        rows.append(BucketRow(bucket, sentences, {**values}, against, way.tag(place)))
    return rows


def _length_differences(lengths: Mapping[str, NDArray[np.generic]]) -> list[BucketRow]:
    """Count sentences by tokens of the output minus tokens of the reference; of seeds the mean."""
    ways = {
        name: [cut("d", "", seed[..., 0] - seed[..., 1], LENGTH_DIFFERENCES) for seed in values]
        for name, values in lengths.items()
    }
    rows = []
    for place, bucket in enumerate(next(iter(ways.values()))[0].names):
        values = {
            name: float(np.mean([(way.places == place).sum() for way in of_seeds]))
            for name, of_seeds in ways.items()
        }
        total = round(sum(values.values()))
        rows.append(BucketRow(bucket, total, {**values}, {}))
    return rows


def _won(inputs: Inputs, base: str) -> dict[str, dict[str, Won]]:
    """Count the sentences that each system wins, ties and loses against `base`, by seeds' means."""
    scores = {"BLEU": inputs.scores.bleu, "SIM": inputs.scores.sim}
    columns, end = {}, 0
    for system in inputs.systems:
        columns[system.name] = slice(end, end + len(system.outputs))
        end += len(system.outputs)
    counted: dict[str, dict[str, Won]] = {}
    for name in (name for name in columns if name != base):
        counted[name] = {}
        for metric, values in scores.items():
            if values is not None:
                mean = {n: values[:, columns[n]].double().mean(1).numpy() for n in (name, base)}
                size = mean[name] - mean[base]
                won, lost = int((size > TIE).sum()), int((size < -TIE).sum())
                counted[name][metric] = Won(won, len(size) - won - lost, lost)
    return counted


def answer_where(data: Where, ways: Sequence[Buckets]) -> Answer:
    """Show BLEU by bucket, sentences won and lost, differences in length."""
    base, parts = data.baseline, list[Part]()
    for way in ways:
        rows = data.bleu[way.key]
        if len(rows) <= MOST_BARS:
            label = f"BLEU by {way.title[0].lower()}{way.title[1:]}"
            parts.append(Figure(bucket_chart(label, "BLEU", rows), f"{label}."))
        parts.append(bucket_table(way.title, rows))
    parts += [_won_table(data.won, base)] if data.won else []
    rows = data.length_difference
    chart = bucket_chart("Sentences by difference in length", "sentences", rows)
    parts.append(Figure(chart, "Sentences by tokens of the output minus tokens of the reference."))
    parts.append(bucket_table("Difference in length", rows, ",.0f", folded="The same in numbers"))
    return Answer(
        "where",
        "Where is it better?",
        "BLEU of every system by kind of sentence. A bar, or the name of a bucket, leads to its "
        "sentences among the examples.",
        f"BLEU by kind of sentence, of {count(data.sentences, 'sentence')}",
        parts,
        data.data(),
        notes=[
            f"*: the 95% interval of the difference from {base} ({data.resamples:,} resamples) "
            f"leaves out 0, of each bucket of {FEW} sentences or more by itself: of many, some do "
            "by chance",
            *data.notes,
        ],
    )


def _won_table(won: Mapping[str, Mapping[str, Won]], base: str) -> Table:
    metrics = list(next(iter(won.values())))
    head = [f"{metric} {what}" for metric in metrics for what in ("won", "tied", "lost")]
    rows = [
        [name, *(number for of in by_metric.values() for number in (of.won, of.tied, of.lost))]
        for name, by_metric in won.items()
    ]
    return make_table([f"Sentences, against {base}", *head], rows)
